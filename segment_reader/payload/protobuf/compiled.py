"""The compiled decoder: the kernel, the buffers that it fills, and the reference for what the kernel leaves to it.

That is what serializers do not write (see `kernel`), and messages of google/protobuf/struct.proto: the kernel copies
their bytes, which become JSON here, about 10 µs a value.

Each call has buffers of its own, so that threads may share a decoder; they begin as large as the last call's were and
at least double when the kernel asks for more.
"""

from __future__ import annotations

import secrets

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kseg.segment_reader.decode.jit import warn_if_compiling
from kseg.segment_reader.payload.buffers import kernel_input
from kseg.segment_reader.payload.decoder import DecodedPayloads, PayloadError, Status, concatenated
from kseg.segment_reader.payload.protobuf import opcodes as op
from kseg.segment_reader.payload.protobuf.buffers import Buffers, Bytes
from kseg.segment_reader.payload.protobuf.columns import MessageColumns
from kseg.segment_reader.payload.protobuf.kernel import run
from kseg.segment_reader.payload.protobuf.program import build
from kseg.segment_reader.payload.protobuf.reference import ReferenceProtobufDecoder

_SCRATCH = 256


class CompiledProtobufDecoder:
    """See `segment_reader.payload.decoder.PayloadDecoder`."""

    def __init__(self, struct: MessageColumns) -> None:
        self._reference = ReferenceProtobufDecoder(struct)
        self._program = build(struct)
        self._documents = any(slot.document for slot in self._program.slots)
        self._sizes: dict[int, int] = {}
        self._items = [0] * len(self._program.parents)

    @property
    def type(self) -> pa.DataType:
        return self._reference.type

    def explain(self, payload: bytes, *, skip: int = 0) -> PayloadError:
        return self._reference.explain(payload, skip=skip)

    def decode(self, payloads: pa.BinaryArray, *, skip: int = 0) -> DecodedPayloads:
        status = np.empty(len(payloads), np.uint8)
        source = kernel_input(payloads, skip)
        buffers = Buffers(self._program, len(payloads), source.total, self._sizes, self._items)
        self._run(buffers, source.fields, status)
        self._sizes, self._items = buffers.used()
        if self._documents:
            # Of two errors in a row the kernel has seen only the one that is in no document.
            status[(status != Status.DECODED) & (status != Status.NULL)] = op.LEFT
            for row in buffers.write_documents():
                status[row] = op.LEFT
        return self._with_those_left(buffers.rows(), status, payloads, skip)

    def _run(self, buffers: Buffers, source: npt.NDArray[np.int64], status: Bytes) -> None:
        program = self._program
        levels = buffers.levels
        stack = np.empty((program.frames, op.FRAME), np.int64)
        scratch = np.empty(_SCRATCH, np.int64)
        state = np.zeros(op.STATE_SIZE, np.int64)
        state[op.SEED] = secrets.randbits(63)
        warn_if_compiling(run)
        while True:
            wanted = run(
                buffers.instructions.ctypes.data,
                program.messages,
                buffers.inits.ctypes.data,
                buffers.checks.ctypes.data,
                program.jumps,
                program.tags,
                program.closed,
                levels,
                stack,
                scratch,
                *program.nulls,
                source,
                status,
                state,
            )
            if not wanted:
                return
            need = int(state[op.NEED])
            if wanted == op.GROW_SCRATCH:
                scratch = np.empty(2 * need, np.int64)
            else:
                buffers.grow(wanted, int(state[op.NUMBER_OF]), need)

    def _with_those_left(self, rows: pa.Array, status: Bytes, payloads: pa.BinaryArray, skip: int) -> DecodedPayloads:
        """The rows, with the reference's in place of those that are left."""
        left = np.flatnonzero(status == op.LEFT)
        if not len(left):
            return DecodedPayloads(rows, status)
        plain = self._reference.decode(payloads.take(pa.array(left)), skip=skip)
        status[left] = plain.status
        which = np.arange(len(rows))
        which[left] = len(rows) + np.arange(len(left))
        return DecodedPayloads(concatenated([rows, plain.rows]).take(pa.array(which)), status)
