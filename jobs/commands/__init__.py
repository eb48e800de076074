"""One module a command; each exports a click command of its own name, and imports nothing heavy until it runs."""
