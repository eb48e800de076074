"""Zip files that Python imports from, as `--py-files` and Spark Connect's artifacts take them.

Entries have one date and one order, so that the same files give the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping

_DATE = (1980, 1, 1, 0, 0, 0)


def zipped(files: Mapping[str, bytes]) -> bytes:
    """A zip file with these entries, compressed. A wheel's `.dist-info` comes last."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files, key=lambda name: (".dist-info/" in name, name)):
            entry = zipfile.ZipInfo(name, _DATE)
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name])
    return out.getvalue()


def content_id(data: bytes) -> str:
    """Part of an archive's name: 16 hex digits of its SHA-256. Spark takes one content for a name."""
    return hashlib.sha256(data).hexdigest()[:16]
