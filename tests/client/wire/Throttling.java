import java.lang.reflect.Constructor;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.requests.AbstractResponse;

/** Prints "name version waits" for every API and version: whether Java's client waits after a throttled answer. */
public class Throttling {
    public static void main(String[] args) throws Exception {
        for (ApiMessageType api : ApiMessageType.values()) {
            short lowest = api.lowestSupportedVersion(), highest = api.highestSupportedVersion(true);
            AbstractResponse response = lowest > highest ? null : make(api, highest);
            for (short version = lowest; response != null && version <= highest; version++)
                System.out.println(api.name + " " + version + " " + response.shouldClientThrottle(version));
        }
    }

    /** Any instance will do: the method looks at the version alone. */
    private static AbstractResponse make(ApiMessageType api, short version) throws Exception {
        ApiMessage data = api.newResponse();
        String name = data.getClass().getSimpleName().replaceAll("Data$", "");
        if (name.equals("OffsetForLeaderEpochResponse")) name = "OffsetsForLeaderEpochResponse";
        Class<?> type;
        try {
            type = Class.forName("org.apache.kafka.common.requests." + name);
        } catch (ClassNotFoundException absent) {
            return null;  // a definition whose code is gone
        }
        for (Constructor<?> constructor : type.getDeclaredConstructors()) {
            Class<?>[] takes = constructor.getParameterTypes();
            if (takes.length == 0 || takes[0] != data.getClass()) continue;
            constructor.setAccessible(true);
            if (takes.length == 1) return (AbstractResponse) constructor.newInstance(data);
            if (takes.length == 2 && takes[1] == short.class)
                return (AbstractResponse) constructor.newInstance(data, version);
        }
        throw new IllegalStateException("no way to make a " + name);
    }
}
