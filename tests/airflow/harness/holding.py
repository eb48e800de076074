"""A transform's step that keeps a task from going on until a file is there: a run that stands still in its midst.

For a job file: `transform: [{arrow: "holding:until_released"}]`, with KSEG_TEST_HOLD in the environment.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any


def until_released(batch: Any) -> Any:
    """Hand a batch on as soon as the folder KSEG_TEST_HOLD has a file `released`; leave a sign meanwhile."""
    folder = Path(os.environ["KSEG_TEST_HOLD"])
    while not (folder / "released").exists():
        (folder / f"held-{os.getpid()}").touch()
        time.sleep(0.1)
    return batch
