"""A broker's log directory as it is on disk, or in a copy of one: files in, record sets out. No broker is needed.

files/         a file's name and content: segments, indexes, producer snapshots, checkpoints; local or object storage
scan/          batch headers, offset and time lookups, splits, and a range of offsets as record sets
transactions/  which transactions were aborted, by their markers and by the transaction indexes
damage/        damaged batches: detection, validation, and reading what is left (salvage)
layouts/       segments that tiered storage uploaded, presented as a broker's folders
"""
