import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Says what Java's own assignors make of groups. A line on standard input is
 *
 *     {"assignor": name, "topics": {topic: [[rack, …], …]}, "members": [{"id", "topics", "owned", "generation",
 *      "user_data", "rack", "instance"}, …]}
 *
 * and the line that answers it is {member: ["topic-partition", …]} in Java's own order.
 */
public class Assignors {
    public static void main(String[] args) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode asked = mapper.readTree(line);
            ObjectNode answer = mapper.createObjectNode();
            // A map of the very kind that the consumer's coordinator makes: ties are broken by its order.
            Map<String, Subscription> members = new HashMap<>();
            for (JsonNode member : asked.get("members")) {
                members.put(member.get("id").asText(), subscription(member));
            }
            assignor(asked.get("assignor").asText())
                .assign(cluster(asked.get("topics")), new GroupSubscription(members))
                .groupAssignment()
                .forEach((id, assignment) -> {
                    ArrayNode partitions = answer.putArray(id);
                    assignment.partitions().forEach(tp -> partitions.add(tp.toString()));
                });
            out.println(mapper.writeValueAsString(answer));
        }
        out.flush();
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException(name);
        };
    }

    private static Subscription subscription(JsonNode member) {
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(topic -> topics.add(topic.asText()));
        List<TopicPartition> owned = new ArrayList<>();
        member.get("owned").forEach(tp -> owned.add(new TopicPartition(tp.get(0).asText(), tp.get(1).asInt())));
        ByteBuffer userData = member.get("user_data").isNull()
            ? null
            : ByteBuffer.wrap(HexFormat.of().parseHex(member.get("user_data").asText()));
        Optional<String> rack = Optional.ofNullable(member.get("rack").asText(null));
        Subscription subscription =
            new Subscription(topics, userData, owned, member.get("generation").asInt(), rack);
        subscription.setGroupInstanceId(Optional.ofNullable(member.get("instance").asText(null)));
        return subscription;
    }

    private static Cluster cluster(JsonNode topics) {
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.fields().forEachRemaining(topic -> {
            for (int number = 0; number < topic.getValue().size(); number++) {
                List<Node> replicas = new ArrayList<>();
                for (JsonNode rack : topic.getValue().get(number)) {
                    replicas.add(new Node(replicas.size(), "host", 9092, rack.asText()));
                }
                Node[] nodes = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), number, null, nodes, nodes));
            }
        });
        return new Cluster("id", Collections.emptyList(), partitions, Collections.emptySet(), Collections.emptySet());
    }
}
