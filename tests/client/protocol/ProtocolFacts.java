import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RefreshRetriableException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;

/**
 * Prints what stands in Kafka's code and in no definition file, one fact a line:
 *
 *     error code name retriable refresh-metadata refresh-coordinator
 *     cluster-action key
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
        for (ApiKeys api : ApiKeys.values()) {
            if (api.clusterAction) {
                System.out.println("cluster-action " + api.id);
            }
        }
    }
}
