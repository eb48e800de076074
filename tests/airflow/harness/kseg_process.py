"""`kseg` and its embedded broker, as Airflow's environment sees them: programs that print JSON."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from airflow_process import wait_for

ROOT = Path(__file__).parents[3]


def kseg_binary() -> Path:
    """``kseg`` of the main environment, or what KSEG_BINARY names."""
    return Path(os.environ.get("KSEG_BINARY") or ROOT / ".venv" / "bin" / "kseg")


class Kseg:
    """Runs `kseg` commands and reads their JSON."""

    def __init__(self, binary: Path) -> None:
        self.binary = binary
        self._answering: dict[str, subprocess.Popen[str]] = {}

    def __fspath__(self) -> str:
        return str(self.binary)

    def __str__(self) -> str:
        return str(self.binary)

    def run(self, *arguments: str | Path, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Run ``kseg ARGUMENTS`` to its end, whatever its exit code."""
        return subprocess.run(
            [self.binary, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, check=False
        )

    def json(self, *arguments: str | Path, exit_code: int = 0, timeout: float = 300) -> Any:
        """Run ``kseg ARGUMENTS --json``; returns what it printed. Fails on another exit code."""
        done = self.run(*arguments, "--json", timeout=timeout)
        told = f"kseg {' '.join(map(str, arguments))}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == exit_code, told
        return json.loads(done.stdout)

    def answers(self, program: str, question: Any) -> Any:
        """What a Python program says in kseg's environment: it answers each line of JSON by one. Started once."""
        process = self._answering.get(program)
        if process is None:
            process = self._answering[program] = subprocess.Popen(
                [self.binary.with_name("python"), "-c", program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{json.dumps(question)}\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    def close(self) -> None:
        """End what `answers` has started."""
        for process in self._answering.values():
            process.communicate(timeout=60)
        self._answering.clear()


class KafkaProcess:
    """A real Kafka that ``kseg broker`` started; topics and records come from librdkafka."""

    def __init__(self, kseg: Kseg, directory: Path) -> None:
        self.kseg = kseg
        self.directory = directory
        self.bootstrap_servers = str(kseg.json("broker", "start", "--dir", directory)["bootstrap_servers"])
        self._numbers = itertools.count(1)

    def stop(self) -> None:
        self.kseg.json("broker", "stop", "--dir", self.directory)

    def topic(
        self,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        *,
        prefix: str = "topic",
        name: str | None = None,
    ) -> str:
        """Create a topic with a name that no other test has, or the given one; returns the name."""
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        name = name or f"{prefix}-{os.getpid()}-{next(self._numbers)}"
        new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        for created in admin.create_topics([new]).values():
            created.result(timeout=60)
        return name

    def produce(self, topic: str, records: Iterable[Mapping[str, Any]]) -> int:
        """Write records and wait until all are acknowledged; returns how many.

        Each has ``value`` (text or bytes) and, if wanted, ``key``, ``partition`` and ``timestamp`` (milliseconds).
        """
        from confluent_kafka import Producer

        failed: list[Any] = []
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, "linger.ms": 20})
        count = 0
        for record in records:
            producer.produce(topic, on_delivery=lambda error, _: error and failed.append(error), **record)
            producer.poll(0)
            count += 1
        assert producer.flush(60) == 0
        assert not failed, failed
        return count

    def group_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """A group's committed offsets, by topic and partition."""
        from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

        def committed() -> list[TopicPartition] | None:
            try:
                return list(consumer.committed(asked, timeout=60))
            except KafkaException as error:
                if error.args[0].code() not in (
                    KafkaError.NOT_COORDINATOR,
                    KafkaError.COORDINATOR_NOT_AVAILABLE,
                    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
                ):
                    raise
                return None

        # Not by the admin client: librdkafka's crashes where the coordinator is not there yet, on a new broker
        # (https://github.com/confluentinc/confluent-kafka-javascript/issues/374).
        consumer = Consumer({"bootstrap.servers": self.bootstrap_servers, "group.id": group})
        try:
            topics = consumer.list_topics(timeout=60).topics.values()
            asked = [TopicPartition(topic.topic, number) for topic in topics for number in topic.partitions]
            found = wait_for(committed, f"the coordinator of {group} answers", timeout=120) if asked else []
        finally:
            consumer.close()
        return {(at.topic, at.partition): at.offset for at in found if at.offset >= 0}

    def set_group_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Move a group's offset by hand, as a person with an administrator's tool does."""
        from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition, offset)])
        for altered in admin.alter_consumer_group_offsets([wanted]).values():
            altered.result(timeout=60)
