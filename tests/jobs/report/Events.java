import io.openlineage.client.OpenLineage;
import io.openlineage.client.OpenLineageClientUtils;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Reads run events, a line each, as OpenLineage's own classes; prints what these understood, a JSON object each. */
public class Events {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(OpenLineageClientUtils.toJson(understood(OpenLineageClientUtils.runEventFromJson(line))));
        }
    }

    private static Map<String, Object> understood(OpenLineage.RunEvent event) {
        Map<String, Object> told = new TreeMap<>();
        List<String> unknown = new ArrayList<>();
        told.put("type", event.getEventType().name());
        told.put("run", event.getRun().getRunId().toString());
        told.put("job", event.getJob().getNamespace() + " " + event.getJob().getName());

        OpenLineage.RunFacets run = event.getRun().getFacets();
        unknown.addAll(run.getAdditionalProperties().keySet());
        told.put("engine", run.getProcessing_engine().getName());
        run.getTags().getTags().forEach(tag -> told.put("tag " + tag.getKey(), tag.getValue()));
        if (run.getNominalTime() != null) {
            told.put("begins", run.getNominalTime().getNominalStartTime().toInstant().toString());
            told.put("ends", run.getNominalTime().getNominalEndTime().toInstant().toString());
        }
        if (run.getParent() != null) {
            told.put("parent", run.getParent().getJob().getName() + " " + run.getParent().getRun().getRunId());
            told.put("root", run.getParent().getRoot().getJob().getName());
        }
        if (run.getErrorMessage() != null) {
            told.put("error", run.getErrorMessage().getMessage());
        }

        OpenLineage.JobFacets job = event.getJob().getFacets();
        unknown.addAll(job.getAdditionalProperties().keySet());
        told.put("processing", job.getJobType().getProcessingType());
        told.put("owner", job.getOwnership().getOwners().get(0).getName());

        for (OpenLineage.InputDataset input : event.getInputs()) {
            unknown.addAll(input.getFacets().getAdditionalProperties().keySet());
            unknown.addAll(input.getInputFacets().getAdditionalProperties().keySet());
            told.put("input", input.getNamespace() + " " + input.getName());
            OpenLineage.InputStatisticsInputDatasetFacet statistics = input.getInputFacets().getInputStatistics();
            told.put("read", statistics == null ? null : statistics.getRowCount());
        }
        for (OpenLineage.OutputDataset output : event.getOutputs()) {
            OpenLineage.DatasetFacets facets = output.getFacets();
            unknown.addAll(facets.getAdditionalProperties().keySet());
            unknown.addAll(output.getOutputFacets().getAdditionalProperties().keySet());
            told.put("output", output.getNamespace() + " " + output.getName());
            told.put("storage", facets.getStorage().getStorageLayer() + " " + facets.getStorage().getFileFormat());
            told.put("version", facets.getVersion() == null ? null : facets.getVersion().getDatasetVersion());
            List<String> columns = new ArrayList<>();
            facets.getSchema().getFields().forEach(field -> columns.add(field.getName() + " " + field.getType()));
            told.put("columns", columns);
            OpenLineage.OutputStatisticsOutputDatasetFacet written = output.getOutputFacets().getOutputStatistics();
            told.put(
                "written",
                written == null ? null : List.of(written.getRowCount(), written.getSize(), written.getFileCount()));
        }
        told.put("unknown", unknown);
        return told;
    }
}
