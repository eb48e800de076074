"""Records from log directories: the logs in them, tasks by byte range, chunks of records."""
