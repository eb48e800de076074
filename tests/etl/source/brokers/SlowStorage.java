import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;

/** Tiered storage in the broker's memory, whose reads take a while as long as the file `-Dslow=` is there. */
public class SlowStorage implements RemoteStorageManager {
    private static final Map<String, byte[]> STORED = new ConcurrentHashMap<>();

    public static void premain(String arguments) {}

    @Override
    public void configure(Map<String, ?> configs) {}

    @Override
    public void close() {}

    @Override
    public Optional<CustomMetadata> copyLogSegmentData(RemoteLogSegmentMetadata of, LogSegmentData data)
            throws RemoteStorageException {
        try {
            store(of, "log", Files.readAllBytes(data.logSegment()));
            store(of, IndexType.OFFSET.name(), Files.readAllBytes(data.offsetIndex()));
            store(of, IndexType.TIMESTAMP.name(), Files.readAllBytes(data.timeIndex()));
            if (data.transactionIndex().isPresent()) {
                store(of, IndexType.TRANSACTION.name(), Files.readAllBytes(data.transactionIndex().get()));
            }
            store(of, IndexType.PRODUCER_SNAPSHOT.name(), Files.readAllBytes(data.producerSnapshotIndex()));
            ByteBuffer epochs = data.leaderEpochIndex().duplicate();
            byte[] bytes = new byte[epochs.remaining()];
            epochs.get(bytes);
            store(of, IndexType.LEADER_EPOCH.name(), bytes);
            return Optional.empty();
        } catch (IOException error) {
            throw new RemoteStorageException(error);
        }
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata of, int start) throws RemoteStorageException {
        return fetchLogSegment(of, start, Integer.MAX_VALUE - 1);
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata of, int start, int end) throws RemoteStorageException {
        if (Files.exists(Path.of(System.getProperty("slow")))) {
            try {
                Thread.sleep(1500);
            } catch (InterruptedException stopped) {
                throw new RemoteStorageException(stopped);
            }
        }
        byte[] log = stored(of, "log");
        return new ByteArrayInputStream(Arrays.copyOfRange(log, start, Math.min(log.length, end + 1)));
    }

    @Override
    public InputStream fetchIndex(RemoteLogSegmentMetadata of, IndexType kind) throws RemoteStorageException {
        return new ByteArrayInputStream(stored(of, kind.name()));
    }

    @Override
    public void deleteLogSegmentData(RemoteLogSegmentMetadata of) {
        STORED.keySet().removeIf(key -> key.startsWith(of.remoteLogSegmentId().id().toString()));
    }

    private static void store(RemoteLogSegmentMetadata of, String what, byte[] bytes) {
        STORED.put(of.remoteLogSegmentId().id() + what, bytes);
    }

    private static byte[] stored(RemoteLogSegmentMetadata of, String what) throws RemoteStorageException {
        byte[] bytes = STORED.get(of.remoteLogSegmentId().id() + what);
        if (bytes == null) {
            throw new RemoteResourceNotFoundException(what);
        }
        return bytes;
    }
}
