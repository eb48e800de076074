"""JSON: documents read by a declared type, exactly, to Arrow."""
