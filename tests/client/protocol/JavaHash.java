import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.utils.Utils;

/** For each line, a key as UTF-16 code units in hexadecimal, a tab and a count: the partition that Kafka works out. */
public class JavaHash {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t");
            StringBuilder key = new StringBuilder();
            for (int at = 0; at < parts[0].length(); at += 4) {
                key.append((char) Integer.parseInt(parts[0].substring(at, at + 4), 16));
            }
            System.out.println(Utils.abs(key.toString().hashCode()) % Integer.parseInt(parts[1]));
        }
    }
}
