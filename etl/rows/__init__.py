"""Names of the columns that rows have by themselves, the types of landed columns, and how one type becomes wider."""
