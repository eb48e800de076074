"""Typed errors through text: what Spark makes of a worker's exception."""

from __future__ import annotations

import base64
import pickle

import pytest

from kseg.client.errors import UnknownTopic
from kseg.etl.errors import KsegError, RetriableFailure
from kseg.etl.source.errors import NoProgress, OffsetsLost, WorkerError
from kseg.etl.spark.error_transport import ErrorTransport
from kseg.segment_reader.errors import BatchAddress, CorruptRecordBatch

ERRORS = [
    OffsetsLost("orders", 1, 5, 9, "truncation"),
    NoProgress("orders", 1, 5, 9, 60.0),
    UnknownTopic("gone", topic="orders", partition=1),
    CorruptRecordBatch(BatchAddress("orders", 1, 5, 0), "bad checksum"),
    RetriableFailure("away", broker=1),
]


def through_spark(error: BaseException) -> RuntimeError:
    return RuntimeError(f"Job aborted.\nTraceback …\n{error}\n\tat org.apache.spark.Frame")


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_an_error_arrives_as_what_it_is(error: Exception) -> None:
    transport = pickle.loads(pickle.dumps(ErrorTransport()))
    with pytest.raises(type(error)) as caught, transport.opening():
        raise through_spark(transport.pack(error))
    assert str(caught.value) == str(error)
    assert {**caught.value.__dict__, "__notes__": None} == {**error.__dict__, "__notes__": None}
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_foreign_error_arrives_by_name() -> None:
    transport = ErrorTransport()
    found = transport.find(through_spark(transport.pack(ZeroDivisionError("by zero"))))
    assert isinstance(found, WorkerError)
    assert str(found) == "ZeroDivisionError: by zero"
    assert found.__notes__ == ["In the worker:\nZeroDivisionError: by zero\n"]


def test_an_error_that_cannot_be_pickled_arrives_by_name() -> None:
    error = KsegError("odd")
    error.attachment = lambda: None  # type: ignore[attr-defined]
    transport = ErrorTransport()
    found = transport.find(through_spark(transport.pack(error)))
    assert isinstance(found, WorkerError)
    assert str(found) == "KsegError: odd"


def test_packing_happens_once() -> None:
    transport = ErrorTransport()
    with pytest.raises(Exception, match="kseg-error") as caught, transport.packing(), transport.packing():
        raise OffsetsLost("orders", 0, 1, 2)
    assert str(caught.value).count("kseg-error") == 1


def test_nothing_is_unpickled_without_the_token() -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, ...]:
            return pytest.fail, ("unpickled what a record said",)

    forged = base64.b64encode(pickle.dumps(Trap())).decode()
    transport = ErrorTransport()
    assert transport.token not in repr(transport)
    for token in ("", "0" * 32, "[0-9a-f]+", ErrorTransport().token):
        assert transport.find(RuntimeError(f"[kseg-error {token} {forged}]")) is None
    with pytest.raises(RuntimeError, match="forged"), transport.opening():
        raise RuntimeError(f"forged [kseg-error {'0' * 32} {forged}]")
