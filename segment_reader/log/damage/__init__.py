"""What cannot be read: validation of batches, damaged ranges, and reading past them."""
