"""Airflow connections as settings of `kseg`.

A connection of the Apache provider's type `kafka` becomes Java client properties. Its extra has librdkafka's names.
Most are Java's too; some differ, and certificates lie in other places. Consumer settings (group.id, auto.offset.reset
…) belong in the job file and are left out; a property without a counterpart that would change how brokers are reached
is an error.
https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md
https://kafka.apache.org/documentation/#consumerconfigs

A connection of the Apache Spark provider's type `spark_connect` becomes a Connect server's address, token included.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from kseg_airflow.compat import AirflowFailException, BaseHook, mask_secret

#: The same name, the same meaning.
SAME: Final = frozenset(
    {
        "bootstrap.servers", "client.id", "client.rack", "client.dns.lookup", "security.protocol",
        "connections.max.idle.ms", "metadata.max.age.ms", "metadata.recovery.strategy", "broker.version.fallback",
        "api.version.request.timeout.ms", "socket.connection.setup.timeout.ms", "retry.backoff.ms",
        "retry.backoff.max.ms", "request.timeout.ms", "default.api.timeout.ms",
        "sasl.mechanism", "sasl.username", "sasl.password", "sasl.jaas.config", "sasl.kerberos.service.name",
        "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.scope", "sasl.oauthbearer.header.urlencode",
        "sasl.oauthbearer.token.callback", "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.jwt.retriever.class",
        "sasl.login.callback.handler.class", "sasl.client.callback.handler.class",
        "ssl.key.password", "ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.type", "ssl.keystore.key",
        "ssl.keystore.certificate.chain", "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type",
        "ssl.truststore.certificates", "ssl.endpoint.identification.algorithm", "ssl.enabled.protocols", "ssl.protocol",
    }
)  # fmt: skip

#: The same meaning under another name.
RENAMED: Final = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.timeout.ms": "request.timeout.ms",
    "reconnect.backoff.ms": "retry.backoff.ms",
}

#: Files whose content Java takes as a value: two files are one store there.
CONTENT: Final = {
    "ssl.certificate.location": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.key",
}

#: What the job file decides, or what has no bearing on a batch that reads fixed ranges.
LEFT_OUT: Final = re.compile(
    r"group\..*|auto\..*|enable\.auto\..*|session\.timeout\.ms|heartbeat\.interval\.ms|max\.poll\..*|isolation\.level"
    r"|partition\.assignment\.strategy|enable\.partition\.eof|coordinator\..*|queued\..*|queue\..*|fetch\..*|max\.partition\..*"
    r"|acks|request\.required\.acks|enable\.idempotence|transactional\.id|transaction\..*|batch\..*|linger\.ms|compression\..*"
    r"|message\..*|delivery\..*|retries|partitioner|statistics\.interval\.ms|log\..*|log_level|debug"
    r"|(background_event|consume|dr|dr_msg|error|log|offset_commit|rebalance|stats|throttle)_cb"
    r"|on_(assign|commit|delivery|lost|revoke)"
    r"|topic\.metadata\..*|metadata\.request\..*|broker\.address\..*|socket\.keepalive\.enable|socket\.nagle\.disable|socket\.max\.fails"
    r"|reconnect\.backoff\.max\.ms|api\.version\.(request|fallback\.ms)|allow\.auto\.create\.topics|check\.crcs|client\.software\..*"
    r"|enable\.metrics\.push|internal\..*|sasl\.oauthbearer\.method"
)

_FUNCTION: Final = "kseg runs in a process of its own, which cannot call it"
_TOKENS: Final = (
    f"{_FUNCTION}; set sasl.oauthbearer.token.callback to module:function (for IAM of Amazon MSK "
    "kseg.client.security.msk:token), or sasl.oauthbearer.token.endpoint.url"
)
_REFUSED: Final[dict[str, str]] = {
    "oauth_cb": _TOKENS,
    "oauthbearer_token_refresh_cb": _TOKENS,
    "ssl.certificate.verify_cb": f"{_FUNCTION}; certificates are verified against ssl.ca.location",
    "connect_cb": f"{_FUNCTION}; remove it",
    "resolve_cb": f"{_FUNCTION}; remove it",
    "socket_cb": f"{_FUNCTION}; remove it",
    "plugin.library.paths": "plug-ins of librdkafka are not loaded; remove it",
    "sasl.oauthbearer.extensions": "write sasl.jaas.config with OAuthBearerLoginModule and extension_NAME options",
    "enable.ssl.certificate.verification": "certificates are always verified; give the CA's by ssl.ca.location",
    "enable.sasl.oauthbearer.unsecure.jwt": "unsecured tokens are not supported; set a token endpoint",
    "sasl.oauthbearer.config": "set a token endpoint, or a callback (sasl.oauthbearer.token.callback)",
    "sasl.kerberos.keytab": "write sasl.jaas.config with Krb5LoginModule, keyTab and principal",
    "sasl.kerberos.principal": "write sasl.jaas.config with Krb5LoginModule, keyTab and principal",
    "ssl.ca.certificate.stores": "give the CA's certificate by ssl.ca.location, a PEM file",
    "ssl.crl.location": "certificate revocation lists are not supported",
    "ssl.engine.location": "keys are only read from files and PEM text",
    "ssl.cipher.suites": "OpenSSL's and Java's names differ; set ssl.cipher.suites in the job file",
}

_SECRET: Final = re.compile(r"password|secret|jaas|token$|keystore\.key$|key\.pem$")


class KafkaConnectionError(AirflowFailException):
    """The connection cannot be used; every error is listed, with its remedy, and no value."""


def java_properties(extra: Mapping[str, Any], conn_id: str = "the connection") -> dict[str, str]:
    """librdkafka's configuration as Java's. Raises KafkaConnectionError."""
    found: dict[str, str] = {}
    faults: list[str] = []
    for key, value in extra.items():
        text = _text(value)
        if key in _REFUSED and not _is_default(key, text):
            faults.append(f"{key}: {_REFUSED[key]}")
        elif key in SAME:
            found[key] = text
        elif key in RENAMED:
            found.setdefault(RENAMED[key], text)
        elif key in CONTENT:
            try:
                found[CONTENT[key]] = Path(text).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                faults.append(f"{key}: {text} cannot be read ({type(error).__name__})")
        elif key not in _REFUSED and not LEFT_OUT.fullmatch(key):
            faults.append(f"{key}: has no counterpart among Java's client properties; set it in the job file")
    if extra.keys() & {"ssl.ca.location", "ssl.ca.pem"}:
        found.setdefault("ssl.truststore.type", "PEM")
    if extra.keys() & {"ssl.certificate.location", "ssl.certificate.pem"}:
        found.setdefault("ssl.keystore.type", "PEM")
    if "ssl.ca.pem" in extra and "ssl.truststore.location" in found:
        faults.append("ssl.ca.pem: cannot be combined with ssl.ca.location; keep one of them")
    if "sasl.mechanism" in found:
        found["sasl.mechanism"] = found["sasl.mechanism"].upper()
    if "security.protocol" in found:
        found["security.protocol"] = found["security.protocol"].upper()
    if faults:
        told = "\n".join(f"  {fault}" for fault in faults)
        raise KafkaConnectionError(f"{conn_id} cannot be used for kseg:\n{told}")
    return found


def properties_of_connection(conn_id: str) -> dict[str, str]:
    """A connection's properties by their Java names; its secrets are masked in all logs from here on."""
    return _read(BaseHook.get_connection(conn_id), conn_id)


async def async_properties_of_connection(conn_id: str) -> dict[str, str]:
    """The same in the triggerer, whose loop must not be held up."""
    ask: Callable[[str], Any] | None = getattr(BaseHook, "aget_connection", None)
    if ask is not None:
        return _read(await ask(conn_id), conn_id)
    from asgiref.sync import sync_to_async

    return _read(await sync_to_async(BaseHook.get_connection)(conn_id), conn_id)


def _read(connection: Any, conn_id: str) -> dict[str, str]:
    if connection.conn_type != "kafka":
        raise KafkaConnectionError(f"{conn_id} is of type {connection.conn_type}; make it one of type kafka")
    properties = java_properties(connection.extra_dejson, conn_id)
    for key, text in properties.items():
        if _SECRET.search(key):
            mask_secret(text)
    return properties


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _is_default(key: str, text: str) -> bool:
    return (key, text.lower()) in {
        ("enable.ssl.certificate.verification", "true"),
        ("enable.sasl.oauthbearer.unsecure.jwt", "false"),
    }


#: Where `kseg` (and pyspark) read the address, if neither job file nor `--remote` has one.
SPARK_REMOTE: Final = "SPARK_REMOTE"


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
