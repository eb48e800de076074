"""Links between pages: by paths in the repository as they are written, by paths in the site as they are shown.

README.md               -> index.md            a page in the repository's root has its own place in the site
docs/guides/airflow.md  -> guides/airflow.md
"""

from __future__ import annotations

import os
import posixpath
import re
from typing import Final

#: Files in the repository's root that pages link to, and their path in the site.
OF_THE_ROOT: Final = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "explanation/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "benchmarks.md": "project/benchmarks.md",
    "LICENSE": "LICENSE",
}
_IN_REPOSITORY: Final = {site: name for name, site in OF_THE_ROOT.items()}
_FENCED: Final = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)(?=[)#])")


def links_of_the_site(markdown: str, path: str) -> str:
    """Replace paths of the repository in a page's links by those of the site. `path` is the page's own, in the site.

    Code blocks stay as they are, and so do links that lead elsewhere than to a page: mkdocs reports these.
    """
    parts, last = [], 0
    for block in _FENCED.finditer(markdown):
        parts += [_replaced(markdown[last : block.start()], path), block[0]]
        last = block.end()
    return "".join([*parts, _replaced(markdown[last:], path)])


def _replaced(text: str, path: str) -> str:
    folder = posixpath.dirname(_IN_REPOSITORY.get(path, f"docs/{path}"))

    def link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[1]))
        if target not in OF_THE_ROOT and not target.startswith("docs/"):
            return match[1]
        in_site = OF_THE_ROOT.get(target, target.removeprefix("docs/"))
        return os.path.relpath(in_site, posixpath.dirname(path) or ".")

    return _LINK.sub(link, text)
