import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Says what Kafka's own classes make of messages. A line on standard input is
 *
 *     class <tab> version <tab> the message as JSON <tab> its bytes in hex
 *
 * and the line that answers it
 *
 *     the bytes that Kafka writes for the JSON, in hex <tab> the JSON that Kafka makes of the bytes
 */
public class GoldenMessages {
    public static void main(String[] args) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", -1);
            short version = Short.parseShort(parts[1]);
            Class<?> type = Class.forName(parts[0]);
            Class<?> converter = Class.forName(parts[0] + "JsonConverter");

            Message read = (Message) converter.getMethod("read", JsonNode.class, short.class)
                .invoke(null, mapper.readTree(parts[2]), version);
            ObjectSerializationCache cache = new ObjectSerializationCache();
            byte[] bytes = new byte[read.size(cache, version)];
            read.write(new ByteBufferAccessor(ByteBuffer.wrap(bytes)), cache, version);

            Message parsed = (Message) type.getConstructor().newInstance();
            ByteBuffer buffer = ByteBuffer.wrap(HexFormat.of().parseHex(parts[3]));
            parsed.read(new ByteBufferAccessor(buffer), version);
            if (buffer.hasRemaining()) {
                throw new IllegalStateException(buffer.remaining() + " bytes left over: " + line);
            }
            // false: of a record set its size alone. With true, the converters write it as empty.
            Object json = converter.getMethod("write", type, short.class, boolean.class)
                .invoke(null, parsed, version, false);
            out.println(HexFormat.of().formatHex(bytes) + "\t" + mapper.writeValueAsString(json));
        }
        out.flush();
    }
}
