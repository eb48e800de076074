"""Topics and their records for people: what `kseg topics`, `peek`, `produce` and `schema` do.

place       what a command line names: a cluster, or a job's cluster and topics
topics      a cluster's topics with sizes, times and rates
reading     records of a partition, from an offset on or the newest
peeking     which records are shown, in which order
decoded     keys and values as a job decodes them, or by a registry; typed: as JSON
shown       a record as a line of text or as JSON
lines       lines of text or JSON as records
producing   records sent and counted
subjects    a schema registry's subjects as columns; new schemas checked
"""
