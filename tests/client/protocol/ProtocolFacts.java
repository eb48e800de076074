import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RefreshRetriableException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.Errors;

/**
 * Prints what stands in Kafka's code and in no definition file, one fact a line:
 *
 *     error code name retriable refresh-metadata refresh-coordinator
 *     api key name highest-stable-version
 *     headers key version request-header-version response-header-version
 */
public class ProtocolFacts {
    public static void main(String[] args) {
        for (Errors error : Errors.values()) {
            Exception exception = error.exception();
            boolean metadata = exception instanceof InvalidMetadataException;
            boolean coordinator = exception instanceof RefreshRetriableException && !metadata;
            System.out.println(String.join(" ", "error", "" + error.code(), error.name(),
                "" + (exception instanceof RetriableException), "" + metadata, "" + coordinator));
        }
        for (ApiMessageType api : ApiMessageType.values()) {
            short highest = api.highestSupportedVersion(false);
            System.out.println("api " + api.apiKey() + " " + api.name + " " + highest);
            for (short version = api.lowestSupportedVersion(); version >= 0 && version <= highest; version++) {
                System.out.println("headers " + api.apiKey() + " " + version + " "
                    + api.requestHeaderVersion(version) + " " + api.responseHeaderVersion(version));
            }
        }
    }
}
