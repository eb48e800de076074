"""The same commits through Spark's Delta writer, for tables that delta-rs cannot write."""
