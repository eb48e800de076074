"""What a run leaves behind besides its rows: a page for people, metrics for Prometheus, events for OpenLineage.

options    --report, --metrics-file, --push-gateway; the job file's `reporting:` section
outlets    the one listener that gathers, and writes all of it when a run has ended or failed
page       the report as one HTML file          charts   its pictures, as SVG
metrics    Prometheus' text format, a file or a gateway
lineage    OpenLineage events, through its official client
"""
