"""Sources of a job's records: brokers, or the log directories that brokers left behind. Knows no Spark.

resolve            what a user asked for -> partitions and concrete offsets      driver
logs               the questions that planning asks of a log                     driver
tasks, packing     offset ranges -> tasks of about equal size                    pure
brokers/ files/    the two kinds of logs, and a task's range as record chunks    driver and worker
reader             one task -> Arrow record batches and a range result           worker
range_result       what one task read: counts, gaps, losses, time                pure
deferred_secrets   secrets that each executor resolves itself                    worker
"""
