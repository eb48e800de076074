import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.requests.DescribeConfigsResponse;
import org.apache.kafka.clients.admin.*;

/** Prints the names and numbers of the Java client's enums, one a line. */
public class EnumFacts {
    public static void main(String[] args) {
        for (AclOperation o : AclOperation.values()) System.out.println("AclOperation " + o + " " + o.code());
        for (AclPermissionType o : AclPermissionType.values()) System.out.println("PermissionType " + o + " " + o.code());
        for (ResourceType o : ResourceType.values()) System.out.println("ResourceType " + o + " " + o.code());
        for (PatternType o : PatternType.values()) System.out.println("PatternType " + o + " " + o.code());
        for (ConfigResource.Type o : ConfigResource.Type.values())
            System.out.println("ConfigResourceType " + o + " " + o.id());
        for (DescribeConfigsResponse.ConfigType o : DescribeConfigsResponse.ConfigType.values())
            System.out.println("ConfigType " + o + " " + o.id());
        for (ScramMechanism o : ScramMechanism.values()) System.out.println("ScramMechanism " + o + " " + o.type());
        for (FeatureUpdate.UpgradeType o : FeatureUpdate.UpgradeType.values())
            System.out.println("UpgradeType " + o + " " + o.code());
    }
}
