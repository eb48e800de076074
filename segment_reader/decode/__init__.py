"""Record sets to Arrow record batches: two decoders under one set of rules, and one test file for both.

    range_decoder    the entry: one offset range of one partition, by either decoder
    salvage          the same past batches that cannot be decoded
    next_offset      the offset after a record set, without decoding it

    engine           what both decoders share: options, limits, counts, aborted transactions, their signature
    schema           the columns of a decoded record batch
    batch            the byte layout of a batch and of a message: frames and their headers
    legacy           messages of magic 0 and 1, and the message sets inside of compressed ones

    reference        the decoder in plain Python: it defines the rules, and is about a hundred times slower
    compiled         the decoder for production: Python for each group of batches, compiled code for frames and records

Compiled code, in the order in which data passes it:

    scan             headers of a record set ──► rows of the frame table, and what is to be done with each
    kernel           frame table and record bytes ──► Arrow buffers, one pass
    rows             one record's fields into the buffers
    table            the arrays that Python and compiled code share: frame table, state, columns
    column_builder   the Arrow buffers: allocated, enlarged, returned as a RecordBatch without a copy
    checksums        the checksums of many frames at once
    primitives       unaligned loads, memcpy, CRC-32C: what numba lacks
    jit, sources     the decorators of compiled functions, whose sources may lie in a zip file
    code_cache       machine code on disk, for all processes

Why two: compiled code that writes Arrow buffers directly has no Python object per record, but its rules are hard to
read. The reference is short, and both have to give equal batches, counts and errors for any input.
"""
