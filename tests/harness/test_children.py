"""The children of tests: what is known of a process is known of no other one."""

from __future__ import annotations

from children import ProcessStates

STOPPED, EXITED = 0x137F, 0


def test_a_process_number_that_comes_again_is_that_of_a_process_that_lives():
    states = ProcessStates()
    states.note({"born": 4711})
    states.note({"pid": 4711, "status": EXITED})
    assert states.born() == 4711
    assert states.ended(4711)
    states.note({"born": 4711})
    assert not states.ended(4711)
    states.note({"pid": 4711, "status": STOPPED})
    assert states.wait(4711) == STOPPED
    states.forget_stop(4711)
    states.note({"pid": 4711, "status": EXITED})
    assert states.wait(4711, end=True) == EXITED
