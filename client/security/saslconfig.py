"""The `sasl.*` properties -> `SaslConfig`, every fault at once, and the mechanism that it means.

Credentials come from `sasl.jaas.config`, in Java's own form, or from `sasl.username` and `sasl.password`, as librdkafka
has them: plain values need no quoting, which matters where they are filled in from references.

Some of Java's classes for logins mean what this client does without them; an error says what replaces the others:

    sasl.login.callback.handler.class      org.apache.kafka…OAuthBearerLoginCallbackHandler   accepted
                                           software.amazon.msk.auth.iam.…                     client.security.msk
    sasl.client.callback.handler.class     any                                                a token callback
    sasl.oauthbearer.jwt.retriever.class   org.apache.kafka…ClientCredentialsJwtRetriever     accepted

A configuration that names another class of a vendor has one error: how that login is written here. What else belongs
to it (its mechanism, its login module and its options) is not judged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from kseg.client.errors import ConfigFault
from kseg.client.retry import Deadline
from kseg.client.security import oauthconfig
from kseg.client.security.jaas import LoginModule, parse_jaas
from kseg.client.security.kerberos import Gssapi, KerberosConfig
from kseg.client.security.mechanism import Mechanism, Plain
from kseg.client.security.oauthbearer import OAuthBearer
from kseg.client.security.property_names import HANDLER_NAMES, KERBEROS_NAMES, OAUTH_NAMES, PASSWORD_NAMES, listed
from kseg.client.security.scram import HASHES, Scram
from kseg.client.security.secret import Secret
from kseg.client.security.tokens import REFRESH_WINDOW, TokenSource, token_of

MSK_MECHANISM: Final = "AWS_MSK_IAM"
_CALLBACK: Final = "sasl.oauthbearer.token.callback"
_MSK: Final = (
    f"IAM logins are OAUTHBEARER here: set sasl.mechanism to OAUTHBEARER and {_CALLBACK} to "
    "kseg.client.security.msk:token (pip install 'kafka-segment-etl[msk]'), without sasl.jaas.config and without "
    "callback handler classes"
)
_STRIMZI: Final = (
    "remove it, and write the login module's options by their names in Kafka: oauth.token.endpoint.uri is the property "
    "sasl.oauthbearer.token.endpoint.url, oauth.client.id, oauth.client.secret and oauth.scope are clientId, "
    "clientSecret and scope"
)
_OTHER: Final = f"use {_CALLBACK}=module:function, or sasl.oauthbearer.token.endpoint.url for client credentials"
_REPLACED: Final = {"software.amazon.msk.": _MSK, "io.strimzi.kafka.oauth.": _STRIMZI}

#: They get tokens from sasl.oauthbearer.token.endpoint.url, or make unsecured ones, as this client does.
_JAVAS_OWN: Final = re.compile(
    r"org\.apache\.kafka\.common\.security\.oauthbearer\.(secured\.|internals\.(un)?secured\.)?"
    r"(OAuthBearerLoginCallbackHandler|OAuthBearerUnsecuredLoginCallbackHandler|OAuthBearerSaslClientCallbackHandler"
    r"|DefaultJwtRetriever|ClientCredentialsJwtRetriever|FileJwtRetriever)"
)


def foreign_mechanism(mechanism: str) -> ConfigFault | None:
    """The fault of a vendor's own mechanism, None for any other."""
    if mechanism != MSK_MECHANISM:
        return None
    return ConfigFault("sasl.mechanism", f"is {MSK_MECHANISM}, which is a mechanism of a Java library", _MSK)


def foreign_class(properties: Mapping[str, str]) -> ConfigFault | None:
    """The fault of the first class that is not Java's own; None where there is none."""
    for name in HANDLER_NAMES:
        value = properties.get(name, "").strip()
        if value and not _JAVAS_OWN.fullmatch(value):
            remedy = next((told for prefix, told in _REPLACED.items() if value.startswith(prefix)), _OTHER)
            return ConfigFault(name, "names a Java class, which this client cannot load", remedy)
    return None


MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
_MODULES: Final = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
    "GSSAPI": "Krb5LoginModule",
}
_IGNORED_KRB5: Final = frozenset({"storekey", "donotprompt", "debug", "isinitiator", "refreshkrb5config", "clearpass"})


@dataclass(frozen=True, slots=True)
class SaslConfig:
    """The client's identity and credentials. Which of the fields are set depends on the mechanism."""

    mechanism: str
    username: str | None = None
    password: Secret | None = None
    token_auth: bool = False
    tokens: TokenSource | None = None
    extensions: tuple[tuple[str, str], ...] = ()
    refresh_window: float = REFRESH_WINDOW
    kerberos: KerberosConfig | None = None

    def start(self, host: str, deadline: Deadline) -> Mechanism:
        """The mechanism for one login at this host. Raises AuthenticationFailed where no token is to be had."""
        if self.mechanism == "OAUTHBEARER":
            assert self.tokens is not None
            token, kept = token_of(self.tokens, deadline, window=self.refresh_window)
            return OAuthBearer(token.value, dict(self.extensions) | dict(token.extensions), kept=kept)
        if self.mechanism == "GSSAPI":
            assert self.kerberos is not None
            return Gssapi(self.kerberos, host)
        assert self.username is not None
        assert self.password is not None
        if self.mechanism in HASHES:
            return Scram(self.mechanism, self.username, self.password, token=self.token_auth)
        return Plain(self.username, self.password)


def parse_sasl(properties: Mapping[str, str], faults: list[ConfigFault]) -> SaslConfig | None:
    """`properties`: names among SASL_NAMES. None where they are of no use; `faults` then says why."""
    mechanism = properties.get("sasl.mechanism", "GSSAPI").strip().upper()
    if mechanism not in MECHANISMS:
        reason = f"{mechanism!r} is not supported"
        unknown = ConfigFault("sasl.mechanism", reason, f"one of {', '.join(MECHANISMS)}")
        faults.append(foreign_mechanism(mechanism) or unknown)
        return None
    foreign = foreign_class(properties) if mechanism == "OAUTHBEARER" else _without_mechanism(properties)
    if foreign is not None:
        faults.append(foreign)
        return None
    before = len(faults)
    module = _module(properties, mechanism, faults)
    _check_place(properties, mechanism, faults)
    found: SaslConfig | None
    if mechanism == "OAUTHBEARER":
        found = _oauth(properties, module, faults)
    elif mechanism == "GSSAPI":
        found = _kerberos(properties, module, faults)
    else:
        found = _password(properties, mechanism, module, faults)
    return found if len(faults) == before else None


def _module(properties: Mapping[str, str], mechanism: str, faults: list[ConfigFault]) -> LoginModule | None:
    text = properties.get("sasl.jaas.config", "").strip()
    if not text:
        return None
    expected = _MODULES[mechanism]
    remedy = f'as in: {expected} required option="value";'
    problem = None
    module = None
    try:
        module = parse_jaas(text)
    except ValueError as error:
        problem = str(error)
    if module is not None and module.name != expected:
        problem = f"has another login module than {expected}, which {mechanism} needs"
    if problem is not None:
        faults.append(ConfigFault("sasl.jaas.config", problem, remedy))
        return None
    return module


def _without_mechanism(properties: Mapping[str, str]) -> ConfigFault | None:
    """The fault of a login without a mechanism that is not Kerberos', its default; None where all is well."""
    if "sasl.mechanism" in properties:
        return None
    text = properties.get("sasl.jaas.config", "")
    for module in sorted(set(_MODULES.values()) - {_MODULES["GSSAPI"]}):
        if re.match(rf"\s*([\w$]+\.)*{module}\s", text):
            reason, fitting = f"GSSAPI has another login module than {module}", _mechanisms_of(module)
            break
    else:
        names = sorted((PASSWORD_NAMES | OAUTH_NAMES) & properties.keys())
        if not names:
            return None
        reason = f"with GSSAPI, {listed(names)} no effect"
        fitting = ["OAUTHBEARER"] if set(names) & OAUTH_NAMES else ["PLAIN", *HASHES]
    return ConfigFault("sasl.mechanism", f"is GSSAPI, its default: {reason}", f"set it to {' or '.join(fitting)}")


def _mechanisms_of(module: str) -> list[str]:
    return [mechanism for mechanism, name in _MODULES.items() if name == module]


def _check_place(properties: Mapping[str, str], mechanism: str, faults: list[ConfigFault]) -> None:
    """Properties of another mechanism would mean nothing."""
    for family, mechanisms in (
        (PASSWORD_NAMES, {"PLAIN", *HASHES}),
        (OAUTH_NAMES, {"OAUTHBEARER"}),
        (KERBEROS_NAMES, {"GSSAPI"}),
    ):
        names = sorted(family & properties.keys())
        if names and mechanism not in mechanisms:
            reason = f"is {mechanism}: {listed(names)} no effect"
            remedy = f"set it to {' or '.join(sorted(mechanisms))}, or remove {', '.join(names)}"
            faults.append(ConfigFault("sasl.mechanism", reason, remedy))


def _option_faults(module: LoginModule, known: Callable[[str], bool], faults: list[ConfigFault], remedy: str) -> None:
    """By the option's number: a secret with a quote in it would make a part of it appear as a name."""
    for number, name in enumerate(module.options, 1):
        if not known(name):
            reason = f"option {number} is not one of {module.name}"
            faults.append(ConfigFault("sasl.jaas.config", reason, remedy, option=number))


def _password(
    properties: Mapping[str, str], mechanism: str, module: LoginModule | None, faults: list[ConfigFault]
) -> SaslConfig | None:
    given = {name.removeprefix("sasl."): properties[name] for name in PASSWORD_NAMES & properties.keys()}
    if "sasl.jaas.config" in properties:
        reason = "cannot be combined with sasl.jaas.config"
        faults.extend(ConfigFault(f"sasl.{name}", reason, "keep one of the two") for name in given)
        if module is None:
            return None
        scram = mechanism in HASHES
        known = ["username", "password"] + ["tokenauth"] * scram
        _option_faults(module, known.__contains__, faults, f"supported: {', '.join(known)}")
        given = dict(module.options)
        place = "sasl.jaas.config"
    else:
        place = ""
    for name in ("username", "password"):
        value = given.get(name, "")
        if not value:
            reason = "is missing" if not place else f"has no {name}"
            faults.append(ConfigFault(place or f"sasl.{name}", reason, f"{mechanism} needs a user name and a password"))
        elif "\0" in value:
            faults.append(ConfigFault(place or f"sasl.{name}", f"the {name} has a NUL character", "remove it"))
    token_auth = given.get("tokenauth", "false").strip().lower()
    if token_auth not in ("true", "false"):
        faults.append(ConfigFault(place, "tokenauth is neither true nor false", 'write tokenauth="true"'))
    return SaslConfig(
        mechanism, given.get("username"), Secret(given.get("password", "")), token_auth=token_auth == "true"
    )


def _oauth(properties: Mapping[str, str], module: LoginModule | None, faults: list[ConfigFault]) -> SaslConfig | None:
    if "sasl.jaas.config" in properties and module is None:
        return None
    options = dict(module.options) if module else {}
    if module is not None:
        known = "clientId, clientSecret, scope, ssl.…, extension_…, unsecuredLogin…"
        _option_faults(module, oauthconfig.is_option, faults, f"supported: {known}")
    source = oauthconfig.parse_source(properties, options, faults)
    if source is None:
        return None
    return SaslConfig(
        "OAUTHBEARER",
        tokens=source,
        extensions=oauthconfig.parse_extensions(options, faults),
        refresh_window=oauthconfig.parse_window(properties, faults),
    )


def _kerberos(
    properties: Mapping[str, str], module: LoginModule | None, faults: list[ConfigFault]
) -> SaslConfig | None:
    if "sasl.jaas.config" in properties and module is None:
        return None
    options = {name.lower(): value.strip() for name, value in (module.options if module else {}).items()}
    known = _IGNORED_KRB5 | {"usekeytab", "keytab", "principal", "useticketcache", "ticketcache", "servicename"}
    if module is not None:
        remedy = "supported: useKeyTab, keyTab, principal, useTicketCache, ticketCache, serviceName"
        _option_faults(module, lambda name: name.lower() in known, faults, remedy)
    service = options.get("servicename") or properties.get("sasl.kerberos.service.name", "").strip()
    if not service:
        remedy = "set it to the first part of the broker's principal, usually kafka"
        if "sasl.mechanism" not in properties:
            remedy += "; or set sasl.mechanism, which is GSSAPI by default"
        faults.append(ConfigFault("sasl.kerberos.service.name", "is missing", remedy))
    use_keytab = options.get("usekeytab", "false").lower() == "true"
    if use_keytab and not (options.get("keytab") and options.get("principal")):
        reason = "useKeyTab=true needs keyTab and principal"
        faults.append(ConfigFault("sasl.jaas.config", reason, 'write keyTab="/path" principal="user@REALM"'))
    keytab = options.get("keytab") if use_keytab else None
    config = KerberosConfig(service, options.get("principal"), keytab, options.get("ticketcache"))
    return SaslConfig("GSSAPI", kerberos=config)
