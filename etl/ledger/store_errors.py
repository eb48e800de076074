"""Errors of delta-rs, of Arrow's file systems and of their stores as typed errors: a wrong configuration, or a
transient failure that is retried.

delta-rs raises the errors of its stores (Rust's object_store) as OSError, DeltaError or Arrow's errors, depending on
the layer, and keeps only their text. So the text decides, in this module only: object_store's own messages, those of
Arrow and the operating system, and the codes in the stores' error documents. Everything that is not listed is
transient: 5xx, throttling, timeouts, a refused connection, and an expired token, which the next process may have
renewed.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from kseg.etl.errors import ConfigurationError, Diagnostic, KsegError, RetriableFailure
from kseg.etl.ledger.local_folders import MAY_WRITE, refuse_file
from kseg.etl.ledger.object_store import is_local, place_of
from kseg.etl.places import unusable


class _Cause(NamedTuple):
    """words: a regular expression, compiled when the first error is looked up: all commands load this module."""

    words: str
    permanent: bool
    remedy: str


def _errno(*numbers: int) -> str:
    """Errors of the operating system, as Python, Rust's Display and Rust's Debug write them."""
    one = "|".join(map(str, numbers))
    return rf"\[Errno ({one})\]|\(os error ({one})\)|\bOs \{{ code: ({one}),"


_CAUSES = (
    _Cause(
        r"URL scheme is not allowed",
        True,
        "give an https endpoint; if plain http is really meant, set AWS_ALLOW_HTTP=true (the option `allow_http`)",
    ),
    _Cause(
        r"received corrupt message of type InvalidContentType",
        True,
        "the endpoint does not use TLS: check its port; if plain http is really meant, give the endpoint "
        "with http:// and set AWS_ALLOW_HTTP=true (the option `allow_http`)",
    ),
    _Cause(
        r"invalid peer certificate",
        True,
        "name a file with the authorities to trust (PEM) in SSL_CERT_FILE, for the driver and for the executors "
        "(spark.executorEnv.SSL_CERT_FILE); connect by a name that the certificate has; renew an expired certificate",
    ),
    # Before the stores' own errors: these are of the instance metadata service, used when no credentials are set.
    _Cause(
        r"http://(169\.254\.\d+\.\d+|metadata[.\w]*)/",
        False,
        "no credentials are set and this machine provides none: set them (AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY, or what the store takes), if it was not meant to",
    ),
    _Cause(
        r"Generic Config error|Missing (AccessKeyId|SecretAccessKey)|(Account|Container name) must be specified",
        True,
        "check the store's configuration: environment variables and options",
    ),
    _Cause(
        r"Unknown scheme: |Unable to recognise URL",
        True,
        "give a local path, or the URL of a store that delta-rs knows, as in s3://bucket/folder",
    ),
    _Cause(
        r"NoSuchBucket|NO_SUCH_BUCKET|ContainerNotFound|The specified bucket does not exist",
        True,
        "check the name of the bucket, and endpoint, region and account; the bucket has to exist before the first run",
    ),
    _Cause(
        r"incorrectly configured region|AuthorizationHeaderMalformed|PermanentRedirect",
        True,
        "set AWS_REGION to the bucket's region, or AWS_ENDPOINT_URL to the store's address",
    ),
    _Cause(
        r"501 Not Implemented",
        True,
        "use a store with conditional PUTs (If-None-Match): commits depend on them",
    ),
    _Cause(
        r"(?i)status code\W+(401 Unauthorized|403 Forbidden)(?!.*(RateLimit|SlowDown|Throttl))|"
        r"AWS Error (ACCESS_DENIED|INVALID_ACCESS_KEY_ID|INVALID_SIGNATURE|SIGNATURE_DOES_NOT_MATCH|"
        r"UNRECOGNIZED_CLIENT|MISSING_AUTHENTICATION_TOKEN|REQUEST_TIME_TOO_SKEWED)",
        True,
        "give credentials that may read, list, write and delete below this path; the clock has to be right, too",
    ),
    _Cause(_errno(errno.EPERM, errno.EACCES, errno.EROFS, errno.ENOTDIR), True, MAY_WRITE),
    # The file was in a listing just before.
    _Cause(
        r"File not found: \S*_delta_log/",
        False,
        "run it again: the file was removed while it was read, as clean-ups of a table's log do; if it stays missing, "
        "restore it",
    ),
    # The store has completed the upload, but the response was lost: for the repeated request, the upload is unknown.
    _Cause(r"NoSuchUpload", False, "run it again: the store lost an answer while a file was uploaded"),
    _Cause(_errno(errno.ENOSPC, errno.EDQUOT), False, "free space there, or raise the quota"),
)

_ENDPOINT_KEYS = ("aws_endpoint_url", "endpoint_url", "aws_endpoint", "endpoint")
_WEB = re.compile(r"https?://[^/]")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def check_endpoint(place: str, options: Mapping[str, str], *, setting: str, **address: str) -> None:
    """Refuse an S3 endpoint (option or environment variable) that is not a URL: some of these make delta-rs panic.

    place: path or URI of a ledger or table. setting: the key of the job file that names it ("sink").

    Raises:
        ConfigurationError: it does not begin with `https://` or `http://`.
    """
    if not place.startswith(("s3:", "s3a:", "s3n:")):
        return
    given = {key.lower(): value for key, value in (*os.environ.items(), *options.items()) if value}
    for key in _ENDPOINT_KEYS:
        if key in given and not _WEB.match(given[key]):
            remedy = "write it with https:// (or http://) before the host"
            raise ConfigurationError(
                [Diagnostic(setting, f"{key.upper()}={given[key]} is not a URL", remedy)], **address
            )


def check_place(place: str, *, setting: str, may_escape: bool = True, **address: str) -> None:
    """Refuse a place that delta-rs would open as another one, or that makes it panic, and a file in place of a folder.
    Symbolic links are resolved, too.

    place, setting: as in `check_endpoint`. may_escape: whether a URL may have percent escapes. A ledger may have a
    table under such a name; all readers and writers decode the escapes, except for Hadoop.

    Raises:
        ConfigurationError
    """
    found, named = unusable(place, may_escape=may_escape), place
    if found is None and is_local(place) and (leads_to := place_of(place)) != place:
        found, named = unusable(leads_to), f"leads to {leads_to}, which"
    if found is not None:
        raise ConfigurationError([Diagnostic(setting, f"{named} {found.message}", found.remedy)], **address)
    refuse_file(place, setting=setting, **address)


def store_error(
    doing: str,
    error: Exception,
    *,
    setting: str,
    otherwise: type[KsegError] = RetriableFailure,
    **address: str,
) -> KsegError:
    """The error to raise `from` an error of delta-rs or a file system.

    doing: what failed: the beginning of the message ("cannot read the table").
    setting: the key of the job file that names the store ("sink").
    otherwise: RetriableFailure or KsegError, for an error that may not come from a store. An OSError always does.

    Returns:
        A ConfigurationError if only another configuration can help; a RetriableFailure if the same command may succeed
        later.
    """
    text = store_words(error)
    message = f"{doing}: {text}"
    cause = next((cause for cause in _CAUSES if re.search(cause.words, text)), None)
    if cause is None:
        kind = RetriableFailure if isinstance(error, OSError) else otherwise
        return kind(message, **address)
    if cause.permanent:
        return ConfigurationError([Diagnostic(setting, message, cause.remedy)], **address)
    return RetriableFailure(message, remedy=cause.remedy, **address)


def store_words(error: Exception) -> str:
    """The message of delta-rs in one line; delta-rs formats it as a coloured tree of causes."""
    lines = (line.strip().removeprefix("↳").strip() for line in _COLOUR.sub("", str(error)).splitlines())
    return ": ".join(line for line in lines if line)
