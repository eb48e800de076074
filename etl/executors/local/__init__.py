"""The executor without a JVM: a few processes of the driver's host, forked by a server process that has loaded what
tasks need."""
