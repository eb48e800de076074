"""Addresses of Kafka, the lake and the job files in the examples: environment variables, with defaults for a first try.

variable                  default                    what
KSEG_BOOTSTRAP_SERVERS    localhost:9092             Kafka; `kseg broker start` prints its own
KSEG_LAKE                 lake in AIRFLOW_HOME       folder or URL of tables and ledger
KSEG_JOBS                 jobs/ beside this file     folder of job files: each becomes a DAG
KSEG_BINARY               kseg                       the command's path, if it is not in Airflow's PATH
"""

from __future__ import annotations

import os
from pathlib import Path

_HERE = Path(__file__).parent

#: The job files of the example DAGs that are written in Python.
ORDERS = str(_HERE / "orders.yaml")
ORDERS_BY_HOUR = str(_HERE / "orders-by-hour.yaml")

#: The folder of job files from which DAGs are made.
JOBS = Path(os.environ.get("KSEG_JOBS") or _HERE / "jobs")

_HOME = Path(os.environ.get("AIRFLOW_HOME") or "~/airflow").expanduser()

#: The values of ${NAME} in the job files.
ENVIRONMENT = {
    "KSEG_BOOTSTRAP_SERVERS": os.environ.get("KSEG_BOOTSTRAP_SERVERS") or "localhost:9092",
    "KSEG_LAKE": os.environ.get("KSEG_LAKE") or str(_HOME / "lake"),
}

LAKE = ENVIRONMENT["KSEG_LAKE"]
