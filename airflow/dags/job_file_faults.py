"""No DAG: shows job files that no DAG can be made of as an import error of this file.

A file of its own, since Airflow drops all DAGs of a DAG file that has an import error: in from_job_files.py, one broken
job file would take the others away.
"""

from __future__ import annotations

from kseg_airflow.job_dags import raise_faults
from kseg_examples import JOBS

raise_faults(JOBS)
