"""`hakmem report` and `hakmem diff` as users call them, on files and on a process."""

import gzip
import io
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Run
from rich.console import Console
from synthetic_area import CLASSES, build, class_rows, heap, shown

from hakmem.commands.diff import print_changes
from hakmem.insight.area import Saved, load
from hakmem.insight.attaching import attach, program_of
from hakmem.insight.compare import Change
from hakmem.insight.confidence import Interval
from hakmem.insight.images import read_image
from hakmem.insight.pprof import message_class
from hakmem.insight.profile import Profile, from_area, profile_of
from hakmem.insight.symbols import Frame, Symbols
from hakmem.insight.terminal import print_report, sites_table
from hakmem.insight.views import LIVE, TOTAL, View, ranked, stacks_of
from hakmem.insight.words import size_text

OBJECT = 1024
MAPS = "560000000000-560000100000 r-xp 00000000 fe:00 12    /opt/none/app\n"
STACKS = [[0x560000000101, 0x560000000201], [0x560000000301, 0x560000000201]]


def area(samples: tuple[int, int], interval: int = 524288, peak: bool = True) -> bytes:
    return built(samples, interval, peak).data


def built(samples: tuple[int, int], interval: int = 524288, peak: bool = True):  # noqa: ANN201
    """Two call stacks with so many live samples of 1 MiB each."""
    sites, blocks, words = [], [], []
    for index, (stack, count) in enumerate(zip(STACKS, samples, strict=True)):
        sites.append(
            {
                "hash": index + 1,
                "stack": len(words),
                "depth": len(stack),
                "live_bytes": count << 20,
                "live_objects": count * OBJECT,
                "total_bytes": 2 * count << 20,
                "total_objects": 2 * count * OBJECT,
                "peak_bytes": peak * count << 20,
                "peak_objects": peak * count * OBJECT,
                "first_ms": 2000,
                "last_ms": 90_000,
                "samples": 2 * count,
                "live_samples": count,
                "lifetimes": [0, 0, count, 0, 0, 0, 0, 0],
            }
        )
        words += [{"address": address} for address in stack]
        blocks += [
            {
                "address": 0x1000 * (len(blocks) + number + 1),
                "size": 1 << 20,
                "usable": 1 << 20,
                "weight_bytes": 1 << 20,
                "weight_objects": OBJECT,
                "born_ms": 3000 + number,
                "site": index,
                "tid": 7,
            }
            for number in range(count)
        ]
    process = {
        "pid": 77,
        "page_size": 4096,
        "shown_ms": 1000,
        "changed_ms": 100_000,
        "interval": interval,
        "samples": sum(samples),
    }
    return build(
        {
            "process": [process],
            "settings": [{"retain": 5}],
            "sites": sites,
            "stacks": words,
            "blocks": blocks,
            "timeline": [{"ms": 1000, "live_bytes": 1}, {"ms": 2000, "live_bytes": 2}],
        }
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "heap.77"
    path.write_bytes(area((30, 10)) + MAPS.encode() + b"build-id 560000000000 abcd\n")
    return path


def test_profile_of_a_file(file: Path) -> None:
    profile: Profile = profile_of(str(file))
    assert [site.stack for site in profile.sites] == [tuple(stack) for stack in STACKS]
    assert (profile.sites[0].live_objects, profile.sites[0].lifetimes[2]) == (30.0, 30)
    assert len(profile.blocks) == 40
    assert profile.blocks[0].weight_objects == 1.0
    assert (profile.age_ms, profile.command) == (99_000, "/opt/none/app")
    assert profile.modules[0].build_id == "abcd"
    assert [point.live_bytes for point in profile.timeline] == [1, 2]
    assert profile.taken_at == file.stat().st_mtime


def test_a_process_of_another_namespace_has_the_id_that_it_was_asked_by(file: Path) -> None:
    area = replace(load(file), seen_as=4711)
    profile = from_area(area)
    assert (profile.pid, profile.page["pid"]) == (4711, 77)


def test_table(hakmem: Run, file: Path) -> None:
    result = hakmem("report", file, environment={"COLUMNS": "140"})
    assert result.returncode == 0, result.stderr
    assert "/opt/none/app (process 77)" in result.stdout
    assert "40.0 MiB live now" in result.stdout
    # Of the 80 since the start.
    assert "from 40 samples" in " ".join(result.stdout.split())
    rows = [line for line in result.stdout.splitlines() if "app+0x" in line]
    assert ["30.0 MiB" in rows[0], "10.0 MiB" in rows[1], "app+0x100" in rows[0]] == [True] * 3
    assert "No leak suspects" in result.stdout
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize("width", [36, 40, 60, 79])
@pytest.mark.parametrize("view", [LIVE, TOTAL])
def test_who_allocated_is_there_however_narrow_the_terminal_is(
    file: Path, width: int, view: View
) -> None:
    profile = profile_of(str(file))
    stacks = stacks_of(profile, Symbols(profile.modules))
    shown = io.StringIO()
    table = sites_table(profile, stacks, view, profile.live)
    Console(file=shown, width=width).print(table)
    lines = [line.rstrip() for line in shown.getvalue().splitlines()]
    assert any(line.endswith("allocated by") for line in lines)
    for stack, name in zip(ranked(stacks, view), ("app+0x100", "app+0x300"), strict=True):
        row = rf"\s*{size_text(stack.bytes(view))}  .*{re.escape(name)}( <.*)?"
        assert any(re.fullmatch(row, line) for line in lines), lines


def test_what_is_live_is_counted_where_samples_are_far_apart(hakmem: Run, file: Path) -> None:
    """And not what the last of them stood for."""
    index, size = next((i, s) for i, (s, _) in enumerate(CLASSES) if s >= 1024)
    made = build(
        {
            "process": [{"pid": 77, "page_size": 4096, "interval": 64 << 20}],
            "settings": [{"profile_interval": 512 << 10, "profile_rate": 500}],
            "sites": [{"total_bytes": 64 << 20, "total_objects": OBJECT, "samples": 1}],
            "timeline": [{"ms": 1000, "live_bytes": 64 << 20}],
            "classes": class_rows(),
            "heaps": [heap(4096, 77, by_class={index: ((12 << 20) // size, 200, 3200, 0)})],
        }
    )
    file.write_bytes(made.data + MAPS.encode())
    text = " ".join(hakmem("report", file).stdout.split())
    assert "12.0 MiB are live, and samples 64.0 MiB apart" in text


def test_a_command_cannot_command_the_terminal(hakmem: Run, file: Path) -> None:
    """Neither what a process was started as nor the version that its area shows."""
    saved = Saved(50_000, 1, "app 'a\n\x1b]0;title\x07b'").line()
    head = area((30, 10)).replace(b"9.9.9\0", b"9\x1b[9m\0")
    file.write_bytes(head + MAPS.encode() + saved.encode())
    page = file.with_name("page.html")
    result = hakmem("report", file, "--html", page)
    assert result.returncode == 0, result.stderr
    texts = [page.read_text(), *(hakmem(name, file).stdout for name in ("report", "stats"))]
    assert not any("\x1b" in text or "\x07" in text for text in texts)
    assert "app 'a ]0;title b'" in texts[1]


@pytest.mark.parametrize("command", [["report"], ["stats"], ["rules"], ["doctor", "--"]])
def test_names_in_messages_are_in_one_line(hakmem: Run, command: list[str]) -> None:
    result = hakmem(*command, "no\n\x1b[31mname")
    assert result.returncode != 0
    assert r"no\n\x1b[31mname" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_single_sample(hakmem: Run, file: Path) -> None:
    file.write_bytes(area((1, 0)) + MAPS.encode())
    assert "from 1 sample\n" in hakmem("report", file, environment={"COLUMNS": "140"}).stdout


def test_nothing_is_folded_where_no_terminal_is(hakmem: Run, file: Path) -> None:
    """What somebody looks for is in one line."""
    name = "a_program_of_" + "many_" * 40 + "parts"
    file.write_bytes(area((30, 10)) + MAPS.replace("app", name).encode())
    later = file.with_name("later")
    later.write_bytes(area((30, 20)) + MAPS.replace("app", name).encode())
    for arguments in (["report", file], ["diff", file, later]):
        lines = hakmem(*arguments).stdout.splitlines()
        assert any(f"{name}+0x300" in line for line in lines)
        assert not any(line.endswith(" ") for line in lines)


def test_brackets_in_a_command_are_no_mark_up(hakmem: Run, file: Path) -> None:
    file.write_bytes(area((30, 10)) + MAPS.replace("none/app", "none/[/b]app").encode())
    result = hakmem("report", file, environment={"COLUMNS": "140"})
    assert "/opt/none/[/b]app (process 77)" in result.stdout


def test_json(hakmem: Run, file: Path) -> None:
    result = hakmem("report", file, "--view", "total", "--json")
    found = json.loads(result.stdout)
    assert found["totals"]["total"]["value"] == 80 << 20
    assert [site["bytes"] for site in found["sites"]] == [60 << 20, 20 << 20]
    assert found["suspects"] == []


def test_memory_that_was_never_tight(hakmem: Run, file: Path) -> None:
    result = hakmem("report", file, "--view", "tight")
    assert "Memory was never tight" in result.stdout
    assert "allocated by" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["stats", ""], 1),
        (["why", ""], 1),
        (["report", ""], 1),
        (["report", "--html", "", "1"], 2),
        (["run", "--report", "", "--", "true"], 125),
        (["run", "--", ""], 127),
    ],
)
def test_empty_names(hakmem: Run, marker_library: Path, arguments: list[str], status: int) -> None:
    if arguments[0] == "run":
        arguments = ["run", "--library", str(marker_library), *arguments[1:]]
    result = hakmem(*arguments)
    assert result.returncode == status
    assert "''" in result.stderr


def test_peak_of_what_only_grows(tmp_path: Path) -> None:
    """No peak is over yet: it is now."""
    path = tmp_path / "growing"
    path.write_bytes(area((30, 10), peak=False) + MAPS.encode())
    profile = profile_of(str(path))
    assert [site.peak_bytes for site in profile.sites] == [30 << 20, 10 << 20]
    assert profile.peak.value == 40 << 20


def test_files(hakmem: Run, file: Path, tmp_path: Path) -> None:
    names = {
        kind: tmp_path / f"out.{kind}" for kind in ("pprof", "collapsed", "speedscope", "html")
    }
    options = [word for kind, path in names.items() for word in (f"--{kind}", path)]
    result = hakmem("report", file, *options)
    assert result.returncode == 0, result.stderr
    assert result.stdout == ""
    assert gzip.decompress(names["pprof"].read_bytes())
    assert names["collapsed"].read_text().startswith(f"app+0x200;app+0x100 {30 << 20}\n")
    assert json.loads(names["speedscope"].read_text())["profiles"]
    assert "40.0 MiB live" in names["html"].read_text(encoding="utf-8")


def content(path: Path) -> bytes:
    """Without the moment that gzip notes."""
    data = path.read_bytes()
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


@pytest.mark.parametrize(
    "words",
    [
        *(["report", f"--{kind}"] for kind in ("html", "pprof", "collapsed", "speedscope", "save")),
        *(["diff", "BEFORE", f"--{kind}"] for kind in ("html", "collapsed")),
    ],
    ids="-".join,
)
def test_dash_is_standard_output(file: Path, tmp_path: Path, words: list[str]) -> None:
    """Byte for byte, and nothing else stands there."""
    words = [str(file) if word == "BEFORE" else word for word in words]
    printed, kept = tmp_path / "printed", tmp_path / "kept"
    command = [sys.executable, "-I", "-m", "hakmem", *words]
    with printed.open("wb") as output:
        done = subprocess.run(
            [*command, "-", file], stdout=output, stderr=subprocess.PIPE, cwd=tmp_path
        )
    assert done.returncode == 0
    assert b"written" not in done.stderr
    subprocess.run([*command, kept, file], check=True)
    assert content(printed) == content(kept)
    assert not (tmp_path / "-").exists()


def test_what_stands_in_standard_output_stays(file: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("precious\n")
    command = [sys.executable, "-I", "-m", "hakmem", "report", file, "--collapsed", "/dev/stdout"]
    with log.open("a") as output:
        done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    assert log.read_text().startswith("precious\napp+0x200;app+0x100 ")


def test_links_in_a_circle_are_no_file(hakmem: Run, file: Path, tmp_path: Path) -> None:
    page = tmp_path / "page"
    page.symlink_to(page)
    done = hakmem("report", file, "--html", page)
    assert done.returncode == 1
    assert done.stderr.endswith(f"cannot write '{page}': Too many levels of symbolic links\n")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["report", "--html", "-", "--pprof", "-"], "--html -, --pprof -"),
        (["report", "--save", "-", "--json"], "--save -, --json"),
        (["diff", "FILE", "--html", "-", "--collapsed", "-"], "--html -, --collapsed -"),
        (["rules", "--output", "-", "--json"], "--output -, --json"),
    ],
)
def test_standard_output_is_for_one(hakmem: Run, file: Path, words: list[str], named: str) -> None:
    done = hakmem(*(file if word == "FILE" else word for word in words), file)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{named}: standard output takes one of them" in " ".join(done.stderr.split())


def test_few_samples_do_not_clear(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"profile_interval": 512 << 10}
    profile = replace(profile_of(str(file)), settings=settings, interval=3 << 20)
    assert not profile.is_coarse
    print_report(profile, [], [], LIVE)
    said = " ".join(capsys.readouterr().out.split())
    assert "that are 3.00 MiB apart: what has grown by less than 30.0 MiB is not seen" in said
    print_report(replace(profile, interval=512 << 10), [], [], LIVE)
    assert "nothing survives" in capsys.readouterr().out


def test_a_file_is_written_once(hakmem: Run, file: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    same = hakmem("report", file, "--html", out, "--pprof", str(tmp_path / "." / "out"))
    assert same.returncode == 2
    assert "--pprof and --html are the same file" in " ".join(same.stderr.split())
    before = file.read_bytes()
    over = hakmem("report", file, "--html", str(file))
    assert over.returncode == 2
    assert f"--html and {file} are the same file" in over.stderr.replace("\n", " ")
    assert file.read_bytes() == before
    assert not Path(out).exists()
    compared = hakmem("diff", file, file, "--collapsed", str(file))
    assert compared.returncode == 2
    assert file.read_bytes() == before
    both = hakmem("report", file, "--html", "/dev/null", "--pprof", "/dev/null")
    assert both.returncode == 0, both.stderr


# Whatever these tests are run by may ignore the signals, as nohup does.
HALF_WRITTEN = """
import signal, sys, time
from hakmem import cli, written
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
def write(path, data):
    path.write_bytes(data[:1])
    print("begun", flush=True)
    time.sleep(100)
written._write_with_holes = write
cli.main(sys.argv[1:])
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_nothing_half_written_stays(file: Path, number: signal.Signals) -> None:
    words = ["report", str(file), "--collapsed", str(file.with_name("out"))]
    with subprocess.Popen(
        [sys.executable, "-c", HALF_WRITTEN, *words], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        assert len(list(file.parent.iterdir())) == 2
        process.send_signal(number)
        # By the signal, as who has sent it expects; the keyboard's is a number of its own.
        assert process.wait(60) == (0 if number == signal.SIGINT else -number)
    assert list(file.parent.iterdir()) == [file]


def test_report_of_a_run_is_not_mixed_with_its_output(hakmem: Run, marker_library: Path) -> None:
    words = ("--library", marker_library, "--report", "-", "--", "echo", "hello")
    done = hakmem("run", *words)
    assert (done.returncode, done.stdout) == (125, "")
    assert "--report -: standard output is CMD's own; name a file" in done.stderr


def test_files_with_names_that_are_no_utf_8(hakmem: Run, file: Path, tmp_path: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"none/app", b"none/\xffapp"))
    outputs = [tmp_path / f"out.{kind}" for kind in ("pprof", "collapsed", "speedscope", "html")]
    options = [word for path in outputs for word in (f"--{path.suffix[1:]}", path)]
    for arguments in (["report", file], ["report", file, *options], ["why", file]):
        result = hakmem(*arguments)
        assert result.returncode == 0, result.stderr
    assert f"\N{REPLACEMENT CHARACTER}app+0x100 {30 << 20}\n" in outputs[1].read_text()
    folded, page = tmp_path / "diff.folded", tmp_path / "diff.html"
    result = hakmem("diff", file, file, "--collapsed", folded, "--html", page, "--json")
    assert result.returncode == 0, result.stderr
    named = file.rename(tmp_path / os.fsdecode(b"heap.\xff"))
    assert hakmem("why", named).returncode == 0


def test_a_running_process_is_kept(hakmem: Run, tmp_path: Path) -> None:
    """As the file that it would write at its end: the same tables, and what addresses mean."""
    before, once_more = tmp_path / "before.heap", tmp_path / "again.heap"
    with shown(built((40, 9)), tmp_path) as pid:
        done = hakmem("report", str(pid), "--save", str(before))
        assert (done.returncode, done.stdout) == (0, "")
        running = attach(pid)
        program = Path(f"/proc/{pid}/exe").readlink()
    found = load(before)
    assert {name: t.data for name, t in found.tables.items()} == {
        name: t.data for name, t in running.tables.items()
    }
    assert str(program) in found.maps_text
    assert "Rss:" in found.maps_text
    assert program_of(found) == str(program)
    image = read_image(program)
    assert image is not None
    assert image.build_id in found.build_ids.values()
    assert stat.S_IMODE(before.stat().st_mode) == 0o600
    assert before.stat().st_blocks * 512 < before.stat().st_size
    done = hakmem("diff", str(before), str(before), "--json")
    assert not any(stack["bytes"] for stack in json.loads(done.stdout))
    assert hakmem("report", str(before), "--save", str(once_more)).returncode == 0
    assert once_more.read_bytes() == before.read_bytes()


def test_what_is_kept_has_its_moment_and_its_command(hakmem: Run, tmp_path: Path) -> None:
    """Of a process in which nothing has changed for long, as most of a leak's life."""
    path, pprof = tmp_path / "kept.heap", tmp_path / "kept.pb.gz"
    with shown(built((40, 9)), tmp_path) as pid:
        assert hakmem("report", str(pid), "--save", str(path)).returncode == 0
        now_ms = time.monotonic_ns() // 1_000_000
        running = json.loads(hakmem("report", str(pid), "--json").stdout)
    os.utime(path, (0, 0))
    kept = json.loads(hakmem("report", path, "--json").stdout)
    assert kept["command"] == running["command"]
    shown_ms = load(path).row("process")["shown_ms"]
    assert isinstance(shown_ms, int)
    assert now_ms - shown_ms - 60_000 < kept["age_ms"] <= now_ms - shown_ms
    assert hakmem("report", path, "--pprof", pprof).returncode == 0
    message = message_class("Profile")()
    message.ParseFromString(gzip.decompress(pprof.read_bytes()))
    assert message.duration_nanos == kept["age_ms"] * 1_000_000
    assert abs(message.time_nanos / 1e9 - time.time()) < 60
    stats = json.loads(hakmem("stats", path, "--json").stdout)
    assert stats["uptime_ms"] == kept["age_ms"]


@pytest.mark.parametrize(
    "line",
    ["saved 1 99999999999 x", 'saved 1 9999999999 "x"', 'saved 2 3 "', r'saved 2 3 "\ud800"'],
)
def test_a_damaged_moment(hakmem: Run, file: Path, line: str) -> None:
    file.write_bytes(file.read_bytes() + f"{line}\n".encode())
    pprof = file.with_name("out.pb.gz")
    for arguments in (["report", file], ["report", file, "--pprof", pprof]):
        done = hakmem(*arguments)
        assert done.returncode == 0, done.stderr


def test_an_older_kept_file_is_read(hakmem: Run, file: Path) -> None:
    """Without the moment: that of the last change."""
    assert load(file).saved is None
    assert json.loads(hakmem("report", file, "--json").stdout)["age_ms"] > 0


def test_running_process(hakmem: Run, tmp_path: Path) -> None:
    with shown(built((30, 10)), tmp_path) as pid:
        result = hakmem("report", str(pid), "--json")
        assert result.returncode == 0, result.stderr
        found = json.loads(result.stdout)
    assert found["pid"] == pid
    assert " -I -c " in found["command"]


@pytest.mark.parametrize(
    ("interval", "message"), [(0, "HAKMEM_PROFILE=1"), (524288, "HAKMEM_PROFILE_INTERVAL")]
)
def test_empty_profile_says_why(hakmem: Run, tmp_path: Path, interval: int, message: str) -> None:
    path = tmp_path / "empty"
    path.write_bytes(area((0, 0), interval) + MAPS.encode())
    result = hakmem("report", path)
    assert result.returncode == 1
    assert message in result.stderr


def test_diff(hakmem: Run, file: Path, tmp_path: Path) -> None:
    later = tmp_path / "later"
    later.write_bytes(area((30, 90)) + MAPS.encode())
    result = hakmem("diff", file, later, environment={"COLUMNS": "140"})
    assert result.returncode == 0, result.stderr
    (row,) = [line for line in result.stdout.splitlines() if line.startswith("+80.0 MiB")]
    assert "app+0x300" in row
    assert row.startswith("+80.0 MiB   ")
    folded, page = tmp_path / "diff.folded", tmp_path / "diff.html"
    result = hakmem("diff", file, later, "--collapsed", folded, "--html", page, "--json")
    assert [one["bytes"] for one in json.loads(result.stdout)] == [80 << 20, 0]
    assert f"app+0x200;app+0x300 {10 << 20} {90 << 20}\n" in folded.read_text()
    assert "80.0 MiB more live now" in page.read_text(encoding="utf-8")


def test_diff_of_nothing(hakmem: Run, file: Path, tmp_path: Path) -> None:
    page = tmp_path / "diff.html"
    assert hakmem("diff", file, file).stdout == "Nothing has changed: 2 call stacks live now\n"
    assert hakmem("diff", file, file, "--html", page).returncode == 0
    assert "nothing has changed" in page.read_text(encoding="utf-8")


def test_diff_names_places_as_report_does(capsys: pytest.CaptureFixture[str]) -> None:
    make = Frame("make", "app", "/src/make.c", 7)
    main = Frame("main", "app", "/src/main.c", 9)
    changes = [
        Change(frames, make, Interval(0, 0, 0, 0), Interval(count, count, count, 20))
        for frames, count in (((make,), 5 << 20), ((make, main), 3 << 20))
    ]
    print_changes(changes, "live now")
    rows = [line.split("0 B")[1].split("MiB")[1].strip() for line in out_rows(capsys)]
    assert rows == ["make make.c:7", "make make.c:7 < main"]


def test_diff_marks_what_may_be_chance_without_colour(capsys: pytest.CaptureFixture[str]) -> None:
    make = Frame("make", "app", "/src/make.c", 7)
    before = Interval(4 << 20, 2 << 20, 8 << 20, 8)
    print_changes([Change((make,), make, before, Interval(5 << 20, 3 << 20, 9 << 20, 10))], "now")
    (row,) = out_rows(capsys)
    assert row.startswith("+1.00 MiB  ? ")


def out_rows(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith("+")]


@pytest.mark.parametrize("command", [["report"], ["diff", "1"]])
def test_what_is_not_there(hakmem: Run, command: list[str]) -> None:
    result = hakmem(*command, "/no/such/file")
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
