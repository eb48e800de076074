"""Kafka as a Spark source: discovery, offset resolution, tasks, and reading a range into Arrow in the worker.

resolve      what a user asked for -> partitions and concrete offsets           (driver, asks the brokers)
tasks        offset ranges -> tasks of about equal size                         (pure)
reader       one task -> Arrow record batches and an outcome                    (worker)
arrow_steps  module:function steps on those batches                             (worker)
dataframe    tasks -> DataFrame, or read, transform and write in one Spark task (driver and worker)
datasource   spark.read.format("kseg")
"""
