"""Rows of a DataFrame back to Kafka.

columns        which columns a DataFrame has to have, and what is wrong with them      pure
options        the options of `df.write.format("kseg")`                                pure
rows           Arrow batches -> partitions -> a producer                               worker
datasource     the format's writer: at least once                                      driver and worker
transactional  `write_kafka`: exactly once, in one transaction that the driver owns    driver and worker
marker         how a finished transaction is known again                               pure
"""
