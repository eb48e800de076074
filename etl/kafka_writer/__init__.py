"""Writes the rows of a DataFrame to Kafka.

columns        the columns that a DataFrame must have, and their errors                pure
options        the options of `df.write.format("kseg")`                                pure
rows           Arrow batches -> partitions -> a producer                               worker
datasource     the format's writer: at least once                                      driver and worker
transactional  `write_kafka`: exactly once, in one transaction that the driver owns    driver and worker
attempts       whether Spark ran a task or stage again; the error of a first attempt   driver and worker
marker         the committed offset by which a finished transaction is recognized      pure
"""
