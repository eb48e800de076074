"""Landing: rows become Parquet in the tasks, and one Delta commit on the driver makes them visible.

    schema   which columns a sink row keeps        parquet  writes files in a task, tells FileFacts
    align    how they fit an existing table        delta    the commit, its app transaction, the table's history
    stats    Delta's per-file statistics           rewrite  removal of rows by address or run, in the same commit
    facts    what a task tells the driver          features which tables need Spark's own writer
    log      the commits of a Delta log            spark_writer  the same commits through Spark
                                                   cleanup  files that no commit refers to

Tasks import `parquet` and what it needs: pyarrow and the standard library, no Spark, no delta-rs.
"""
