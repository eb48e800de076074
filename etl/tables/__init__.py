"""Target tables: rows become Parquet files in the tasks, and one commit on the driver makes them visible.

    protocol    what runs, operations and planning may ask of a table       values     what they exchange with it
    targets     a job's tables, and which implementation commits to each    removal    rows to remove, by address or run
    parallel    many tables at once                                         names, errors

    parquet/    in the tasks: schema (columns of a sink's rows), align (how they fit a table), writer, data_file,
                partition_values, statistics, quarantine, task_output (what a task reports), storage (where files are)
    delta/      Delta by delta-rs: table (snapshots), log (commits and incidents), ensure, commit, rewrite (rows
                removed in the same commit), cleanup, maintenance, features (which tables need Spark's writer)
    spark/      Delta by Spark's own writer: writer, maintenance

Tasks import `parquet` and what it needs: pyarrow and the standard library, no Spark, no delta-rs.
"""
