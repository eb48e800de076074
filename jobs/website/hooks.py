"""Functions that mkdocs calls while it builds the site (`hooks:` in mkdocs.yml).

Some pages are not files below `docs/`: those that are made from the source (the protocol, requests, the command line,
the protocol's rules), and those that lie in the repository's root, where people look for them. mkdocs checks all links
(`strict: true`): a page or an anchor that is not there fails the build, and here so does what a page would load over a
network.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from kseg.jobs.api import page as protocol_page
from kseg.jobs.api import requests_page
from kseg.jobs.website import cli_page, errors_page, rules_page
from kseg.jobs.website.links import OF_THE_ROOT, links_of_the_site

#: Pages that are made from the source, by their path in the site (and below `docs/`).
GENERATED: Final[dict[str, Callable[[Path], str]]] = {
    "reference/cli.md": lambda root: cli_page.page(),
    "reference/errors.md": lambda root: errors_page.page(),
    "reference/protocol.md": lambda root: protocol_page.page(),
    "reference/protocol-rules.md": lambda root: rules_page.page(root / "tests"),
    "reference/requests.md": lambda root: requests_page.page(),
}
#: Scripts, styles, pictures and frames of another host. Links that a reader may follow are none.
_LOADED: Final = re.compile(
    r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"'\s>]+)"
)
#: A second word after a fence's language is for tests alone.
_SECOND_WORD: Final = re.compile(r"^( *```\w+) [\w ]+$", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not files below `docs/`."""
    root = Path(config.docs_dir).parent
    for path, make in GENERATED.items():
        files.append(File.generated(config, path, content=make(root)))
    for name, path in OF_THE_ROOT.items():
        files.append(File.generated(config, path, abs_src_path=str(root / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links for the site. Pages that are made from the source rank last in its search results."""
    if page.file.src_uri in GENERATED:
        page.meta["search"] = {"boost": 0.2}
    return _SECOND_WORD.sub(r"\1", links_of_the_site(markdown, page.file.src_uri))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Refuse a page that loads something over a network: the site is read without one."""
    loaded = _LOADED.findall(output)
    if loaded:
        raise PluginError(f"{page.file.src_uri} loads {', '.join(loaded)}")
    return output
