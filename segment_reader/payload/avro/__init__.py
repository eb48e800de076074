"""Avro: writer schema resolved against the reader schema, to Arrow."""
