"""A producer's transactions: states, producer ids and epochs, the outcome of a lost EndTxn."""
