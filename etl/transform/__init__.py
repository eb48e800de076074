"""The steps between decoded records and table rows: SQL, Arrow functions, DataFrame functions."""
