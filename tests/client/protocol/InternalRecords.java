import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.transaction.TransactionCoordinatorRecordSerde;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.serialization.BytesApiMessageSerde;
import org.apache.kafka.server.log.remote.metadata.storage.generated.MetadataRecordType;

/**
 * Reads records of internal topics with Kafka's own code and writes them again. A line on standard input is
 *
 *     topic <tab> key in hex, or - for null <tab> value in hex, or - for null
 *
 * and the line that answers it
 *
 *     key's class, or - <tab> value's class and version, or - <tab> key as written again <tab> value as written again
 *
 * After the last line follow the markers of transactions: type, key in hex, value in hex for coordinator epoch 7.
 */
public class InternalRecords {
    static final HexFormat HEX = HexFormat.of();
    static final BytesApiMessageSerde REMOTE = new BytesApiMessageSerde() {
        @Override
        public ApiMessage apiMessageFor(short key) {
            return MetadataRecordType.fromId(key).newMetadataRecord();
        }
    };

    static ByteBuffer bytes(String hex) {
        return hex.equals("-") ? null : ByteBuffer.wrap(HEX.parseHex(hex));
    }

    static String hex(byte[] data) {
        return data == null ? "-" : HEX.formatHex(data);
    }

    static String hex(ByteBuffer buffer) {
        byte[] data = new byte[buffer.remaining()];
        buffer.get(data);
        return hex(data);
    }

    static String name(ApiMessageAndVersion value) {
        return value == null ? "-" : value.message().getClass().getSimpleName() + " " + value.version();
    }

    static String viaCoordinator(CoordinatorRecordSerde serde, String key, String value) {
        CoordinatorRecord record = serde.deserialize(bytes(key), bytes(value));
        return String.join("\t", record.key().getClass().getSimpleName(), name(record.value()),
            hex(serde.serializeKey(record)), hex(serde.serializeValue(record)));
    }

    static String viaMetadata(String value) {
        MetadataRecordSerde serde = MetadataRecordSerde.INSTANCE;
        ByteBuffer data = bytes(value);
        ApiMessageAndVersion record = serde.read(new ByteBufferAccessor(data), data.remaining());
        ObjectSerializationCache cache = new ObjectSerializationCache();
        byte[] again = new byte[serde.recordSize(record, cache)];
        serde.write(record, cache, new ByteBufferAccessor(ByteBuffer.wrap(again)));
        return String.join("\t", "-", name(record), "-", hex(again));
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t");
            System.out.println(switch (parts[0]) {
                case "__consumer_offsets" -> viaCoordinator(new GroupCoordinatorRecordSerde(), parts[1], parts[2]);
                case "__transaction_state" ->
                    viaCoordinator(new TransactionCoordinatorRecordSerde(), parts[1], parts[2]);
                case "__share_group_state" -> viaCoordinator(new ShareCoordinatorRecordSerde(), parts[1], parts[2]);
                case "__cluster_metadata" -> viaMetadata(parts[2]);
                default -> {
                    ApiMessageAndVersion record = REMOTE.deserialize(HEX.parseHex(parts[2]));
                    yield String.join("\t", "-", name(record), "-", hex(REMOTE.serialize(record)));
                }
            });
        }
        for (ControlRecordType type : new ControlRecordType[] {ControlRecordType.ABORT, ControlRecordType.COMMIT}) {
            ByteBuffer value = new EndTransactionMarker(type, 7).serializeValue();
            System.out.println(String.join("\t", type.name(), hex(type.recordKey()), hex(value)));
        }
    }
}
