"""Which resolved values no output may show: those of references that may be secrets, and not each reference's value.

sasl.password: ${P}             a secret, by the property's name
spark.x: ${DB_PASSWORD}         a secret, by the variable's name
spark.x: ${file:/run/x}         a secret: a file holds nothing else
registry url: ${REGISTRY}       a secret if it is https://user:password@host
sasl.jaas.config                each password in it, and each reference but user names
client.id: ${HOSTNAME}          none: hiding a host or a word such as `orders` would spoil messages and remedies
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from kseg.etl.config.references import REFERENCE, ReferenceFault, resolve
from kseg.etl.config.secrets import has_reference, sounds_secret

# Wider than `sounds_secret`, which rejects job files: here a wrong guess costs a `***` too many.
_WORDS: Final = frozenset(
    {"key", "keys", "pw", "pwd", "psw", "sas", "sig", "signature", "auth", "cred", "creds", "jwt", "pem", "pin"}
)
_PARTS: Final = re.compile(r"(?i)pass|secret|token|credential|jaas|(access|account|api|private|shared)key")
_HARMLESS_ENDINGS: Final = frozenset(
    {"id", "name", "path", "file", "location", "class", "provider", "type", "algorithm"}
)
_USER_INFO: Final = re.compile(r"//[^/@\s]*:[^/@\s]*@")
_JAAS_OPTION: Final = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';]+))""")
_OPTION_BEFORE: Final = re.compile(r"""([\w.]+)\s*=\s*["']?$""")


def secret_values(written: Mapping[str, str], resolved: Mapping[str, str], env: Mapping[str, str]) -> Iterator[str]:
    """The secrets of one section of properties. written: with references, their files by absolute paths. env: what they
    refer to.

    A value may be yielded more than once.
    """
    for key, text in written.items():
        value = resolved.get(key)
        if value is None or not has_reference(text):
            continue
        secret = may_hold_secret(key)
        parts = [(match, _hides(match, text, secret)) for match in REFERENCE.finditer(text) if match["body"]]
        if secret or any(hidden for _, hidden in parts) or _USER_INFO.search(value):
            yield value
        if key.lower().endswith("jaas.config"):
            yield from _passwords(value)
        for match, hidden in parts:
            if hidden:
                with suppress(ReferenceFault):  # it has changed since the job was loaded
                    yield resolve(match[0], env=env, folder=Path("/"))


def may_hold_secret(name: str) -> bool:
    """Whether what a property or a variable of this name holds may be a secret."""
    if sounds_secret(name):
        return True
    words = [word for word in re.split(r"[\W_]", name.lower()) if word]
    if not words or words[-1] in _HARMLESS_ENDINGS:
        return False
    return not _WORDS.isdisjoint(words) or _PARTS.search(name) is not None


def _hides(reference: re.Match[str], text: str, secret: bool) -> bool:
    """Whether one reference of a property's text is a secret. secret: the property is one."""
    body = reference["body"]
    if body.startswith("file:") or may_hold_secret(body):
        return True
    option = _OPTION_BEFORE.search(text, 0, reference.start())
    return secret and (option is None or not _is_user_name(option[1]))


def _passwords(jaas: str) -> Iterator[str]:
    for option in _JAAS_OPTION.finditer(jaas):
        if may_hold_secret(option[1]):
            yield next(value for value in option.groups()[1:] if value is not None)


def _is_user_name(option: str) -> bool:
    return option.lower().endswith(("name", "id", "user"))
