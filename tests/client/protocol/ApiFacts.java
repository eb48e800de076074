import org.apache.kafka.common.message.ApiMessageType;

/**
 * Prints what stands in the generated code of APIs and in no definition file, one fact a line. Old clients run it too.
 *
 *     api key name highest-stable-version
 *     headers key version request-header-version response-header-version
 */
public class ApiFacts {
    public static void main(String[] args) {
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
