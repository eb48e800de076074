"""A broker's log directory as it stands on disk, or in a copy of one: files in, record sets out. Needs no broker.

names         what a file's or folder's name says        storage      bytes of files, wherever they are kept
checkpoints   the small text files                       indexes      .index, .timeindex, .txnindex
snapshots     .snapshot, what producers were doing       segments     which files make up a partition's log
fates         which transactions were aborted            reading      a range of offsets as record sets
walk          one segment past its damage                salvage      the same as reading, past damage
"""
