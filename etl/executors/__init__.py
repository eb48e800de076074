"""Runs the packs of a read: in Spark tasks, over Spark Connect, or in processes of the driver's host."""
