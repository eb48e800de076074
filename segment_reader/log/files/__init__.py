"""The files of a log directory: names, segments, indexes, snapshots, checkpoints, and where they are stored."""
