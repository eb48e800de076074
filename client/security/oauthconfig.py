"""Chooses the token source that the `sasl.oauthbearer.*` properties and the login module's options describe.

    sasl.oauthbearer.token.callback=module:function              ours: a Python function
    sasl.oauthbearer.token.endpoint.url=https://… or http://…    client credentials (KIP-768, KIP-1139)
    sasl.oauthbearer.token.endpoint.url=file:///…                a file with the token
    unsecuredLoginStringClaim_sub=…                              a token without a signature, as Java makes

Client id, secret and scope are set by properties, or by the login module's options (clientId, clientSecret, scope);
`ssl.*` there are the token endpoint's too, and `extension_NAME` are SASL extensions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from kseg.client.errors import ConfigFault
from kseg.client.security.oauthbearer import extension_fault
from kseg.client.security.property_names import SSL_NAMES
from kseg.client.security.secret import Secret
from kseg.client.security.sslconfig import parse_tls
from kseg.client.security.tokens import REFRESH_WINDOW, Callback, TokenFile, TokenSource, Unsecured

_CALLBACK: Final = "sasl.oauthbearer.token.callback"
_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
_SCOPE: Final = "sasl.oauthbearer.scope"
_ENCODE: Final = "sasl.oauthbearer.header.urlencode"
_WINDOW: Final = "sasl.login.refresh.window.factor"
_TIMES: Final = {
    "sasl.login.connect.timeout.ms": ("connect_timeout_ms", 10_000),
    "sasl.login.read.timeout.ms": ("read_timeout_ms", 10_000),
    "sasl.login.retry.backoff.ms": ("retry_backoff_ms", 100),
    "sasl.login.retry.backoff.max.ms": ("retry_backoff_max_ms", 10_000),
}
_CREDENTIALS: Final = {"clientId": _ID, "clientSecret": _SECRET, "scope": _SCOPE}
_UNSECURED: Final = "unsecuredLogin"
_EXTENSION: Final = "extension_"
_UNSECURED_EXTENSION: Final = "unsecuredLoginExtension_"


def is_option(name: str) -> bool:
    """Whether OAuthBearerLoginModule has this option here."""
    return name in _CREDENTIALS or name in SSL_NAMES or name.startswith((_EXTENSION, _UNSECURED))


def parse_source(
    properties: Mapping[str, str], options: Mapping[str, str], faults: list[ConfigFault]
) -> TokenSource | None:
    """None with a fault where no source, or more than one, is named."""
    unsecured = {name: value for name, value in options.items() if name.startswith(_UNSECURED)}
    named = [name for name in (_CALLBACK, _URL) if properties.get(name, "").strip()]
    if len(named) + bool(unsecured) != 1:
        reason = "more than one source of tokens is set" if named else "no source of tokens is set"
        place = named[-1] if named else _URL
        faults.append(ConfigFault(place, reason, f"set one of {_URL} and {_CALLBACK}"))
        return None
    if unsecured:
        return _unsecured(unsecured, faults)
    value = properties[named[0]].strip()
    if named[0] == _CALLBACK:
        if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", value):
            faults.append(ConfigFault(_CALLBACK, "is not module:function", "as in my_module:token"))
            return None
        return Callback(value)
    return _endpoint(value, properties, options, faults)


def parse_extensions(options: Mapping[str, str], faults: list[ConfigFault]) -> tuple[tuple[str, str], ...]:
    found = []
    for name, value in options.items():
        for prefix in (_EXTENSION, _UNSECURED_EXTENSION):
            if name.startswith(prefix):
                fault = extension_fault(name.removeprefix(prefix), value)
                if fault:
                    faults.append(ConfigFault("sasl.jaas.config", fault, 'as in extension_traceId="123"'))
                found.append((name.removeprefix(prefix), value))
    return tuple(found)


def parse_window(properties: Mapping[str, str], faults: list[ConfigFault]) -> float:
    text = properties.get(_WINDOW, str(REFRESH_WINDOW)).strip()
    number = float(text) if re.fullmatch(r"\d(\.\d{1,6})?", text) else 0.0
    if not 0.5 <= number <= 1.0:
        faults.append(ConfigFault(_WINDOW, "is not a number from 0.5 to 1.0", "leave it out for 0.8"))
    return number


def _endpoint(
    text: str, properties: Mapping[str, str], options: Mapping[str, str], faults: list[ConfigFault]
) -> TokenSource | None:
    url = _split(text)
    if url.scheme == "file" and url.path and not url.netloc:
        return TokenFile(unquote(url.path))
    if url.scheme not in ("http", "https") or not url.hostname or url.username or url.password:
        remedy = "https://host/path, or file:///path; id and secret have their own properties"
        faults.append(ConfigFault(_URL, "is not a URL of a token endpoint", remedy))
        return None
    found = {}
    for option, name in _CREDENTIALS.items():
        if option in options and name in properties:
            faults.append(
                ConfigFault(name, f"cannot be combined with {option} in sasl.jaas.config", "keep one of the two")
            )
        found[option] = properties.get(name) or options.get(option) or ""
        if not found[option] and option != "scope":
            faults.append(ConfigFault(name, "is missing", "the token endpoint requires a client id and a secret"))
    encode = properties.get(_ENCODE, "false").strip().lower()
    if encode not in ("true", "false"):
        faults.append(ConfigFault(_ENCODE, "is neither true nor false", "leave it out for false"))
    ssl = {name: value for name, value in options.items() if name in SSL_NAMES}
    if ssl and url.scheme == "http":
        faults.append(ConfigFault("sasl.jaas.config", "has ssl options, and the token endpoint is http", "use https"))
    from kseg.client.security.endpoint import ClientCredentials  # an HTTP client, which few jobs need

    return ClientCredentials(
        text,
        found["clientId"],
        Secret(found["clientSecret"]),
        found["scope"] or None,
        parse_tls(ssl, faults) if ssl else None,
        urlencode_header=encode == "true",
        **{field: _milliseconds(properties, name, default, faults) for name, (field, default) in _TIMES.items()},
    )


def _split(text: str) -> SplitResult:
    """The URL's parts, all empty for one that is none."""
    try:
        url = urlsplit(text)
        return url if url.port is None or url.port > 0 else urlsplit("")
    except ValueError:  # brackets that are no IPv6 address, a port that is not a number
        return urlsplit("")


def _milliseconds(properties: Mapping[str, str], name: str, default: int, faults: list[ConfigFault]) -> int:
    text = properties.get(name, str(default)).strip()
    if not re.fullmatch(r"\d{1,9}", text) or int(text) < 1:
        faults.append(ConfigFault(name, "is not a number of milliseconds", "give a whole number above 0"))
        return default
    return int(text)


def _unsecured(options: Mapping[str, str], faults: list[ConfigFault]) -> Unsecured:
    """The options and defaults of Java's OAuthBearerUnsecuredLoginCallbackHandler."""
    claims: dict[str, str | float | tuple[str, ...]] = {}
    lifetime = 3600
    for name, value in options.items():
        kind, _, claim = name.removeprefix(_UNSECURED).partition("_")
        problem = None
        if kind == "Extension" and claim:
            continue
        if kind == "StringClaim" and claim:
            claims[claim] = value
        elif kind == "ListClaim" and claim and value:
            claims[claim] = tuple(value[1:].split(value[0]))
        elif kind == "NumberClaim" and claim and re.fullmatch(r"-?\d{1,15}(\.\d{1,6})?", value):
            claims[claim] = float(value)
        elif name == "unsecuredLoginLifetimeSeconds" and re.fullmatch(r"[1-9]\d{0,8}", value):
            lifetime = int(value)
        else:
            problem = "unsecuredLogin options are not supported"
        if problem:
            faults.append(ConfigFault("sasl.jaas.config", problem, 'as in unsecuredLoginStringClaim_sub="alice"'))
    return Unsecured(tuple(claims.items()), lifetime)
