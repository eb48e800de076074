import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.requests.DescribeConfigsResponse;
import org.apache.kafka.common.requests.FindCoordinatorRequest;
import org.apache.kafka.common.requests.ListOffsetsRequest;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourceType;

/** Prints what Java's clients call numbers in messages: table <tab> number <tab> name. */
public class NamedValues {
    static void row(String table, int number, Object name) {
        System.out.println(table + "\t" + number + "\t" + name);
    }

    public static void main(String[] args) throws Exception {
        for (ResourceType v : ResourceType.values()) row("ACL_RESOURCES", v.code(), v);
        for (AclOperation v : AclOperation.values()) row("ACL_OPERATIONS", v.code(), v);
        for (AclPermissionType v : AclPermissionType.values()) row("ACL_PERMISSIONS", v.code(), v);
        for (PatternType v : PatternType.values()) row("ACL_PATTERNS", v.code(), v);
        for (ConfigResource.Type v : ConfigResource.Type.values()) row("CONFIG_RESOURCES", v.id(), v);
        for (DescribeConfigsResponse.ConfigSource v : DescribeConfigsResponse.ConfigSource.values())
            row("CONFIG_SOURCES", v.id(), v.source());
        for (DescribeConfigsResponse.ConfigType v : DescribeConfigsResponse.ConfigType.values())
            row("CONFIG_TYPES", v.id(), v.type());
        for (AlterConfigOp.OpType v : AlterConfigOp.OpType.values()) row("CONFIG_OPERATIONS", v.id(), v);
        for (IsolationLevel v : IsolationLevel.values()) row("ISOLATION_LEVELS", v.id(), v.name());
        for (FindCoordinatorRequest.CoordinatorType v : FindCoordinatorRequest.CoordinatorType.values())
            row("COORDINATORS", v.id(), v);
        for (ElectionType v : ElectionType.values()) row("ELECTIONS", v.value, v);
        for (ScramMechanism v : ScramMechanism.values()) row("SCRAM_MECHANISMS", v.type(), v.mechanismName());
        for (FeatureUpdate.UpgradeType v : FeatureUpdate.UpgradeType.values()) row("UPGRADES", v.code(), v);
        for (CompressionType v : CompressionType.values()) row("COMPRESSIONS", v.id, v.name());
        for (AcknowledgeType v : AcknowledgeType.values()) row("ACKNOWLEDGEMENTS", v.id, v.name());
        for (var field : ListOffsetsRequest.class.getFields())
            if (field.getName().endsWith("_TIMESTAMP") && field.getLong(null) < 0)
                row("TIMESTAMPS", (int) field.getLong(null), field.getName());
        for (ApiKeys v : ApiKeys.values()) row("APIS", v.id, v.name);
    }
}
