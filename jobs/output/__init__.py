"""What commands print or write: tables, dumps, metadata documents."""
