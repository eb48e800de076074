"""The codecs of record batches: one module for each, and the registry that lists them."""
