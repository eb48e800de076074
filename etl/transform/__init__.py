"""The steps between records as they are read and table rows: decoding, SQL, Arrow functions, DataFrame functions."""
