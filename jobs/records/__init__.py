"""Topics and their records for people: what `kseg topics`, `kseg produce` and `kseg peek` do.

place       what a command line names: a job's topics, topics of a cluster, files
topics      a cluster's topics with sizes, times and rates
lines       lines of text or JSON as records
producing   records sent and counted
"""
