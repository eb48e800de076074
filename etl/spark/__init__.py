"""Everything that needs a Spark session: sessions, the JVM, Spark Connect, tasks, errors from worker to driver."""
