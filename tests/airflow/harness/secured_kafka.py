"""A real Kafka that asks who comes: a listener with SASL beside the open one."""

from __future__ import annotations

import itertools
import json
import secrets
import subprocess
from pathlib import Path

from kseg_process import ROOT, KafkaProcess, Kseg

_SERVE = """
import json, sys
from kseg.jobs.broker.listeners import Listener, login_module
from kseg.jobs.broker.process import EmbeddedKafka

users = {
    "sasl.enabled.mechanisms": "PLAIN",
    "plain.sasl.jaas.config": login_module("PlainLoginModule", user_etl=json.loads(sys.stdin.readline())),
}
with EmbeddedKafka(light=True, listeners=[Listener("USERS", "SASL_PLAINTEXT", users)]) as kafka:
    print(json.dumps([kafka.bootstrap_servers, kafka.servers_of("USERS")]), flush=True)
    sys.stdin.read()
"""


class SecuredKafka(KafkaProcess):
    """Topics are made and filled through the open listener; `connection` is for the one where users log in."""

    def __init__(self, kseg: Kseg) -> None:
        self.kseg = kseg
        self.password = f"pass=word {secrets.token_hex(8)}"
        self._numbers = itertools.count(1)
        self._process = subprocess.Popen(
            [Path(kseg).parent / "python", "-c", _SERVE],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(
            f"{json.dumps(self.password)}\n"
        )  # neither its command line nor its environment has it
        self._process.stdin.flush()
        self.bootstrap_servers, self._users = json.loads(self._process.stdout.readline())

    @property
    def connection(self) -> dict[str, str]:
        """The extra of a connection of type `kafka`: librdkafka's names."""
        return {
            "bootstrap.servers": self._users,
            "security.protocol": "sasl_plaintext",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "etl",
            "sasl.password": self.password,
            "group.id": "nobody",
        }

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=120)
