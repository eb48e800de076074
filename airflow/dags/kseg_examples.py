"""Where the examples find Kafka, the lake and the job files: environment variables, with defaults for a first try.

variable                  default                    what
KSEG_BOOTSTRAP_SERVERS    localhost:9092             Kafka; `kseg broker start` prints its own
KSEG_LAKE                 lake in AIRFLOW_HOME       folder or URL of tables and ledger
KSEG_JOBS                 jobs/ beside this file     folder of job files: each becomes a DAG
KSEG_BINARY               kseg                       the program, where it is on no PATH of Airflow's
"""

from __future__ import annotations

import os
from pathlib import Path

_HERE = Path(__file__).parent

#: The job files of the examples that are written out.
ORDERS = str(_HERE / "orders.yaml")
ORDERS_BY_HOUR = str(_HERE / "orders-by-hour.yaml")

#: Job files that become DAGs by themselves.
JOBS = Path(os.environ.get("KSEG_JOBS") or _HERE / "jobs")

_HOME = Path(os.environ.get("AIRFLOW_HOME") or "~/airflow").expanduser()

#: What the job files refer to as ${NAME}.
ENVIRONMENT = {
    "KSEG_BOOTSTRAP_SERVERS": os.environ.get("KSEG_BOOTSTRAP_SERVERS") or "localhost:9092",
    "KSEG_LAKE": os.environ.get("KSEG_LAKE") or str(_HOME / "lake"),
}

LAKE = ENVIRONMENT["KSEG_LAKE"]
