"""Generate a job file from a sample of a topic, for `kseg init`. Only this infers types; runs use those in the file.

sampling     records from both ends of each partition
payloads     the formats of keys and values
json_seen    statistics of the values of a document's field
json_types   a column's type from these statistics, and what is ambiguous about it
job_text     the commented job file
"""
