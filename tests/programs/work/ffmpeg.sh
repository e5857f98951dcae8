# Makes test sound and pictures, filters them on two threads, encodes and decodes them.
set -eu
flags='-hide_banner -loglevel error -nostdin -threads 2 -fflags +bitexact'
exact='-fflags +bitexact -flags:v +bitexact -flags:a +bitexact -map_metadata -1'
# shellcheck disable=SC2086 # lists of options
{
    ffmpeg $flags -f lavfi -i testsrc2=size=320x240:rate=25:duration=4 \
        -f lavfi -i sine=frequency=440:duration=4 -c:v mpeg4 -threads 2 -q:v 5 -c:a flac \
        $exact out/a.mkv
    ffmpeg $flags -i out/a.mkv \
        -vf 'scale=200:150,hflip,split[x][y];[y]negate[z];[x][z]blend=average' \
        -c:v ffv1 -slices 4 -threads 2 -af 'volume=0.5,aresample=22050' \
        -c:a pcm_s16le $exact out/b.mkv
    ffmpeg $flags -i out/b.mkv -f framemd5 -
    ffmpeg $flags -i out/a.mkv -vf fps=2,tile=4x2 -frames:v 1 -c:v png out/sheet.png
    ffmpeg $flags -i out/a.mkv \
        -filter_complex '[0:a]asplit[l][r];[r]adelay=50[d];[l][d]amix' out/mix.wav
    ffprobe -loglevel error -show_streams -show_entries packet=pts,size,flags out/b.mkv
}
