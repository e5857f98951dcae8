# javac, then threads, collections, strings, compression and direct buffers under two collectors.
set -eu
cat >Main.java <<'END'
import java.nio.ByteBuffer;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import java.util.zip.*;

public class Main {
    record Row(int id, String name, List<Integer> tags) {}

    static String work(int seed) throws Exception {
        Random random = new Random(seed);
        List<Row> rows = IntStream.range(0, 60000)
            .mapToObj(i -> new Row(i, "n" + random.nextInt(5000),
                List.of(random.nextInt(9), random.nextInt(99))))
            .collect(Collectors.toList());
        TreeMap<String, Long> counts = rows.stream()
            .collect(Collectors.groupingBy(Row::name, TreeMap::new, Collectors.counting()));
        byte[] text = rows.toString().getBytes();
        CRC32 crc = new CRC32();
        for (int i = 0; i < 40; i++) {
            Deflater deflater = new Deflater(i % 9 + 1);
            deflater.setInput(text, i * 1000, 30000);
            deflater.finish();
            ByteBuffer direct = ByteBuffer.allocateDirect(64 * 1024 + i * 999);
            deflater.deflate(direct);
            deflater.end();
            crc.update(direct.flip());
        }
        return seed + " " + counts.size() + " " + counts.firstEntry() + " " + crc.getValue();
    }

    public static void main(String[] args) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<String>> results = new ArrayList<>();
        for (int seed = 1; seed <= 8; seed++) {
            int mine = seed;
            results.add(pool.submit(() -> work(mine)));
        }
        for (Future<String> result : results) {
            System.out.println(result.get());
        }
        pool.shutdown();
        System.out.println(IntStream.rangeClosed(1, 500000).parallel().mapToLong(i -> i % 7).sum());
        Files.copy(Path.of("/proc/self/maps"), Path.of("mapped/" + args[0]));
    }
}
END
javac -d out Main.java
java -cp out Main java-default
java -XX:+UseSerialGC -Xmx256m -cp out Main java-serial
