"""A real Schema Registry (Apicurio) on this machine, for trying things out, the demo and the tests."""
