"""A job, its folder with ledger and tables, and the commands that processes run for it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from children import Child, Children
from fault_suite.journal import Address, Partition
from kseg.etl.ledger.state import JobState
from kseg.etl.ledger.store import Ledger

Answer = dict[str, Any]


@dataclass
class JobFolder:
    """topics: partitions by topic; the first lands in table `first`, all others in `rest`.

    root: where ledger and tables are, `folder` unless they are in a bucket; `seen_at` is the same as a folder.
    environment: of the drivers. changes: keys of the job file that take the place of those here.
    """

    folder: Path
    servers: str
    topics: dict[str, int]
    root: str = ""
    seen_at: Path | None = None
    environment: dict[str, str] = field(default_factory=dict)
    python_path: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        first = next(iter(self.topics))
        root = self.root or str(self.folder)
        self.name = f"job-{uuid.uuid4().hex[:8]}"
        self.group = f"group-of-{self.name}"
        self.tables = {name: f"{root}/lake/{name}" for name in ("first", "rest")}
        self.document: dict[str, Any] = {
            "version": 1,
            "name": self.name,
            "kafka": {"bootstrap.servers": self.servers},
            "source": {"topics": list(self.topics)},
            "sink": {"routes": {first: {"path": self.tables["first"]}, "*": {"path": self.tables["rest"]}}},
            "group": self.group,
            "ledger": f"{root}/ledger",
            "run": {"lease": "10s", "deadline": "2m"},
            "spark": {"master": "local[1]", "conf": {"spark.driver.memory": "512m"}},
            **self.changes,
        }
        self.write()

    def write(self) -> None:
        """The job file as the document is now, at once: a driver may be reading it."""
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(self.document, indent=1))  # JSON is YAML
        new.replace(self.file)

    @property
    def file(self) -> Path:
        return self.folder / "job.yaml"

    def state(self) -> JobState | None:
        """What the ledger says; None where there is none yet. Chooses actions, and decides on nothing that is found."""
        if not (self.ledger / "_delta_log").is_dir():
            return None
        return Ledger.open(self.ledger, create=False).read(self.name)

    @property
    def ledger(self) -> Path:
        return (self.seen_at or self.folder) / "ledger"

    @property
    def table_folders(self) -> list[str]:
        """Where the oracle reads the tables."""
        return [str((self.seen_at or self.folder) / "lake" / name) for name in self.tables]

    def start(self, children: Children, *, own_jvm: bool = False, **command: Any) -> Child:
        """A process that carries out one command (`harness/child.py`)."""
        return children.run(self, own_jvm=own_jvm, **command)

    def line(self, *words: str) -> dict[str, Any]:
        """The command for `kseg WORDS`, in which JOB stands for this job's file."""
        return {"do": "kseg", "arguments": [str(self.file) if word == "JOB" else word for word in words]}


@dataclass
class Backfill:
    """A request that is repeated until it is done. done: it was answered so at least once.

    interval: a data interval in place of ranges. runs: which runs carried it out, as answers say.
    """

    mode: str
    ranges: list[tuple[str, int, int, int]]
    label: str | None = None
    done: bool = False
    interval: str | None = None
    runs: set[str] = field(default_factory=set)

    def covers(self, at: Address) -> bool:
        return any((topic, number) == at[:2] and start <= at[2] < end for topic, number, start, end in self.ranges)

    def reaches(self, place: Partition, cut: int) -> bool:
        """Whether it has offsets of a partition from this one on."""
        return any((topic, number) == place and end > cut for topic, number, _, end in self.ranges)

    def answered(self, answer: Answer) -> None:
        """It has been carried out."""
        self.done = True
        if answer["report"].get("run"):
            self.runs.add(answer["report"]["run"])

    @property
    def command(self) -> dict[str, Any]:
        if self.interval is not None:
            return {"do": "backfill", "request": {"interval": self.interval, "commit_offsets": True}}
        request: dict[str, Any] = {
            "from_": [f"{topic}:{partition}:{start}" for topic, partition, start, _ in self.ranges],
            "to": [f"{topic}:{partition}:{end}" for topic, partition, _, end in self.ranges],
            "mode": self.mode,
        }
        if self.label is not None:
            request["label"] = self.label
        return {"do": "backfill", "request": request}


def describe(answer: Answer | None) -> str:
    """An outcome in a word or two: `done`, `refused: offsets-reserved`, `killed`."""
    if answer is None:
        return "killed"
    code = {0: "done", 1: "failed", 2: "bad configuration", 3: "refused", 4: "try again", 5: "another run is active"}
    error = answer.get("error", {}).get("error", {})
    detail = error.get("code") or (error.get("kind") if answer["exit"] == 1 else None)
    return f"{code.get(answer['exit'], answer['exit'])}" + (f": {detail}" if detail else "")
