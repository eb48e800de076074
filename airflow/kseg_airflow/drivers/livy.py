"""A driver that is a batch of a Livy server.

    POST   /batches          {"file": …, "args": …, "name": …}
                             201 {"id": 7, "name": …, "state": "starting", "appId": null, …}
                             400 {"msg": "Duplicate session name: …"}
    GET    /batches/ID       {"id": 7, "name": …, "state": …, "appId": …, "log": [the last ten lines]}
    GET    /batches/ID/log   {"id": 7, "from": 0, "total": 202, "log": ["stdout: ", …, "\\nstderr: ", …]}
    DELETE /batches/ID       {"msg": "deleted"}: spark-submit has ended by then

Livy responds with 404 if a batch was deleted, if it ended long ago (`livy.server.session.state-retain.sec`, ten
minutes), or if Livy was restarted without `livy.server.recovery.mode`. After such a restart, Livy counts from 0 again,
so an id may be reused for another batch: batches are distinguished by name. Livy keeps the last 200 lines of a driver
(`livy.cache-log.size`).

Source: https://livy.apache.org/docs/latest/rest-api.html, and responses of Livy 0.7.1 (test_on_livy.py).
"""

from __future__ import annotations

import asyncio
import importlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from kseg_airflow.drivers.submitted import exit_code_told
from kseg_airflow.exit_codes import DONE
from kseg_airflow.outcomes import Look, Outcome

_TIMEOUT: Final = 60
_ALL: Final = {"from": 0, "size": 1_000_000}
_ENDED: Final = frozenset({"success", "dead", "error", "killed"})
_DIAGNOSTICS: Final = "YARN Diagnostics:"
#: What kseg_driver.py prints last.
_EXIT_CODE: Final = re.compile(r"kseg-exit: (\d{1,3})")


@dataclass(frozen=True, slots=True)
class LivyDriver:
    """name: the batch's unique name. mark: the first part of the driver's name in the ledger: the task's mark, if it
    has one, and the batch's own."""

    batch_id: int
    conn_id: str
    name: str
    mark: str
    kind: str = "livy"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def is_owner(self, owner: str) -> bool:
        """Whether a name in the ledger is this driver's, by its mark, because Livy may not know the driver's host."""
        return owner.rpartition(":")[2].startswith(f"{self.mark}-")

    def proven_dead(self, owner: str) -> bool:
        """Whether the holder of a lease was this driver, and has ended. This is never certain, because a driver may
        continue after its Livy has ended."""
        return False

    def poll(self) -> Outcome | None:
        """The batch's outcome. Raises OSError if Livy does not respond, or responds with an error."""
        batch = self._ask("GET")
        return self._ended(batch, self._ask("GET", "/log")) if self._has_ended(batch) else None

    def look(self) -> Look:
        """The batch's outcome, or its number as progress. Raises OSError as `poll` does."""
        return Look(self.poll(), self._name)

    async def alook(self) -> Look:
        """The same in the triggerer."""
        batch = await self._aask("GET")
        ended = self._ended(batch, await self._aask("GET", "/log")) if self._has_ended(batch) else None
        return Look(ended, self._name)

    def log_lines(self, seen: int = 0) -> tuple[list[str], int]:
        """The driver's last lines in Livy. They have no numbers, so they are read only when the batch has ended."""
        batch = self._ask("GET")
        lines = _lines(self._ask("GET", "/log")) if self._is_ours(batch) else []
        return lines, seen + len(lines)

    def stop(self, grace: float) -> bool:
        """Delete the batch: Livy ends spark-submit, and kills the application if it knows its id."""
        if self._is_ours(self._ask("GET")):
            self._ask("DELETE")
        return True

    def stop_detached(self, grace: float) -> bool:
        """The same as `stop`, because it is only one request."""
        return self.stop(grace)

    async def astop(self, grace: float) -> bool:
        """The same in the triggerer."""
        if self._is_ours(await self._aask("GET")):
            await self._aask("DELETE")
        return True

    # Asking

    def _ask(self, method: str, path: str = "") -> dict[str, Any] | None:
        """Livy's response; None if there is no such batch. Raises OSError."""
        answer = hook_of(self.conn_id).run_method(
            endpoint=f"batches/{self.batch_id}{path}", method=method, data=_ALL if path else None
        )
        if answer.status_code == 404:
            return None
        answer.raise_for_status()
        told: dict[str, Any] = answer.json()
        return told

    async def _aask(self, method: str, path: str = "") -> dict[str, Any] | None:
        # To load it takes seconds, for which the triggerer's loop must not block.
        livy = await asyncio.to_thread(importlib.import_module, "airflow.providers.apache.livy.hooks.livy")
        import aiohttp

        hook = livy.LivyAsyncHook(livy_conn_id=self.conn_id)
        try:
            answer = await hook.run_method(
                endpoint=f"batches/{self.batch_id}{path}", method=method, data=_ALL if path else None
            )
        except aiohttp.ClientError as error:
            raise OSError(f"Livy does not respond: {error!r}") from error
        if answer["status"] == "success":
            told: dict[str, Any] = answer["response"]
            return told
        if 404 in answer.get("Status Code", ()):  # a set of one
            return None
        raise OSError(f"Livy responds with an error: {answer}")

    # Understanding

    @property
    def _name(self) -> str:
        return f"Livy batch {self.batch_id}"

    def _is_ours(self, batch: dict[str, Any] | None) -> bool:
        return batch is not None and batch.get("name", self.name) == self.name

    def _has_ended(self, batch: dict[str, Any] | None) -> bool:
        return not self._is_ours(batch) or (batch or {}).get("state") in _ENDED

    def _ended(self, batch: dict[str, Any] | None, log: dict[str, Any] | None) -> Outcome:
        if batch is None or not self._is_ours(batch):
            return Outcome(None, detail=f"batch {self.batch_id} is no longer known to Livy")
        state, lines = batch["state"], _lines(log)
        document = _printed_document(lines)
        if state == "success":
            return Outcome(DONE, document)
        told = f"Livy batch {self.batch_id}: {state}"
        if batch.get("appId"):
            told += f" ({batch['appId']})"
        if state == "killed":
            return Outcome(None, detail=told)
        code = _printed_exit_code(lines) or (document or {}).get("exit_code") or exit_code_told(_diagnostics(lines))
        return Outcome(code, document, told)


def hook_of(conn_id: str) -> Any:
    """The Apache provider's hook, whose `run_method` returns responses with any status. Raises ImportError."""
    from airflow.providers.apache.livy.hooks.livy import LivyHook

    return LivyHook(livy_conn_id=conn_id, extra_options={"check_response": False, "timeout": _TIMEOUT})


def batch_named(hook: Any, name: str) -> int | None:
    """The id of the batch with this name; None if there is none. Raises OSError."""
    answer = hook.run_method(endpoint="batches", method="GET", data=_ALL)
    answer.raise_for_status()
    return next((int(batch["id"]) for batch in answer.json()["sessions"] if batch.get("name") == name), None)


def _lines(log: dict[str, Any] | None) -> list[str]:
    return "\n".join((log or {}).get("log") or []).split("\n")


def _diagnostics(lines: Sequence[str]) -> str:
    """YARN's diagnostics of the application. The driver's log is not used: it has other numbers than exit codes."""
    found = next((number for number, line in enumerate(lines) if line.startswith(_DIAGNOSTICS)), len(lines))
    return "\n".join(lines[found:])


def _printed_exit_code(lines: Sequence[str]) -> int | None:
    """The driver's exit code; None if an earlier kseg_driver.py ran, or one that was killed."""
    found = [match for match in map(_EXIT_CODE.fullmatch, lines) if match]
    return int(found[-1][1]) if found else None


def _printed_document(lines: Sequence[str]) -> dict[str, Any] | None:
    """The driver's output of `--json`, extracted from its log."""
    for line in reversed(lines):
        start = line.find("{")
        if start < 0:
            continue
        try:
            found = json.loads(line[start:])
        except ValueError:
            continue
        if isinstance(found, dict) and ("error" in found or "status" in found):
            return found
    return None
