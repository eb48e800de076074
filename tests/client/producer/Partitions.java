import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.utils.Utils;

/** For each key in hex: Java's murmur2, and the partition that the built-in partitioner chooses among so many. */
public class Partitions {
    public static void main(String[] counts) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line; (line = in.readLine()) != null;) {
            byte[] key = HexFormat.of().parseHex(line);
            out.append(Utils.murmur2(key));
            for (String count : counts) {
                out.append(' ').append(BuiltInPartitioner.partitionForKey(key, Integer.parseInt(count)));
            }
            out.append('\n');
        }
        System.out.print(out);
    }
}
