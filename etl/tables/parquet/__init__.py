"""What tasks do: rows to Parquet files, with statistics, and what a task tells the driver. No Spark, no delta-rs."""
