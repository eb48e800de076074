"""One module for each command; it exports a click command of the same name, and imports nothing heavy until it runs."""
