"""Write ``jars.lock``: let Ivy work out all dependencies, once, and note names and sums.

Run it by hand after changing a version here::

    python -m jobs.broker.lock > /tmp/jars.lock && mv /tmp/jars.lock jobs/broker/jars.lock
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from jobs.broker.jars import Jar, ivy_command, sha256
from jobs.broker.java import find_java

_KAFKA = "4.3.1"
_DELTA = "4.4.0"
_CONNECTOR = "4.2.0"

# Kafka's libraries name slf4j without a binding (its own distribution adds one), and the tools bring all of Connect
# with two web servers along, which neither the broker nor the tools that are used here load.
_MODULES = {
    f"kafka-{_KAFKA}": """
      <dependency org="org.apache.kafka" name="kafka_2.13" rev="{kafka}"/>
      <dependency org="org.apache.kafka" name="kafka-tools" rev="{kafka}"/>
      <dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="2.25.4"/>
      <exclude org="org.apache.kafka" module="connect-.*" matcher="regexp"/>
    """,
    # Of Delta's dependencies only these two are not in pyspark already.
    f"delta-{_DELTA}": """
      <dependency org="io.delta" name="delta-spark_4.2_2.13" rev="{delta}" transitive="false"/>
      <dependency org="io.delta" name="delta-storage" rev="{delta}" transitive="false"/>
    """,
    # Spark's own Kafka connector, beside which the benchmark and the tests of row parity run. Its token provider 4.2.0
    # was never published, so its versions are mixed: Ivy could not work this out, and nothing else is missing.
    f"spark-kafka-{_CONNECTOR}": """
      <dependency org="org.apache.spark" name="spark-sql-kafka-0-10_2.13" rev="{connector}" transitive="false"/>
      <dependency org="org.apache.spark" name="spark-token-provider-kafka-0-10_2.13" rev="4.0.0" transitive="false"/>
      <dependency org="org.apache.kafka" name="kafka-clients" rev="3.9.2" transitive="false"/>
      <dependency org="org.apache.commons" name="commons-pool2" rev="2.13.1" transitive="false"/>
    """,
}
_IVY = """<ivy-module version="2.0"><info organisation="kseg" module="lock"/>
<configurations defaultconfmapping="default->master,runtime()"><conf name="default"/></configurations>
<dependencies>{dependencies}</dependencies></ivy-module>"""
_ARRIVED = re.compile(r"\[SUCCESSFUL \] ([^#\s]+)#([^;]+);([^!]+)!")


def lock_lines(name: str) -> Iterator[str]:
    """The lock's lines for one set, sorted."""
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        dependencies = _MODULES[name].format(kafka=_KAFKA, delta=_DELTA, connector=_CONNECTOR)
        (work / "ivy.xml").write_text(_IVY.format(dependencies=dependencies))
        arguments = ["-cache", str(work / "cache"), "-ivy", str(work / "ivy.xml"), "-confs", "default"]
        arguments += ["-retrieve", f"{work}/jars/[artifact]-[revision].[ext]"]
        told = subprocess.run(
            [*ivy_command(find_java()), *arguments], check=True, stdout=subprocess.PIPE, text=True, cwd=work
        )
        for organisation, module, version in sorted(set(_ARRIVED.findall(told.stdout))):
            jar = Jar(organisation, module, version, "")
            yield f"{name} {organisation} {module} {version} {sha256(work / 'jars' / jar.filename)}"


def main() -> None:
    print("# Every jar that is fetched: set, organisation, module, version, SHA-256. Written by jobs/broker/lock.py.")
    for name in _MODULES:
        for line in lock_lines(name):
            print(line)


if __name__ == "__main__":
    main()
