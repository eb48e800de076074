"""`KsegHook`: for Python tasks of a DAG that ask `kseg` something, rather than run a driver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kseg_airflow import commands, outcomes
from kseg_airflow.asking import ask
from kseg_airflow.compat import AirflowException, BaseHook
from kseg_airflow.connections import properties_of_connection
from kseg_airflow.exit_codes import DONE, REFUSED


class KsegHook(BaseHook):
    """Runs commands that answer within seconds: status, plan, interval, check, audit.

    kseg, kafka_conn_id, env, cwd: as those of the operators.
    """

    hook_name = "kafka-segment-etl"

    def __init__(
        self,
        kseg: str | None = None,
        kafka_conn_id: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> None:
        super().__init__()
        self.kseg = kseg or commands.default_kseg()
        self.kafka_conn_id = kafka_conn_id
        self.env = dict(env or {})
        self.cwd = cwd

    def get_conn(self) -> KsegHook:
        """Itself: there is no connection that is kept open."""
        return self

    def run(self, *words: str) -> dict[str, Any]:
        """Run `kseg WORDS --json` and return its document.

        Raises:
            AirflowFailException: wrong configuration, or refused. AirflowException: a later try may succeed.
        """
        return self._answered(self.ask(*words), words[0])

    def ask(self, *words: str) -> outcomes.Outcome:
        """The same, as an outcome with its exit code."""
        takes_one = words[0] in commands.WITH_CONNECTION
        properties = properties_of_connection(self.kafka_conn_id) if self.kafka_conn_id and takes_one else {}
        return ask(self.command(*words), env=self.env, cwd=self.cwd, properties=properties)

    def command(self, *words: str) -> list[str]:
        """The command line, to run it elsewhere."""
        return [self.kseg, *words, "--json"]

    def status(self, job_file: str) -> dict[str, Any]:
        """Last runs, lag, and whether ledger, group and tables agree; `problems` says what needs a person.

        Raises:
            AirflowFailException, AirflowException: as `run`, but not where the answer is that something needs a person.
        """
        outcome = self.ask("status", job_file)
        # Exit code 3 comes with the document where something needs a person, and with an error where it is refused.
        if outcome.exit_code == REFUSED and outcome.document is not None and not outcome.error:
            return outcome.document
        return self._answered(outcome, "status")

    def test_connection(self) -> tuple[bool, str]:
        """Whether the brokers of `kafka_conn_id` let this machine's `kseg` list the topics; and what it said.

        It does not raise: what is wrong with the connection is the answer, without a value of it.
        """
        try:
            if self.kafka_conn_id is None:
                return False, "kafka_conn_id is not set: there is no connection to test"
            topics = self.run("topics")["topics"]
        except AirflowException as error:
            return False, str(error)
        return True, f"{len(topics)} topics are visible"

    def _answered(self, outcome: outcomes.Outcome, command: str) -> dict[str, Any]:
        if outcome.exit_code != DONE:
            raise outcomes.failure_of(outcome, f"kseg {command}")
        return outcome.document or {}
