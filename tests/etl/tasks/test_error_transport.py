"""Typed errors through text: what Spark makes of a worker's exception."""

from __future__ import annotations

import base64
import json
import pickle

import pytest

from kseg.client.errors import UnknownTopic
from kseg.etl.errors import KsegError, Refused, RetriableFailure
from kseg.etl.source.errors import NoProgress, OffsetsLost, WorkerError
from kseg.etl.tasks.error_json import error_document
from kseg.etl.tasks.error_transport import ErrorTransport, TransportedError, without_packed
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
    assert caught.value.__cause__ is None
    assert isinstance(caught.value.__context__, RuntimeError)  # Spark's


def test_a_foreign_error_arrives_by_name() -> None:
    transport = ErrorTransport()
    found = transport.find(through_spark(transport.pack(ZeroDivisionError("by zero"))))
    assert isinstance(found, WorkerError)
    assert str(found) == "ZeroDivisionError: by zero"
    assert found.__notes__ == ["In the worker:\nZeroDivisionError: by zero\n"]


def test_an_error_arrives_with_what_it_was_raised_from() -> None:
    transport = ErrorTransport()

    def work() -> None:
        with transport.packing():
            try:
                raise UnknownTopic("gone", topic="orders")
            except UnknownTopic as unknown:
                raise NoProgress("orders", 1, 5, 9, 60.0) from unknown

    with pytest.raises(TransportedError) as packed:
        work()
    with pytest.raises(NoProgress) as caught, transport.opening():
        raise through_spark(packed.value)
    assert isinstance(caught.value.__cause__, UnknownTopic)
    assert "in work" in caught.value.__notes__[0]


def test_packing_happens_once() -> None:
    transport = ErrorTransport()
    with pytest.raises(Exception, match="kseg-error") as caught, transport.packing(), transport.packing():
        raise OffsetsLost("orders", 0, 1, 2)
    assert str(caught.value).count("kseg-error") == 1


@pytest.mark.parametrize("error", [SystemExit("by a library"), BaseException("a panic of Rust")])
def test_what_is_no_exception_arrives_as_well(error: BaseException) -> None:
    transport = ErrorTransport()
    with pytest.raises(TransportedError) as packed, transport.packing():
        raise error
    found = transport.find(through_spark(packed.value))
    assert isinstance(found, WorkerError)
    assert str(found) == f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("error", [GeneratorExit(), KeyboardInterrupt()])
def test_what_ends_the_work_itself_is_no_error_of_it(error: BaseException) -> None:
    with pytest.raises(type(error)), ErrorTransport().packing():
        raise error


def test_what_has_no_token_of_this_read_is_no_error() -> None:
    """Bytes of a record may look like one."""
    transport = ErrorTransport()
    assert transport.token not in repr(transport)
    document = json.dumps(error_document(Refused("some-code", "made up")))
    packed = base64.b64encode(document.encode()).decode()
    for token in ("", "0" * 32, "[0-9a-f]+", ErrorTransport().token):
        assert transport.find(RuntimeError(f"[kseg-error {token} {packed}]")) is None
    with pytest.raises(RuntimeError, match="forged"), transport.opening():
        raise RuntimeError(f"forged [kseg-error {'0' * 32} {packed}]")


def test_a_server_that_knows_the_token_makes_one_of_our_errors_at_most() -> None:
    """Over Spark Connect all of the text is the server's, and credentials live here."""

    class Trap:
        def __reduce__(self) -> tuple[object, ...]:
            return pytest.fail, ("unpickled what a server said",)

    transport = ErrorTransport()
    for made_up in (pickle.dumps(Trap()), b'{"class": "os.system", "args": ["ls"]}', b"{", b"5", b"[" * 100_000):
        text = f"[kseg-error {transport.token} {base64.b64encode(made_up).decode()}]"
        assert isinstance(transport.find(RuntimeError(text)), WorkerError)
    assert isinstance(transport.find(RuntimeError(f"[kseg-error {transport.token} A]")), WorkerError)


def test_the_real_error_is_found_behind_one_that_was_made_up() -> None:
    transport = ErrorTransport()
    packed = transport.pack(NoProgress("orders", 1, 5, 9, 60.0))
    found = transport.find(RuntimeError(f"[kseg-error {'0' * 32} AAAA] {packed}"))
    assert isinstance(found, NoProgress)


def test_text_without_what_nobody_can_read() -> None:
    transport = ErrorTransport()
    text = without_packed(f"Job aborted: {transport.pack(KsegError('odd'))} at Frame")
    assert text == "Job aborted: KsegError: odd\n[kseg-error …] at Frame"
