#!/bin/sh
# Cluster mode: the driver is a pod. Run where kubectl reaches the cluster, with Spark 4.2 or pip's pyspark.
# The exit code says only whether it ended well; what it did stands in the driver's log, and `kseg status` tells it.
exec spark-submit \
  --master k8s://https://kubernetes.example.com:6443 \
  --deploy-mode cluster \
  --name kseg-orders \
  --conf spark.kubernetes.namespace=etl \
  --conf spark.kubernetes.container.image=registry.example.com/kseg:0.1.0 \
  --conf spark.kubernetes.authenticate.driver.serviceAccountName=kseg-driver \
  --conf spark.kubernetes.authenticate.executor.serviceAccountName=kseg-executor \
  --conf spark.kubernetes.driver.podTemplateFile=driver-template.yaml \
  --conf spark.kubernetes.executor.podTemplateFile=executor-template.yaml \
  --conf spark.kubernetes.submission.waitAppCompletion=true \
  --conf spark.executor.instances=4 \
  --conf spark.executor.cores=2 \
  --conf spark.executor.memory=2g \
  --conf spark.executor.memoryOverhead=2g \
  --conf spark.python.daemon.module=kseg.etl.spark.worker_daemon \
  --conf spark.network.crypto.enabled=true \
  --conf spark.authenticate=true \
  --jars local:///opt/kseg/cache/jars/delta-4.4.0/delta-spark_4.2_2.13-4.4.0.jar,local:///opt/kseg/cache/jars/delta-4.4.0/delta-storage-4.4.0.jar \
  local:///opt/kseg/kseg_submit.py ingest /etc/kseg/job/orders.yaml --json
