"""Consumer groups seen from outside: descriptions, committed offsets."""
