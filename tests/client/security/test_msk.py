"""IAM logins of Amazon MSK: AWS' own signer makes the token, and the signature is computed here once more."""

from __future__ import annotations

import base64
import hashlib
import hmac
import sys
import time
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import pytest

from kseg.client import AuthenticationFailed, ClientConfig
from kseg.client.retry import Deadline
from kseg.client.security import msk
from kseg.client.security.tokens import Token

pytest.importorskip("aws_msk_iam_sasl_signer", reason="needs the extra `msk`")

KEY_ID, SECRET, REGION = "AKIDEXAMPLE", "hunter2/hunter2", "eu-central-1"
LOGIN = {
    "bootstrap.servers": "b-1.lake.kafka.eu-central-1.amazonaws.com:9098",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.callback": "kseg.client.security.msk:token",
}


@pytest.fixture(autouse=True)
def nothing_of_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the machine's configuration of AWS nor a server for the roles of instances."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


def signed(url: str, secret: str) -> str:
    """The signature of a presigned URL, by AWS' Signature Version 4."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    named = {name: query[name] for name in sorted(query) if name not in ("X-Amz-Signature", "User-Agent")}
    canonical = urlencode(named, quote_via=quote, safe="-_.~")
    request = f"GET\n/\n{canonical}\nhost:{parts.hostname}\n\nhost\n{hashlib.sha256(b'').hexdigest()}"
    scope = query["X-Amz-Credential"].partition("/")[2]
    text = "\n".join(["AWS4-HMAC-SHA256", query["X-Amz-Date"], scope, hashlib.sha256(request.encode()).hexdigest()])
    key = f"AWS4{secret}".encode()
    for word in scope.split("/"):
        key = hmac.digest(key, word.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()


def opened(token: Token) -> str:
    text = token.value.reveal()
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("variable", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_a_token_is_a_url_that_aws_would_take(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, REGION)
    sasl = ClientConfig.from_properties(LOGIN, client_id="c").security.sasl
    assert sasl is not None
    assert sasl.tokens is not None
    token = sasl.tokens.fetch(Deadline.after(60))
    url = opened(token)
    query = dict(parse_qsl(urlsplit(url).query))
    assert urlsplit(url).hostname == f"kafka.{REGION}.amazonaws.com"
    assert query["Action"] == "kafka-cluster:Connect"
    assert query["X-Amz-Credential"].split("/")[0] == KEY_ID
    assert query["X-Amz-Credential"].split("/")[2:] == [REGION, "kafka-cluster", "aws4_request"]
    assert query["X-Amz-Signature"] == signed(url, SECRET)
    assert token.expires_at is not None
    assert 0 < token.expires_at - time.time() <= int(query["X-Amz-Expires"])
    assert SECRET not in f"{token!r}"


@pytest.mark.usefixtures("keys")
def test_region_and_keys_may_come_from_a_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    (tmp_path / "config").write_text(
        f"[profile etl]\nregion={REGION}\naws_access_key_id={KEY_ID}\naws_secret_access_key={SECRET}\n"
    )
    monkeypatch.setenv("AWS_PROFILE", "etl")
    assert f"kafka.{REGION}.amazonaws.com" in opened(msk.token())


@pytest.mark.usefixtures("keys")
def test_without_a_region_the_variable_is_named() -> None:
    with pytest.raises(AuthenticationFailed, match="set AWS_REGION") as caught:
        msk.token()
    assert not caught.value.retriable


def test_without_credentials_the_ways_to_give_them_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    monkeypatch.setenv("AWS_REGION", REGION)
    with pytest.raises(AuthenticationFailed, match="AWS_PROFILE"):
        msk.token()


def test_an_error_of_aws_is_told_by_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    sasl = ClientConfig.from_properties(LOGIN, client_id="c").security.sasl
    assert sasl is not None
    assert sasl.tokens is not None
    with pytest.raises(AuthenticationFailed, match=r"cannot be had \(ProfileNotFound\)"):
        sasl.tokens.fetch(Deadline.after(60))


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer.MSKAuthTokenProvider", None)
    with pytest.raises(AuthenticationFailed, match=r"kafka-segment-etl\[msk\]"):
        msk.token()
