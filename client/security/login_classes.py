"""Java's classes for logins: which mean what this client does without them, and what replaces the others.

    sasl.login.callback.handler.class      org.apache.kafka…OAuthBearerLoginCallbackHandler   accepted
                                           software.amazon.msk.auth.iam.…                     client.security.msk
    sasl.client.callback.handler.class     any                                                a token callback
    sasl.oauthbearer.jwt.retriever.class   org.apache.kafka…ClientCredentialsJwtRetriever     accepted

A configuration that names another class of a vendor has one error: how that login is written here. What else belongs
to it (its mechanism, its login module and its options) is not judged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kseg.client.errors import ConfigFault
from kseg.client.security.property_names import HANDLER_NAMES

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
