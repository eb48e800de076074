"""`kseg` and its embedded broker, as Airflow's environment sees them: programs that print JSON."""

from __future__ import annotations

import itertools
import json
import os
import secrets
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from airflow_process import wait_for

ROOT = Path(__file__).parents[3]


def kseg_binary() -> Path:
    """``kseg`` of the main environment, or what KSEG_BINARY names."""
    return Path(os.environ.get("KSEG_BINARY") or ROOT / ".venv" / "bin" / "kseg")


#: Answers the arguments of `kseg status` by its exit code and what it prints.
_STATUS = """
import contextlib, io, json, sys
from kseg.jobs.cli import cli

for line in sys.stdin:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = cli.main(["status", *json.loads(line), "--json"], prog_name="kseg", standalone_mode=False)
    print(json.dumps([code, printed.getvalue()]), flush=True)
"""


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

    def status(self, job_file: str | Path, *words: str) -> Any:
        """What ``kseg status`` prints of a job, also where it exits with 3: a run failed or is unfinished. Tests ask
        again and again, so one process answers: each of its own would import for most of a second."""
        exit_code, printed = self.answers(_STATUS, [str(job_file), *words])
        assert exit_code in (0, 3), f"kseg status {job_file}: exit {exit_code}\n{printed}"
        return json.loads(printed)

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


#: A broker that ends with this program's stdin. Its first line is the password of "etl".
_SERVE = """
import json, sys
from kseg.jobs.broker.listeners import Listener, login_module
from kseg.jobs.broker.process import EmbeddedKafka

users = {
    "sasl.enabled.mechanisms": "PLAIN",
    "plain.sasl.jaas.config": login_module("PlainLoginModule", user_etl=json.loads(sys.stdin.readline())),
}
with EmbeddedKafka(light=True, start_timeout=600, listeners=[Listener("USERS", "SASL_PLAINTEXT", users)]) as kafka:
    folders = list(map(str, kafka.log_dirs))
    print(json.dumps([kafka.bootstrap_servers, kafka.servers_of("USERS"), folders]), flush=True)
    sys.stdin.read()
"""


class KafkaProcess:
    """A real Kafka; topics and records come from librdkafka. `connection` is for a listener where users log in."""

    def __init__(self, kseg: Kseg) -> None:
        self.password = f"pass=word {secrets.token_hex(8)}"
        self._process = subprocess.Popen(
            [kseg.binary.with_name("python"), "-c", _SERVE],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # Neither its command line nor its environment has the password.
        self._process.stdin.write(f"{json.dumps(self.password)}\n")
        self._process.stdin.flush()
        told: tuple[str, str, list[str]] = json.loads(self._process.stdout.readline())
        self.bootstrap_servers, self._users, self.log_dirs = told
        self._numbers = itertools.count(1)

    @property
    def connection(self) -> dict[str, str]:
        """The extra of a connection of type `kafka`, for the user "etl": librdkafka's names."""
        return {
            "bootstrap.servers": self._users,
            "security.protocol": "sasl_plaintext",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "etl",
            "sasl.password": self.password,
            "group.id": "nobody",
        }

    def stop(self) -> None:
        self._process.communicate(timeout=120)

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
