"""A connection of the Apache Spark provider's type `spark_connect` as a Connect server's address, token included."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from kseg_airflow.compat import AirflowFailException, BaseHook, mask_secret

#: Where `kseg` (and pyspark) read the address, if neither job file nor `--remote` has one.
VARIABLE: Final = "SPARK_REMOTE"


def address_of_connection(conn_id: str) -> str:
    """The address; its token is masked in all logs from here on. Raises AirflowFailException."""
    connection = BaseHook.get_connection(conn_id)
    if connection.conn_type != "spark_connect":
        raise AirflowFailException(f"{conn_id} is of type {connection.conn_type}; make it one of type spark_connect")
    try:
        from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
    except ImportError:
        raise AirflowFailException(
            'remote_conn_id needs the Apache Spark provider: pip install "kafka-segment-etl-airflow[spark]"'
        ) from None
    if connection.password:
        mask_secret(connection.password)
        mask_secret(quote(connection.password))
    return str(SparkConnectHook(conn_id).get_connection_url())


def check_no_token(remote: str | None) -> None:
    """Raises AirflowFailException for an address with a token."""
    if remote is not None and "token=" in remote.lower():
        raise AirflowFailException(
            "remote has a token, which is seen in the task's fields, its log and the driver's command line: use "
            "remote_conn_id, a connection of type spark_connect"
        )
