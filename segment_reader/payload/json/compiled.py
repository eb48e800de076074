"""The compiled decoder: the kernel, its buffers, and the reference for what the kernel leaves to it.

That is single values (a double that needs more than 128 bits to be rounded, a decimal of twenty digits and more, a
date or timestamp that may be wrong), the order of two errors in one row, and each error's words.
"""

from __future__ import annotations

import secrets

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kseg.segment_reader.decode.jit import warn_if_compiling
from kseg.segment_reader.payload.buffers import byte_buffers, null_mask
from kseg.segment_reader.payload.decoder import DecodedPayloads, PayloadError, Status
from kseg.segment_reader.payload.json.columns import Bytes, Columns
from kseg.segment_reader.payload.json.document import parse
from kseg.segment_reader.payload.json.floats import POWERS, TENS, UNSIGNED_TENS
from kseg.segment_reader.payload.json.kernel import decode
from kseg.segment_reader.payload.json.numbers import Unfit
from kseg.segment_reader.payload.json.reference import JsonReference, scalar
from kseg.segment_reader.payload.json.shape import JsonOptions, shape_of
from kseg.segment_reader.payload.json.strings import SLACK
from kseg.segment_reader.payload.json.table import (
    BAD,
    DONE,
    GROW_PATCHES,
    GROW_SCRATCH,
    GROW_SEEN,
    L_SIZE,
    P_SIZE,
    S_NEED,
    S_NODE,
    S_PATCHES,
    S_ROW,
    S_SCRATCH,
    S_SCRATCH_SIZE,
    S_STATE,
    Nodes,
    Rules,
)

Int64s = npt.NDArray[np.int64]

#: of the lowest n bytes of a word
_MASKS = np.array([(1 << 8 * n) - 1 if n < 8 else -1 for n in range(9)], np.int64)


class JsonDecoder:
    """See `segment_reader.payload.decoder.PayloadDecoder`. declared: a struct of the columns. Raises InvalidSchema.

    Threads may share one.
    """

    def __init__(self, declared: pa.StructType, options: JsonOptions | None = None) -> None:
        self._options = options or JsonOptions()
        self._reference = JsonReference(declared, self._options)
        shape = shape_of(declared, self._options)
        self._nodes = Nodes(shape, rescue=self._options.unknown_fields == "rescue")
        self._sizes = [0] * len(self._nodes.shapes)
        self._seed = secrets.randbits(62) | 1 << 62

    @property
    def type(self) -> pa.StructType:
        return self._reference.type

    def explain(self, payload: bytes, *, skip: int = 0) -> PayloadError:
        return self._reference.explain(payload, skip=skip)

    def decode(self, payloads: pa.BinaryArray, *, skip: int = 0) -> DecodedPayloads:
        n = len(payloads)
        offsets, data = byte_buffers(payloads)
        status = np.zeros(n, np.uint8)
        status[np.diff(offsets[: n + 1]) < skip] = Status.BAD_FRAME
        status[null_mask(payloads)] = Status.NULL
        call = _Call(self._nodes, Rules(skip, self._options.max_depth, self._nodes.rescued, self._seed))
        columns = Columns(self._nodes, n, int(offsets[n]) - int(offsets[0]), self._sizes)
        while True:
            call.run(data, offsets, columns, status)
            if not self._patch(call, data, columns, status):
                break
        for row in np.flatnonzero(status == BAD).tolist():
            status[row] = self.explain(payloads[row].as_py(), skip=skip).status
        self._sizes = columns.used()
        return DecodedPayloads(columns.rows(self.type), status)

    def _patch(self, call: _Call, data: Bytes, columns: Columns, status: Bytes) -> bool:
        """Puts what the kernel has left out. True: a value was wrong, and S_ROW is back at the first such row."""
        first_bad = -1
        for row, node, slot, start, end in call.patches[: call.state[S_PATCHES]].tolist():
            if status[row]:
                continue  # another of its values is wrong
            shape = self._nodes.shapes[node]
            assert shape is not None
            value = parse(data[start:end].tobytes(), 0, 1)
            try:
                columns.put(node, slot, scalar(value.token, value.text, shape))
            except Unfit as unfit:
                status[row] = unfit.status
                first_bad = row if first_bad < 0 else first_bad
        call.state[S_PATCHES] = 0
        if first_bad >= 0:
            call.state[S_ROW] = first_bad
        return first_bad >= 0


class _Call:
    """The kernel's state and scratch space for one array of payloads."""

    def __init__(self, nodes: Nodes, rules: Rules) -> None:
        self._nodes, self._rules = nodes, rules
        self.state: Int64s = np.zeros(S_STATE, np.int64)
        self.patches: Int64s = np.empty((16, P_SIZE), np.int64)
        self._stamps: Int64s = np.zeros(len(nodes.shapes), np.int64)
        self._levels: Int64s = np.zeros((rules.max_depth + 1, L_SIZE), np.int64)
        self._opened = np.zeros(rules.max_depth + 1, np.uint8)
        self._seen: Int64s = np.empty(64, np.int64)
        self._scratch = np.empty(0, np.uint8)
        self._use_scratch(256)

    def _use_scratch(self, size: int) -> None:
        self._scratch = np.empty(size + 2 * SLACK, np.uint8)
        self.state[[S_SCRATCH, S_SCRATCH_SIZE]] = self._scratch.ctypes.data, len(self._scratch)

    def run(self, data: Bytes, offsets: Int64s, columns: Columns, status: Bytes) -> None:
        nodes, state = self._nodes, self.state
        warn_if_compiling(decode)
        while True:
            answer = decode(
                data.ctypes.data,
                offsets,
                self._rules,
                columns.table,
                nodes.children,
                nodes.hashes,
                nodes.names.ctypes.data,
                _MASKS,
                self._stamps,
                self._levels,
                self._opened,
                self._seen,
                self.patches,
                POWERS,
                TENS,
                UNSIGNED_TENS,
                nodes.steps,
                nodes.zone,
                state,
                status,
            )
            if answer == DONE:
                return
            need = int(state[S_NEED])
            if answer == GROW_PATCHES:
                larger = np.empty((4 * len(self.patches), P_SIZE), np.int64)
                larger[: len(self.patches)] = self.patches
                self.patches = larger
            elif answer == GROW_SCRATCH:
                self._use_scratch(2 * len(self._scratch))
            elif answer == GROW_SEEN:
                self._seen = np.empty(4 << need.bit_length(), np.int64)
            else:
                columns.grow(answer, int(state[S_NODE]), need, int(state[S_ROW]))
