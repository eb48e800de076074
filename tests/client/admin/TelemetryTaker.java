import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;

/**
 * A broker's plugin that takes clients' metrics: without one, brokers do not offer the telemetry APIs at all. It appends
 * a line for each push to the file that the system property `taken` names:
 *
 *     client instance id <space> whether it was the last push <space> the metrics in hex
 *
 * `premain` does nothing: a jar that is named as an agent stands on the broker's class path.
 */
public class TelemetryTaker implements MetricsReporter, ClientTelemetry {
    public static void premain(String arguments) {
    }

    @Override
    public ClientTelemetryReceiver clientReceiver() {
        return (context, payload) -> {
            ByteBuffer data = payload.data().duplicate();
            byte[] metrics = new byte[data.remaining()];
            data.get(metrics);
            String line = String.join(" ", payload.clientInstanceId().toString(), "" + payload.isTerminating(),
                HexFormat.of().formatHex(metrics)) + "\n";
            try {
                Files.writeString(Path.of(System.getProperty("taken")), line, StandardOpenOption.CREATE,
                    StandardOpenOption.APPEND);
            } catch (IOException fault) {
                throw new UncheckedIOException(fault);
            }
        };
    }

    @Override
    public void init(List<KafkaMetric> metrics) {
    }

    @Override
    public void metricChange(KafkaMetric metric) {
    }

    @Override
    public void metricRemoval(KafkaMetric metric) {
    }

    @Override
    public void close() {
    }

    @Override
    public void configure(Map<String, ?> configs) {
    }
}
