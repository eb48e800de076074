import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.tools.consumer.group.ConsumerGroupCommand;

/**
 * Java's own consumers, driven by lines on standard input; words are parted by tabs:
 *
 *     open name topic key=value …    a consumer in a thread of its own; every assignment comes as "name owns t-0 t-1 …"
 *     close name                     it leaves its group; "name closed"
 *     groups name argument …         what Kafka's consumer-groups tool prints, line by line as "name | line", then "name done"
 *
 * The end of standard input ends the program.
 */
public class Members {
    private static final Map<String, Member> MEMBERS = new ConcurrentHashMap<>();
    private static final PrintStream OUT = System.out;

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t");
            switch (words[0]) {
                case "open" -> MEMBERS.put(words[1], new Member(words));
                case "close" -> MEMBERS.remove(words[1]).end();
                case "groups" -> groups(words);
                default -> throw new IllegalArgumentException(line);
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static void say(String line) {
        synchronized (OUT) {
            OUT.println(line);
            OUT.flush();
        }
    }

    private static void groups(String[] words) {
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        System.setOut(new PrintStream(printed, true));
        ConsumerGroupCommand.main(List.of(words).subList(2, words.length).toArray(new String[0]));
        System.setOut(OUT);
        printed.toString().lines().forEach(line -> say(words[1] + " | " + line));
        say(words[1] + " done");
    }

    private static final class Member extends Thread implements ConsumerRebalanceListener {
        private final String topic;
        private final KafkaConsumer<byte[], byte[]> consumer;
        private volatile boolean open = true;

        Member(String[] words) {
            super(words[1]);
            topic = words[2];
            Properties properties = new Properties();
            for (int at = 3; at < words.length; at++) {
                String[] pair = words[at].split("=", 2);
                properties.put(pair[0], pair[1]);
            }
            consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            setDaemon(true);
            start();
        }

        void end() {
            open = false;
        }

        @Override
        public void run() {
            try (consumer) {
                consumer.subscribe(List.of(topic), this);
                while (open) {
                    consumer.poll(Duration.ofMillis(100));
                }
            } catch (RuntimeException error) {
                say(getName() + " failed " + error);
            }
            say(getName() + " closed");
        }

        private void tell(Collection<TopicPartition> without) {
            String owned = consumer.assignment().stream()
                .filter(tp -> !without.contains(tp))
                .map(TopicPartition::toString)
                .sorted()
                .collect(Collectors.joining(" "));
            say(getName() + " owns " + owned);
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            tell(List.of());
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            tell(partitions);
        }
    }
}
