"""Kafka as a Spark source: discovery, offset resolution, tasks, and reading a range into Arrow in the worker.

resolve      what a user asked for -> partitions and concrete offsets         driver, asks the brokers
tasks        offset ranges -> tasks of about equal size                       pure
fetching     one task -> Fetch answers, the next always under way             worker
reader       one task -> Arrow record batches and an outcome                  worker
outcome      what one task read: counts, gaps, losses, time                   pure
arrow_steps  module:function steps on those batches                           worker
dataframe    tasks -> a DataFrame; or read, transform and write in one task   driver and worker
outcomes     the tasks' outcomes, each counted once however often it ran      driver
carrier      typed errors from a worker to the driver                         driver and worker

datasource   spark.read.format("kseg"), with options (what it takes) and planning (options -> tasks);
             pyspark_kseg is installed as a module of its own, by which Spark finds it
"""
