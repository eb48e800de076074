"""Reports of a run: an HTML page, metrics for Prometheus, events for OpenLineage.

options    --report, --metrics-file, --push-gateway; the job file's `reporting:` section
reporter   the listener that records a run, and writes all reports when it has ended or failed
page       the report as one HTML file          charts   its charts, as SVG
metrics    Prometheus' text format, a file or a gateway
lineage    OpenLineage events, through its official client
"""
