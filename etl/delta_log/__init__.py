"""The log of a Delta table, read without delta-rs and without Spark, in few requests.

    folder.py     `_delta_log` in a store: list from a name on, read ranges; counts requests
    actions.py    actions as frozen values
    listing.py    which files make up a version: checkpoint, commits, log compaction files; the hint
    entries.py    JSON files: commits
    checkpoint.py, pieces.py, batches.py      Parquet checkpoints by columns and ranges; files many at a time
    replay.py     a snapshot: protocol, metadata, transactions, domains; files when they are asked for
    table_log.py  `DeltaLog`: the newest snapshot, an older one, some commits
    features.py   which tables can be read

The ledger and the target tables may both use it, so it lies below them (`etl.ledger`, `etl.tables`) and has its store
given. (Delta protocol, https://github.com/delta-io/delta/blob/master/PROTOCOL.md)
"""
