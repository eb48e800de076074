"""Airflow's side of kafka-segment-etl: operators, sensors and triggers that run the command `kseg`.

Nothing of kafka-segment-etl itself is imported, and no pyspark: Airflow and Spark live in environments of their own.
"""

from __future__ import annotations

__version__ = "0.1.0"
