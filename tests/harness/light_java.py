"""An environment for processes whose JVMs are those of users, where a test asks what they do and not how fast.

Brokers, registries and Spark sessions that a command starts have a full compiler and all that makes many rows fast. In
a test they live for seconds and see a hundred rows: most of their processor's time is that of the compiler.
"""

from __future__ import annotations

#: Java's launcher reads it, whoever starts it, and says so on stderr: in a server's log.
JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}

#: Spark's own settings; those that a session is given go before them. To generate and compile code for each statement
#: takes longer than to interpret it.
INTERPRETED = {
    "spark.ui.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.ui.explainMode": "simple",
}

_CONF = " ".join(f"--conf {name}={value}" for name, value in INTERPRETED.items())

#: For a process that starts brokers and Spark sessions.
ALL = {**JAVA, "PYSPARK_SUBMIT_ARGS": f"{_CONF} pyspark-shell"}
