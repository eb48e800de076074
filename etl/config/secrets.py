"""Secrets: references in place of values that must not be in a job file, and values that must not be printed.

    ${NAME}            environment variable
    ${file:/path}      a file's content without its last line break; a relative path starts at the job file's folder
    $${                a plain `${`

In `kafka:`, `registry:` and `spark.conf:` references stay unresolved in the job and are resolved at the moment of use
into a `SecretProperties`, whose `repr` hides every value that came from a reference. Elsewhere (`path: ${LAKE}/orders`)
an environment variable is plain text: it is filled in when the file is read, and it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from kseg.etl.config.references import REFERENCE

MASK = "***"

# The last word of a key that is no secret although an earlier word sounds like one
# (`sasl.oauthbearer.token.endpoint.url`, `fs.s3a.aws.credentials.provider`, `ssl.keystore.password.file`).
_HARMLESS_ENDINGS = frozenset(
    {"url", "uri", "file", "path", "location", "class", "provider", "type", "handler", "callback"}
    | {"id", "name", "algorithm", "enabled", "ms", "seconds", "size", "length", "mode", "period"}
)
_SECRET_WORDS = frozenset({"password", "passwd", "passphrase", "secret", "token", "jaas"})
# Words in a row. An access key of S3 (`fs.s3a.access.key`) is the id of a secret and none itself; that of Azure is one.
_SECRET_PHRASES = (
    *("user.info", "keystore.key", "private.key", "account.key", "secret.key"),
    *("storage.access.key", "storage.master.key", "azure.sas", "sas.key", "sse.customer.key", "connection.string"),
)
_ENCRYPTION_KEYS = ("encryption.key", "provided.key")  # at the end: Parquet's `encryption.key.list` has other forms
_SECRET_TAILS = ("password", "secret", "token", "passphrase", "secretkey", "secretaccesskey")
# Login modules without secrets among their options, and any module without options.
_SECRETLESS_MODULE = re.compile(r"\s*([\w.]*\b(Krb5LoginModule|IAMLoginModule)\s|[\w.$]+\s+[a-z]+\s*;\s*$)")
# The name of a key in AWS KMS, in a property that may hold a key.
_KMS_KEY = re.compile(r"arn:\S+|alias/\S+|mrk-\w+|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_LITERAL_IN_JAAS = re.compile(r"(?i)(password|secret|token|passphrase)\s*=\s*(\"(?!\$\{)|'(?!\$\{)|(?![\"'$]))")

# The name of a user before its password, which may be a reference and have a colon in it.
_USER = re.compile(r"(?:\$\{[^{}]*\}|[^:$]|\$(?!\{))+:")


class SecretProperties(Mapping[str, str]):
    """Resolved properties: a mapping of text whose repr shows a mask where a value came from a reference."""

    __slots__ = ("_hidden", "_values")

    def __init__(self, values: Mapping[str, str], hidden: frozenset[str]) -> None:
        self._values = dict(values)
        self._hidden = hidden

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        shown = {key: MASK if key in self._hidden else value for key, value in self._values.items()}
        return f"{type(self).__name__}({shown!r})"

    @property
    def hidden(self) -> frozenset[str]:
        """The keys whose values came from references."""
        return self._hidden


def has_reference(text: str) -> bool:
    return any(match["body"] is not None or match["open"] for match in REFERENCE.finditer(text))


def anchored(text: str, folder: Path) -> str:
    """The same text with the paths of its file references made absolute, so that it means the same anywhere."""

    def anchor(match: re.Match[str]) -> str:
        body = match["body"]
        if body is None or not body.startswith("file:") or not body.removeprefix("file:").strip():
            return match[0]
        return f"${{file:{folder / body.removeprefix('file:').strip()}}}"

    return REFERENCE.sub(anchor, text)


def names_file(text: str) -> bool:
    return any((match["body"] or "").startswith("file:") for match in REFERENCE.finditer(text))


def referenced_names(text: str) -> list[str]:
    """The names and files that a text refers to."""
    return [match["body"] for match in REFERENCE.finditer(text) if match["body"] is not None]


def sounds_secret(key: str) -> bool:
    """Whether a property of this name holds a secret: Kafka's password-typed names, Spark's and Hadoop's habits."""
    words = [word for word in re.split(r"[._\-]", key.lower()) if word]
    if not words or words[-1] in _HARMLESS_ENDINGS:
        return False
    phrase = f".{'.'.join(words)}."
    return (
        not _SECRET_WORDS.isdisjoint(words)
        or any(f".{known}." in phrase for known in _SECRET_PHRASES)
        or words[-1].endswith(_SECRET_TAILS)
        or ".".join(words[-2:]) in _ENCRYPTION_KEYS
    )


def stands_in_clear(key: str, text: str) -> bool:
    """Whether this value of this key is a secret written into the file rather than a reference to it."""
    if not sounds_secret(key) or not text.strip():
        return False
    if key.lower().endswith("jaas.config"):
        if _LITERAL_IN_JAAS.search(text):
            return True
        return not has_reference(text) and _SECRETLESS_MODULE.match(text) is None
    if key.lower().endswith("encryption.key") and _KMS_KEY.fullmatch(text.strip()):
        return False
    # A secret with a reference in it is not one reference: the rest of it would be in the file.
    if _is_reference(text):
        return False
    user = _USER.match(text) if key.lower().endswith("user.info") else None
    return user is None or not _is_reference(text[user.end() :])


def _is_reference(text: str) -> bool:
    """Whether the whole text is one reference."""
    match = REFERENCE.fullmatch(text.strip())
    return match is not None and match["body"] is not None
