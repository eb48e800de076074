"""submit="livy": a batch of a Livy server, by the Apache provider's hook."""

from __future__ import annotations

import hashlib
import json
import uuid

from kseg_airflow.compat import AirflowException, AirflowFailException
from kseg_airflow.drivers.handles import Handle
from kseg_airflow.drivers.livy import LivyDriver, batch_named, hook_of
from kseg_airflow.run_folder import write_private
from kseg_airflow.submission import Submission


def submit(submission: Submission) -> Handle:
    """Post a batch. `submit_options` needs `file`: kseg_driver.py where the cluster reads it (HDFS, an object store).

    Job file and properties must be readable there too: `files`, with the job file's bare name in the command.

    A batch whose id was not recorded, since the process that posted it was killed, is found by its name.
    """
    conn_id = submission.conn_id or "livy_default"
    try:
        hook = hook_of(conn_id)
    except ImportError:
        raise AirflowFailException(
            'submit="livy" needs the Apache Livy provider: pip install "kafka-segment-etl-airflow[livy]"'
        ) from None
    options = dict(submission.options)
    if not options.get("file"):
        raise AirflowFailException(
            'submit="livy" needs submit_options={"file": …}: where the cluster reads'
            " kseg_airflow/application/kseg_driver.py"
        )
    if submission.properties:
        raise AirflowFailException(
            "kafka_conn_id cannot be used with Livy, whose API shows all arguments and files:"
            " refer to secrets in the job file (${file:/path}, ${NAME})"
        )
    args = submission.shipped_arguments(command_config=None) if options.get("files") else submission.remote_arguments()
    named = options.pop("name", None) or submission.name
    batch_mark = _mark(submission, [options, args])
    name = f"{named}-{submission.folder.name}-{batch_mark}"
    # It takes the place of KSEG_DRIVER, so it has what the task's later tries look for in the ledger, too.
    mark = "-".join(filter(None, [submission.mark, batch_mark]))
    args = ["--driver", mark, *args]
    try:
        batch = hook.post_batch(file=options.pop("file"), args=args, name=name, **options)
    except AirflowException:
        found = batch_named(hook, name)
        if found is None:
            raise
        batch = found
    return LivyDriver(batch, conn_id, name, mark)


def _mark(submission: Submission, asked: object) -> str:
    """A mark, unique to this driver folder and stable across retries.

    It is a part of the batch's name, because Livy rejects a second batch of a name and may serve several Airflows, and
    is recorded in the ledger.
    """
    kept = submission.folder / "livy-mark"
    if not kept.exists():
        write_private(kept, uuid.uuid4().hex)
    text = json.dumps([kept.read_text(), asked], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
