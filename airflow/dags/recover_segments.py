"""By hand: land what a broker's log directories hold, without a broker: a dead one's disk, a backup, a snapshot.

What cannot be read lies in a quarantine table beside it, with its address and bytes, and the task fails to say so,
unless `accept_damage` is set. Again, it lands nothing twice.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from kseg_airflow.operators import KsegRecoverOperator
from kseg_examples import ENVIRONMENT, LAKE

with DAG(
    "kseg_recover_segments",
    description="What log directories hold, into a table",
    doc_md=__doc__,
    schedule=None,
    default_args={"retries": 1, "retry_delay": timedelta(minutes=1)},
    params={
        "folders": Param(
            type="array",
            items={"type": "string", "minLength": 1},
            minItems=1,
            description="Folders of a broker's log.dirs, or copies of them: paths or URLs, one a line",
        ),
        "to": Param(
            f"{LAKE}/recovered", type="string", minLength=1, description="The table; {topic} makes one a topic"
        ),
        "topics": Param(
            [],
            type="array",
            items={"type": "string"},
            description="Only these; if none are given, all but internal topics",
        ),
    },
    render_template_as_native_obj=True,  # lists stay lists
    tags={"kseg", "example"},
):
    KsegRecoverOperator(
        task_id="recover",
        folders="{{ params.folders }}",
        to="{{ params.to }}",
        topics="{{ params.topics }}",
        env=ENVIRONMENT,
        deferrable=True,
    )
