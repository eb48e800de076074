"""The registry's properties, by the names of Confluent's clients without `schema.registry.`, as one frozen value.

    url                               one URL, or several with commas: the next is used where one does not answer
    basic.auth.credentials.source     USER_INFO (default where basic.auth.user.info is set), or URL: user:password@host
    basic.auth.user.info              user:password
    bearer.auth.credentials.source    STATIC_TOKEN (default where bearer.auth.token is set), or OAUTHBEARER
    bearer.auth.token                 a token
    bearer.auth.issuer.endpoint.url   OAUTHBEARER: the token endpoint
    bearer.auth.client.id, bearer.auth.client.secret, bearer.auth.scope
    bearer.auth.logical.cluster       sent as target-sr-cluster
    bearer.auth.identity.pool.id      sent as Confluent-Identity-Pool-Id
    ssl.*                             as for brokers
    proxy.host, proxy.port            an HTTP proxy
    http.connect.timeout.ms, http.read.timeout.ms, retries.wait.ms, retries.max.wait.ms, default.api.timeout.ms

As for brokers, an unknown property is an error, and no message quotes a value that may be a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

from kseg.client.errors import ConfigError, ConfigFault
from kseg.client.protocol.suggestion import did_you_mean
from kseg.client.security.endpoint import ClientCredentials
from kseg.client.security.foreign_names import as_given, in_java_names
from kseg.client.security.property_names import SSL_NAMES
from kseg.client.security.secret import Secret
from kseg.client.security.sslconfig import parse_tls
from kseg.client.security.tls import TlsConfig

_PREFIX: Final = "schema.registry."
_BASIC: Final = ("basic.auth.credentials.source", "basic.auth.user.info")
_OAUTH: Final = ("bearer.auth.issuer.endpoint.url", "bearer.auth.client.id", "bearer.auth.client.secret")
_HEADERS: Final = {
    "bearer.auth.logical.cluster": "target-sr-cluster",
    "bearer.auth.identity.pool.id": "Confluent-Identity-Pool-Id",
}
#: Properties of times: fields of the configuration, and defaults.
TIMES: Final = {
    "http.connect.timeout.ms": ("connect_timeout_ms", 10_000),
    "http.read.timeout.ms": ("read_timeout_ms", 30_000),
    "retries.wait.ms": ("retry_backoff_ms", 100),
    "retries.max.wait.ms": ("retry_backoff_max_ms", 5_000),
    "default.api.timeout.ms": ("default_api_timeout_ms", 60_000),
}
NAMES: Final = (
    frozenset({"url", "bearer.auth.credentials.source", "bearer.auth.token", "bearer.auth.scope"})
    | frozenset({*_BASIC, *_OAUTH, *_HEADERS, *TIMES, "proxy.host", "proxy.port"})
    | SSL_NAMES
)
#: Properties whose values are secrets: job files take them as references.
SECRETS: Final = frozenset(
    {"basic.auth.user.info", "bearer.auth.token", "bearer.auth.client.secret", "ssl.truststore.password"}
    | {"ssl.keystore.password", "ssl.keystore.key", "ssl.key.password"}
)


@dataclass(frozen=True, slots=True)
class RegistryConfig:
    """The registry's address and credentials. Times in milliseconds. At most one of `basic`, `token`, `oauth`.

    urls: without user and password. basic: "user:password". headers: sent with every request.
    """

    urls: tuple[str, ...]
    basic: Secret | None = None
    token: Secret | None = None
    oauth: ClientCredentials | None = None
    headers: tuple[tuple[str, str], ...] = ()
    tls: TlsConfig | None = None
    proxy: tuple[str, int] | None = None
    connect_timeout_ms: int = 10_000
    read_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 5_000
    default_api_timeout_ms: int = 60_000

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> RegistryConfig:
        """Raises ConfigError with everything that is wrong at once."""
        misnamed: list[ConfigFault] = []
        faults: list[ConfigFault] = []
        bare, given = _by_bare_names(properties, misnamed)
        known = {name: str(value) for name, value in bare.items() if name in NAMES}
        for name in (name for name in bare if name not in NAMES):
            remedy = did_you_mean(name, NAMES) or "see the guide"
            faults.append(ConfigFault(name, "unknown property of a schema registry", remedy))
        urls, in_url = _urls(known.get("url", ""), faults)
        basic = _basic(known, in_url, faults)
        tls = parse_tls({name: value for name, value in known.items() if name in SSL_NAMES}, faults)
        token, oauth = _bearer(known, tls, faults)
        if basic is not None and (token is not None or oauth is not None):
            faults.append(ConfigFault("basic.auth.user.info", "is given beside bearer.auth.*", "keep one of the two"))
        times = {field: milliseconds(name, known, default, faults) for name, (field, default) in TIMES.items()}
        proxy = _proxy(known, faults)
        if any(name in known for name in SSL_NAMES) and all(url.startswith("http:") for url in urls):
            faults.append(ConfigFault("url", "is http, and ssl.* is given", "write https, or remove ssl.*"))
        if misnamed or faults:
            raise ConfigError([*misnamed, *as_given(faults, given)])
        headers = tuple((header, known[name]) for name, header in _HEADERS.items() if name in known)
        return cls(urls, basic, token, oauth, headers, tls, proxy, **times)


def _by_bare_names(properties: Mapping[str, str], faults: list[ConfigFault]) -> tuple[dict[str, str], dict[str, str]]:
    """The properties by their names here, and by each of these the name that was given.

    All with the prefix schema.registry. are one fault: they are copied from a file of one of Confluent's clients.
    """
    given = {name.removeprefix(_PREFIX): name for name in properties if name.startswith(_PREFIX)}
    bare = {right: properties[name] for right, name in given.items()}
    bare |= {name: value for name, value in properties.items() if not name.startswith(_PREFIX)}
    if given:
        first, *others = given.values()
        like = f", like {', '.join(others)}" if others else ""
        faults.append(ConfigFault(first, f"is written without {_PREFIX} here{like}", f"write {', '.join(given)}"))
    given = {right: name for right, name in given.items() if right not in properties}
    foreign, renamed = in_java_names({name: bare.pop(name) for name in list(bare) if name.startswith("ssl.")}, faults)
    return bare | foreign, {right: given.get(name, name) for right, name in renamed.items()} | given


def _urls(text: str, faults: list[ConfigFault]) -> tuple[tuple[str, ...], list[str]]:
    """The URLs without credentials, and the credentials that they had."""
    urls, credentials = [], []
    for part in text.split(","):
        if not part.strip():
            continue
        url = urlsplit(part.strip())
        try:
            valid = url.scheme in ("http", "https") and bool(url.hostname) and (url.port or 1) > 0
        except ValueError:
            valid = False
        if not valid or url.query or url.fragment:
            faults.append(ConfigFault("url", "is not a URL of a registry", "https://host:8081, or several with commas"))
            continue
        user, separator, host = url.netloc.rpartition("@")
        if separator:
            credentials.append(unquote(user))
        urls.append(urlunsplit((url.scheme, host, url.path.rstrip("/"), "", "")))
    if not text.strip():
        faults.append(ConfigFault("url", "is missing", "give the registry's URL: https://host:8081"))
    return tuple(urls), credentials


def _basic(known: Mapping[str, str], in_url: list[str], faults: list[ConfigFault]) -> Secret | None:
    source = known.get("basic.auth.credentials.source", "URL" if in_url else "USER_INFO").strip().upper()
    user_info = known.get("basic.auth.user.info", "")
    if source not in ("USER_INFO", "URL"):
        remedy = "USER_INFO with basic.auth.user.info, or URL with user:password@ in the url"
        faults.append(ConfigFault("basic.auth.credentials.source", f"{source!r} is not supported", remedy))
        return None
    if source == "URL":
        if user_info:
            faults.append(ConfigFault("basic.auth.user.info", "is given beside credentials in url", "keep one"))
        if not in_url:
            faults.append(ConfigFault("basic.auth.credentials.source", "is URL, and url has no user", "write it there"))
        return Secret(in_url[0]) if in_url else None
    if in_url:
        faults.append(ConfigFault("url", "has a user, and the source is USER_INFO", "write URL as the source"))
    if not user_info and "basic.auth.credentials.source" in known:
        faults.append(ConfigFault("basic.auth.user.info", "is missing", "user:password"))
    if user_info and ":" not in user_info:
        faults.append(ConfigFault("basic.auth.user.info", "has no colon", "user:password"))
    return Secret(user_info) if user_info else None


def _bearer(
    known: Mapping[str, str], tls: TlsConfig, faults: list[ConfigFault]
) -> tuple[Secret | None, ClientCredentials | None]:
    named = [name for name in (*_OAUTH, "bearer.auth.scope") if name in known]
    source = known.get("bearer.auth.credentials.source", "OAUTHBEARER" if named else "STATIC_TOKEN").strip().upper()
    token = known.get("bearer.auth.token", "").strip()
    if source == "STATIC_TOKEN":
        reason = "has no effect: the source of tokens is STATIC_TOKEN"
        faults.extend(ConfigFault(name, reason, "remove it, or write OAUTHBEARER as the source") for name in named)
        if not token and "bearer.auth.credentials.source" in known:
            faults.append(ConfigFault("bearer.auth.token", "is missing", "give the token"))
        return (Secret(token) if token else None), None
    if source != "OAUTHBEARER":
        faults.append(
            ConfigFault("bearer.auth.credentials.source", f"{source!r} is not supported", "STATIC_TOKEN or OAUTHBEARER")
        )
        return None, None
    if token:
        faults.append(ConfigFault("bearer.auth.token", "has no effect: the source of tokens is OAUTHBEARER", "remove"))
    missing = [name for name in _OAUTH if not known.get(name, "").strip()]
    faults.extend(ConfigFault(name, "is missing", "OAUTHBEARER needs it") for name in missing)
    endpoint, client_id, secret = (known.get(name, "").strip() for name in _OAUTH)
    if endpoint and not endpoint.startswith(("https://", "http://")):
        faults.append(ConfigFault(_OAUTH[0], "is no http or https URL", "https://login.example/oauth2/token"))
    return None, ClientCredentials(endpoint, client_id, Secret(secret), known.get("bearer.auth.scope"), tls)


def milliseconds(name: str, known: Mapping[str, str], default: int, faults: list[ConfigFault]) -> int:
    """A time of these properties, or the default; what is no time is one more fault."""
    text = known.get(name, str(default)).strip()
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 2**31:
        faults.append(ConfigFault(name, f"{text!r} is not a number of milliseconds", str(default)))
        return default
    return int(text)


def _proxy(known: Mapping[str, str], faults: list[ConfigFault]) -> tuple[str, int] | None:
    host, port = known.get("proxy.host", "").strip(), known.get("proxy.port", "").strip()
    if not host and not port:
        return None
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        faults.append(ConfigFault("proxy.host", "needs proxy.port beside it, a number", "proxy.example and 3128"))
        return None
    return host, int(port)
