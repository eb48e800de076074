"""Compiled: fields that no type declares, as they are written, into the text of the rescued column.

The text is the document without what is declared. Objects and arrays around a rescued field are opened in the text when
the field is met, and closed when they are: those without rescued fields leave nothing.
"""

from __future__ import annotations

from typing import Any

from kseg.segment_reader.decode.jit import compiled
from kseg.segment_reader.payload.json.shape import Kind
from kseg.segment_reader.payload.json.strings import TOO_SMALL
from kseg.segment_reader.payload.json.table import L_INDEX, L_KEY, L_KEY_END, L_NODE, L_WRITTEN, N_KIND
from kseg.segment_reader.payload.memory import memcpy, store8, store32

LIST = int(Kind.LIST)

_NULL = 0x6C6C756E  # `null`, its first letter lowest


@compiled
def _separate(t: Any, levels: Any, level: Any, at: Any) -> Any:
    """The bracket or the comma before a level's next member; behind it."""
    if levels[level, L_WRITTEN]:
        store8(at, 44)
    else:
        store8(at, 91 if t[levels[level, L_NODE], N_KIND] == LIST else 123)
    levels[level, L_WRITTEN] += 1
    return at + 1


@compiled
def rescue(t: Any, levels: Any, level: Any, start: Any, end: Any, at: Any, room_end: Any) -> Any:
    """Adds the member at start … end of the object at `level`; behind the text, or TOO_SMALL."""
    opened = level
    while opened > 0 and levels[opened, L_WRITTEN] == 0:
        opened -= 1
    for around in range(opened, level):
        inner = around + 1
        if t[levels[around, L_NODE], N_KIND] == LIST:
            while levels[around, L_WRITTEN] < levels[inner, L_INDEX]:
                if room_end - at < 8:
                    return TOO_SMALL
                at = _separate(t, levels, around, at)
                store32(at, _NULL)
                at += 4
            if room_end - at < 8:
                return TOO_SMALL
            at = _separate(t, levels, around, at)
        else:
            size = levels[inner, L_KEY_END] - levels[inner, L_KEY]
            if room_end - at < size + 8:
                return TOO_SMALL
            at = _separate(t, levels, around, at)
            memcpy(at, levels[inner, L_KEY], size)
            store8(at + size, 58)
            at += size + 1
    if room_end - at < end - start + 8:
        return TOO_SMALL
    at = _separate(t, levels, level, at)
    memcpy(at, start, end - start)
    return at + end - start
