"""How long to wait, counted in what a machine does rather than in what a clock says."""

from __future__ import annotations

import os
import time


class Patience:
    """A number of seconds of a machine that has nothing else to do.

    Where twice as many processes want to run as there are cores, each of them gets half as far in a second: then half
    a second has passed here.
    """

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._looked = time.monotonic()

    def over(self) -> bool:
        """Whether they have passed; to be asked every few seconds, since what the machine does changes."""
        now = time.monotonic()
        crowd = os.getloadavg()[0] / len(os.sched_getaffinity(0))
        self._left -= (now - self._looked) / max(1.0, crowd)
        self._looked = now
        return self._left < 0
