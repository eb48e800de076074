"""By hand: land a stretch of offsets or of time of the topic orders.

What was asked is the run's identity: asked again, it changes nothing. `replace` lands these offsets in place of what
is there; `append` lands them once more, under a label.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from kseg_airflow.operators import KsegBackfillOperator
from kseg_examples import ENVIRONMENT, ORDERS

#: A time with a zone, or TOPIC:PARTITION:OFFSET.
BOUND = r"^(\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)|[A-Za-z0-9._-]+:\d+:\d+)$"


def _bounds(text: str) -> Param:
    return Param(type="array", items={"type": "string", "pattern": BOUND}, minItems=1, description=text)


with DAG(
    "kseg_backfill",
    description="A backfill of the topic orders, started by hand",
    doc_md=__doc__,
    schedule=None,
    max_active_runs=2,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
    params={
        "from": _bounds("Where to begin: a time, as in 2026-01-01T00:00:00Z, or TOPIC:PARTITION:OFFSET, one a line"),
        "to": _bounds("Where to end, exclusive: as above"),
        "mode": Param(
            "missing", enum=["missing", "replace", "append"], description="What to do with offsets that have landed"
        ),
        "label": Param(None, type=["null", "string"], maxLength=100, description="Required for append"),
    },
    render_template_as_native_obj=True,  # lists stay lists
    tags={"kseg", "example"},
):
    KsegBackfillOperator(
        task_id="backfill",
        job_file=ORDERS,
        from_="{{ params['from'] }}",
        to="{{ params.to }}",
        mode="{{ params.mode }}",
        label="{{ params.label }}",
        env=ENVIRONMENT,
        deferrable=True,
    )
