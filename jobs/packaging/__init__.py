"""Packs the modules that executors need for spark-submit: see `kseg package`."""
