import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;

/**
 * Record sets as Kafka's own classes write them, and what those classes read from record sets.
 *
 * Prints "set NAME HEX" and behind it what it reads from it itself: "row OFFSET TIMESTAMP TYPE KEY VALUE NAME=VALUE,…" for
 * a record, contents in hex, "-" for null; "control OFFSET TYPE" for a control record. Every line of standard input is a
 * record set in hex: answered by "given HEX" and its rows.
 */
public class JavaRecords {
    static final HexFormat HEX = HexFormat.of();
    static final long TIME = 1_500_000_000_000L;

    public static void main(String[] args) throws Exception {
        for (byte magic = 0; magic <= 2; magic++) {
            for (CompressionType type : CompressionType.values()) {
                if (magic < 2 && type == CompressionType.ZSTD) continue;
                for (TimestampType time : new TimestampType[] {TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME}) {
                    if (magic == 0 && time == TimestampType.LOG_APPEND_TIME) continue;
                    TimestampType kind = magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE : time;
                    ByteBuffer buffer = ByteBuffer.allocate(1 << 20);
                    build(buffer, magic, type, kind, 100, 40);
                    build(buffer, magic, type, kind, 150, 1);
                    String name = magic + "-" + type.name + "-" + time.name;
                    print("set", name, buffer);
                    if (time == TimestampType.CREATE_TIME) print("set", name + "-compacted", compacted(buffer));
                }
            }
        }
        ByteBuffer buffer = ByteBuffer.allocate(1 << 16);
        transactional(buffer, 0, 7L);
        marker(buffer, 3, 7L, ControlRecordType.ABORT);
        transactional(buffer, 4, 8L);
        marker(buffer, 7, 8L, ControlRecordType.COMMIT);
        print("set", "transactions", buffer);

        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ByteBuffer given = ByteBuffer.wrap(HEX.parseHex(line.strip()));
            given.position(given.limit());
            print("given", "input", given);
        }
    }

    static void build(ByteBuffer buffer, byte magic, CompressionType type, TimestampType time, long base, int count) {
        MemoryRecordsBuilder builder =
                MemoryRecords.builder(buffer.slice(), magic, Compression.of(type).build(), time, base, TIME + 77);
        for (int i = 0; i < count; i++) {
            byte[] key = i % 3 == 0 ? null : ("key-" + i).getBytes(StandardCharsets.UTF_8);
            byte[] value = i % 5 == 0 ? null : "value ".repeat(i * i).getBytes(StandardCharsets.UTF_8);
            Header[] headers = Record.EMPTY_HEADERS;
            if (magic == 2 && i % 2 == 1) {
                headers = new Header[] {
                    new RecordHeader("näme", ("h" + i).getBytes(StandardCharsets.UTF_8)),
                    new RecordHeader("null", (byte[]) null),
                };
            }
            builder.append(magic == 0 ? RecordBatch.NO_TIMESTAMP : TIME + i, key, value, headers);
        }
        MemoryRecords records = builder.build();
        buffer.position(buffer.position() + records.sizeInBytes());
    }

    static void transactional(ByteBuffer buffer, long base, long producer) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(
                buffer.slice(), RecordBatch.CURRENT_MAGIC_VALUE, Compression.NONE, TimestampType.CREATE_TIME, base, TIME,
                producer, (short) 3, 5, true, 9);
        for (int i = 0; i < 3; i++) builder.append(TIME + i, null, ("p" + producer).getBytes(StandardCharsets.UTF_8));
        buffer.position(buffer.position() + builder.build().sizeInBytes());
    }

    static void marker(ByteBuffer buffer, long offset, long producer, ControlRecordType type) {
        MemoryRecords.writeEndTransactionalMarker(
                buffer, offset, TIME, 9, producer, (short) 4, new EndTransactionMarker(type, 2));
    }

    /** As the log cleaner leaves it: every third record, and of a batch without one nothing but the header. */
    static ByteBuffer compacted(ByteBuffer buffer) {
        ByteBuffer out = ByteBuffer.allocate(1 << 20);
        readable(buffer).filterTo(new MemoryRecords.RecordFilter(TIME, 0) {
            @Override
            protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                boolean old = batch.magic() < 2; // those have no header that could outlive their records
                return new BatchRetentionResult(old ? BatchRetention.DELETE_EMPTY : BatchRetention.RETAIN_EMPTY, false);
            }

            @Override
            protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
                return record.offset() % 3 == 2;
            }
        }, out, BufferSupplier.NO_CACHING);
        return out;
    }

    static MemoryRecords readable(ByteBuffer buffer) {
        ByteBuffer copy = buffer.duplicate();
        copy.flip();
        return MemoryRecords.readableRecords(copy);
    }

    static void print(String what, String name, ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.position()];
        System.arraycopy(buffer.array(), buffer.arrayOffset(), bytes, 0, bytes.length);
        System.out.println(what + " " + name + " " + HEX.formatHex(bytes));
        for (RecordBatch batch : readable(buffer).batches()) {
            batch.ensureValid();
            for (Record record : batch) {
                record.ensureValid();
                if (batch.isControlBatch()) {
                    System.out.println("control " + record.offset() + " " + ControlRecordType.parse(record.key()));
                    continue;
                }
                StringBuilder headers = new StringBuilder();
                for (Header header : record.headers()) {
                    headers.append(HEX.formatHex(header.key().getBytes(StandardCharsets.UTF_8))).append('=');
                    headers.append(header.value() == null ? "-" : HEX.formatHex(header.value())).append(',');
                }
                System.out.println(String.join(" ", "row", Long.toString(record.offset()), Long.toString(record.timestamp()),
                        Integer.toString(batch.timestampType().id), hex(record.key()), hex(record.value()), headers));
            }
        }
    }

    static String hex(ByteBuffer content) {
        if (content == null) return "-";
        byte[] bytes = new byte[content.remaining()];
        content.duplicate().get(bytes);
        return "." + HEX.formatHex(bytes);
    }
}
