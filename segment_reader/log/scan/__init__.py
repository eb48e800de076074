"""Reading a log: record sets by offset range, batch headers, positions, timestamps, splits."""
