"""Properties by librdkafka's names: what Java's clients, and this one, call them.

    metadata.broker.list=a:9092      is checked as    bootstrap.servers=a:9092
    sasl.mechanisms=PLAIN            is checked as    sasl.mechanism=PLAIN

A property of librdkafka is rejected with the name to write instead. The rest of the configuration is checked as if that
name had been written, so that one wrong name is one error: without `sasl.mechanism` a user name would have no effect,
and a service name of Kerberos would be missing.

librdkafka's names: https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kseg.client.errors import ConfigFault

#: librdkafka's name -> Java's, of the same meaning.
RENAMED: Final = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "socket.timeout.ms": "request.timeout.ms",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
}
#: What goes with such a property here.
_BESIDE: Final = {"ssl.truststore.location": ", with ssl.truststore.type=PEM"}

_KEY_AND_CERTIFICATE: Final = (
    "put the key and the certificates into one PEM file, for ssl.keystore.location with ssl.keystore.type=PEM; or give "
    "their text by ssl.keystore.key and ssl.keystore.certificate.chain"
)
_CHOSEN: Final = "remove it: OpenSSL chooses"
_JAAS: Final = "in sasl.jaas.config, as in: Krb5LoginModule required useKeyTab=true"
#: librdkafka's name -> what to do instead, where that is not one other name.
_INSTEAD: Final = {
    "ssl.certificate.location": _KEY_AND_CERTIFICATE,
    "ssl.key.location": _KEY_AND_CERTIFICATE,
    "ssl.curves.list": _CHOSEN,
    "ssl.sigalgs.list": _CHOSEN,
    "enable.ssl.certificate.verification": "certificates are always verified: use ssl.truststore.location for the CA",
    "sasl.oauthbearer.method": "remove it: sasl.oauthbearer.token.endpoint.url alone means client credentials",
    "sasl.oauthbearer.extensions": 'use OAuthBearerLoginModule required extension_NAME="value"; in sasl.jaas.config',
    "sasl.oauthbearer.config": "use sasl.oauthbearer.token.endpoint.url, or sasl.oauthbearer.token.callback",
    "enable.sasl.oauthbearer.unsecure.jwt": "use unsecuredLogin options in sasl.jaas.config",
    "oauth_cb": "use sasl.oauthbearer.token.callback=module:function",
    "sasl.kerberos.keytab": f'use keyTab="/path" {_JAAS}',
    "sasl.kerberos.principal": f'use principal="user@REALM" {_JAAS}',
}
#: What librdkafka needs and this client does not.
_WITHOUT_MEANING: Final = frozenset(
    """
    api.version.fallback.ms api.version.request auto.commit.enable background_event_cb broker.address.family
    broker.address.ttl builtin.features client.software.name client.software.version connect_cb
    coordinator.query.interval.ms debug enable.auto.offset.store enable.partition.eof enable.random.seed
    enable.sparse.connections error_cb fetch.error.backoff.ms fetch.queue.backoff.ms log.connection.close log.queue
    log.thread.name log_cb log_level max.in.flight message.copy.max.bytes message.max.bytes
    metadata.request.timeout.ms offset.store.method offset_commit_cb plugin.library.paths queued.max.messages.kbytes
    queued.min.messages rebalance_cb receive.message.max.bytes socket.blocking.max.ms socket.keepalive.enable
    socket.max.fails socket.nagle.disable statistics.interval.ms stats_cb throttle_cb
    topic.metadata.propagation.max.ms topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.sparse
    """.split()  # noqa: SIM905
)


def in_java_names(properties: Mapping[str, str], faults: list[ConfigFault]) -> tuple[dict[str, str], dict[str, str]]:
    """The properties by Java's names as far as they have some, and by each such name the one that was given.

    Each property of librdkafka is a fault; those that have their remedy in common are one fault.
    """
    known: dict[str, str] = {}
    given: dict[str, str] = {}
    together: dict[str, list[str]] = {}
    for name, value in properties.items():
        if name in RENAMED:
            right = RENAMED[name]
            together.setdefault(f"use {right}{_BESIDE.get(right, '')}", []).append(name)
            if right not in properties:
                known[right], given[right] = value, name
        elif name in _INSTEAD:
            together.setdefault(_INSTEAD[name], []).append(name)
        elif name in _WITHOUT_MEANING:
            faults.append(ConfigFault(name, "is librdkafka's, and this client does not use it", "remove it"))
        else:
            known[name] = value
    for remedy, names in together.items():
        others = f", as is {', '.join(names[1:])}" if len(names) > 1 else ""
        faults.append(ConfigFault(names[0], f"is librdkafka's name{others}", remedy))
    return known, given


def as_given(faults: list[ConfigFault], given: Mapping[str, str]) -> list[ConfigFault]:
    """Faults of properties by Java's names, each at the name that was given."""
    return [replace(fault, key=given.get(fault.key, fault.key)) for fault in faults]
