"""One DAG from every `*.yaml` in a folder of job files: schedule, retries, pools, owner … from its `airflow:` section.

Environment: KSEG_JOBS, the folder (jobs/ beside this file), and what the job files refer to (kseg_examples.py).
"""

from __future__ import annotations

from kseg_airflow.job_dags import job_dags
from kseg_examples import ENVIRONMENT, JOBS

globals().update(job_dags(JOBS, env=ENVIRONMENT))
