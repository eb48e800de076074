"""Makes text from a peer, such as names in a response, safe to write to a terminal or a log."""

from __future__ import annotations


def printable(text: str, *, keep: str = "") -> str:
    """The text with all characters escaped that are not printable, except those in `keep`.

    Control characters can move a terminal's cursor and forge log lines; bidirectional marks reorder the text.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)
