"""A registry's properties: what they mean, and everything that is wrong with them at once."""

from __future__ import annotations

import pickle

import pytest

from kseg.client.errors import ConfigError
from kseg.client.registry.config import NAMES, SECRETS, RegistryConfig


def faults(properties: dict[str, str]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        RegistryConfig.from_properties(properties)
    return [str(fault) for fault in caught.value.faults]


def test_urls_are_asked_in_their_order_and_end_without_a_slash() -> None:
    config = RegistryConfig.from_properties({"url": "https://a:8081/, https://b/apis/ccompat/v7"})
    assert config.urls == ("https://a:8081", "https://b/apis/ccompat/v7")
    assert config.basic is config.token is config.oauth is config.proxy is None


def test_basic_credentials_come_from_the_property_or_from_the_url() -> None:
    by_property = RegistryConfig.from_properties({"url": "https://a", "basic.auth.user.info": "me:pa:ss"})
    by_url = RegistryConfig.from_properties({"url": "https://me:pa%3Ass@a"})
    for config in (by_property, by_url):
        assert config.urls == ("https://a",)
        assert config.basic is not None
        assert config.basic.reveal() == "me:pa:ss"


def test_a_token_is_static_or_fetched() -> None:
    static = RegistryConfig.from_properties({"url": "https://a", "bearer.auth.token": "abc"})
    assert static.token is not None
    assert static.token.reveal() == "abc"
    fetched = RegistryConfig.from_properties(
        {
            "url": "https://a",
            "bearer.auth.credentials.source": "OAUTHBEARER",
            "bearer.auth.issuer.endpoint.url": "https://login/token",
            "bearer.auth.client.id": "me",
            "bearer.auth.client.secret": "s3",
            "bearer.auth.scope": "sr",
            "bearer.auth.logical.cluster": "lsrc-1",
            "bearer.auth.identity.pool.id": "pool-1",
        }
    )
    assert fetched.oauth is not None
    assert (fetched.oauth.url, fetched.oauth.client_id, fetched.oauth.scope) == ("https://login/token", "me", "sr")
    assert dict(fetched.headers) == {"target-sr-cluster": "lsrc-1", "Confluent-Identity-Pool-Id": "pool-1"}


def test_times_proxy_and_tls_are_taken() -> None:
    config = RegistryConfig.from_properties(
        {
            "url": "https://a",
            "http.read.timeout.ms": "5",
            "proxy.host": "proxy",
            "proxy.port": "3128",
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    assert config.read_timeout_ms == 5
    assert config.proxy == ("proxy", 3128)
    assert config.tls is not None
    assert not config.tls.verify_host_name


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({}, "url: is missing"),
        ({"url": "registry:8081"}, "url: is not a URL of a registry"),
        ({"url": "http://a:99999"}, "url: is not a URL of a registry"),
        ({"url": "http://a", "schema.registry.basic.auth.user.info": "x"}, "is written without schema.registry. here"),
        ({"url": "http://a", "basic.auth.user.info": "nobody"}, "basic.auth.user.info: has no colon"),
        ({"url": "http://a", "basic.auth.credentials.source": "SASL_INHERIT"}, "'SASL_INHERIT' is not supported"),
        ({"url": "http://a", "basic.auth.credentials.source": "URL"}, "url has no user"),
        ({"url": "http://a", "basic.auth.credentials.source": "USER_INFO"}, "basic.auth.user.info: is missing"),
        ({"url": "http://me:x@a", "basic.auth.user.info": "me:x"}, "is given beside credentials in url"),
        ({"url": "http://a", "bearer.auth.credentials.source": "CUSTOM"}, "'CUSTOM' is not supported"),
        ({"url": "http://a", "bearer.auth.credentials.source": "STATIC_TOKEN"}, "bearer.auth.token: is missing"),
        ({"url": "http://a", "bearer.auth.client.id": "me"}, "bearer.auth.client.secret: is missing"),
        ({"url": "http://a", "bearer.auth.token": "t", "basic.auth.user.info": "a:b"}, "beside bearer.auth"),
        ({"url": "http://a", "http.read.timeout.ms": "soon"}, "'soon' is not a number of milliseconds"),
        ({"url": "http://a", "proxy.host": "proxy"}, "needs proxy.port"),
        ({"url": "http://a", "ssl.truststore.location": "/ca.pem"}, "url: is http, and ssl.* is given"),
    ],
)
def test_what_is_wrong_is_said(properties: dict[str, str], said: str) -> None:
    assert any(said in fault for fault in faults(properties)), faults(properties)


def test_no_message_and_no_repr_has_a_secret() -> None:
    secrets = dict.fromkeys(SECRETS, "hunter2")
    assert secrets.keys() <= NAMES
    assert "hunter2" not in " ".join(faults(secrets | {"url": "http://me:hunter2@a", "x": "hunter2"}))
    config = RegistryConfig.from_properties({"url": "https://me:hunter2@a"})
    assert "hunter2" not in repr(config)
    assert pickle.loads(pickle.dumps(config)) == config
