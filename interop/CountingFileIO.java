package icehose.interop;

import java.io.IOException;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.io.PositionOutputStream;
import org.apache.iceberg.io.SeekableInputStream;

/**
 * Counts the bytes that Iceberg reads and writes, per table and kind of file: for io-impl of a
 * catalog of Spark that runs in one process.
 *
 * <p>Its files and streams are neither Hadoop's nor RangeReadable, so that Parquet takes nothing
 * but ordinary reads through them: what is asked for is counted, not what a cache or a
 * read-ahead below makes of it.
 */
public final class CountingFileIO extends HadoopFileIO {
  private static final Map<String, LongAdder> COUNTS = new ConcurrentHashMap<>();

  public CountingFileIO() {}

  /** The bytes since the last call: "TABLE KIND read" or "TABLE KIND written" and how many. */
  public static Map<String, Long> take() {
    Map<String, Long> out = new TreeMap<>();
    COUNTS.forEach(
        (name, count) -> {
          long n = count.sumThenReset();
          if (n > 0) {
            out.put(name, n);
          }
        });
    return out;
  }

  /** The counter of a file: that of the folder two above it, and of its kind. */
  private static LongAdder counter(String path, String direction) {
    String kind = path.contains("/metadata/") ? "metadata" : "data";
    if (kind.equals("data") && path.endsWith("-deletes.parquet")) {
      kind = "deletes";
    }
    int end = path.lastIndexOf(kind.equals("metadata") ? "/metadata/" : "/data/");
    String table = end < 0 ? path : path.substring(path.lastIndexOf('/', end - 1) + 1, end);
    return COUNTS.computeIfAbsent(table + " " + kind + " " + direction, name -> new LongAdder());
  }

  @Override
  public InputFile newInputFile(String path) {
    return new CountedInput(super.newInputFile(path));
  }

  @Override
  public InputFile newInputFile(String path, long length) {
    return new CountedInput(super.newInputFile(path, length));
  }

  @Override
  public OutputFile newOutputFile(String path) {
    return new CountedOutput(super.newOutputFile(path));
  }

  private record CountedInput(InputFile file) implements InputFile {
    @Override
    public long getLength() {
      return file.getLength();
    }

    @Override
    public String location() {
      return file.location();
    }

    @Override
    public boolean exists() {
      return file.exists();
    }

    @Override
    public SeekableInputStream newStream() {
      return new CountedInputStream(file.newStream(), counter(file.location(), "read"));
    }
  }

  private static final class CountedInputStream extends SeekableInputStream {
    private final SeekableInputStream in;
    private final LongAdder count;

    CountedInputStream(SeekableInputStream in, LongAdder count) {
      this.in = in;
      this.count = count;
    }

    @Override
    public long getPos() throws IOException {
      return in.getPos();
    }

    @Override
    public void seek(long position) throws IOException {
      in.seek(position);
    }

    @Override
    public int read() throws IOException {
      int b = in.read();
      if (b >= 0) {
        count.increment();
      }
      return b;
    }

    @Override
    public int read(byte[] into, int offset, int length) throws IOException {
      int n = in.read(into, offset, length);
      if (n > 0) {
        count.add(n);
      }
      return n;
    }

    @Override
    public void close() throws IOException {
      in.close();
    }
  }

  private record CountedOutput(OutputFile file) implements OutputFile {
    @Override
    public PositionOutputStream create() {
      return counted(file.create());
    }

    @Override
    public PositionOutputStream createOrOverwrite() {
      return counted(file.createOrOverwrite());
    }

    @Override
    public String location() {
      return file.location();
    }

    @Override
    public InputFile toInputFile() {
      return new CountedInput(file.toInputFile());
    }

    private PositionOutputStream counted(PositionOutputStream out) {
      return new CountedOutputStream(out, counter(file.location(), "written"));
    }
  }

  private static final class CountedOutputStream extends PositionOutputStream {
    private final PositionOutputStream out;
    private final LongAdder count;

    CountedOutputStream(PositionOutputStream out, LongAdder count) {
      this.out = out;
      this.count = count;
    }

    @Override
    public long getPos() throws IOException {
      return out.getPos();
    }

    @Override
    public void write(int b) throws IOException {
      out.write(b);
      count.increment();
    }

    @Override
    public void write(byte[] from, int offset, int length) throws IOException {
      out.write(from, offset, length);
      count.add(length);
    }

    @Override
    public void flush() throws IOException {
      out.flush();
    }

    @Override
    public void close() throws IOException {
      out.close();
    }
  }
}
