"""The output of commands: tables, dumps, metadata documents."""
