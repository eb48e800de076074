"""Text of others, such as names that a broker says, as it may be written to a terminal or a log."""

from __future__ import annotations


def printable(text: str, *, keep: str = "") -> str:
    """The text with escapes in place of characters that are not printable, but those of `keep`.

    Control characters move a terminal's cursor and forge lines of a log; marks of direction reorder what is read.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)
