"""Write ``jars.lock``: let Ivy work out all dependencies, once, and note names and sums.

Run it by hand after changing a version here; sets that are named are worked out, the others stay as they are::

    python -m kseg.jobs.broker.lock [SET ...] > /tmp/jars.lock && mv /tmp/jars.lock jobs/broker/jars.lock
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from kseg.jobs.broker.jars import RETRIEVED, SETTINGS, Jar, ivy_command, locked_sets, sha256
from kseg.jobs.broker.java import find_java

_KAFKA = "4.3.1"
_DELTA = "4.4.0"
_CONNECTOR = "4.2.0"
_AVRO = "4.1.1"

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
    # `from_avro` of Spark, for the benchmark: 4.1.1 is its newest release, and runs in Spark 4.2.
    f"spark-avro-{_AVRO}": """
      <dependency org="org.apache.spark" name="spark-avro_2.13" rev="{avro}" transitive="false"/>
    """,
    # The S3 server of the tests (tests/harness/s3.py), without what it needs in front of the stores of others.
    "s3proxy-2.9.0": """
      <dependency org="org.gaul" name="s3proxy" rev="2.9.0"/>
      <exclude org="org.gaul" module="modernizer-maven-annotations"/>
      <exclude org="com\\.(azure|microsoft|amazonaws|sun).*|io\\.(netty|projectreactor).*" matcher="regexp"/>
      <exclude org="org\\.(reactivestreams|apache\\.httpcomponents|apache\\.commons)|commons-.*" matcher="regexp"/>
      <exclude org="org\\.(glassfish\\..*|eclipse\\.angus|jspecify)|(javax|net\\.java)\\..*" matcher="regexp"/>
      <exclude org="jakarta\\.(activation|ws\\.rs)|joda-time|com\\.google\\.(jimfs|auto.*|j2objc)" matcher="regexp"/>
    """,
    # YARN's two daemons (tests/harness/yarn.py), of the release whose client pyspark has; and what they lack in there.
    "hadoop-yarn-3.5.0": """
      <dependency org="org.apache.hadoop" name="hadoop-client-minicluster" rev="3.5.0" transitive="false"/>
      <dependency org="commons-logging" name="commons-logging" rev="1.3.5" transitive="false"/>
      <dependency org="org.bouncycastle" name="bcprov-jdk18on" rev="1.82" transitive="false"/>
      <dependency org="org.bouncycastle" name="bcpkix-jdk18on" rev="1.82" transitive="false"/>
      <dependency org="org.bouncycastle" name="bcutil-jdk18on" rev="1.82" transitive="false"/>
    """,
    # Livy's server (tests/harness/livy.py) on the Hadoop that pyspark has, without its own.
    "livy-0.7.1": """
      <dependency org="org.apache.livy" name="livy-server" rev="0.7.1-incubating"/>
      <dependency org="commons-logging" name="commons-logging" rev="1.3.5"/>
      <dependency org="org.slf4j" name="slf4j-reload4j" rev="1.7.36"/>
      <exclude org="org.apache.(hadoop|curator|zookeeper)" module=".*" matcher="regexp"/>
      <exclude org="log4j" module="log4j"/>
      <exclude org="com.typesafe(.akka)?|org.spark-project.spark" module=".*" matcher="regexp"/>
    """,
    # OpenLineage's own classes of events, with which tests read ours; the rest of Jackson is in pyspark.
    "openlineage-1.54.0": """
      <dependency org="io.openlineage" name="openlineage-java" rev="1.54.0" transitive="false"/>
      <dependency org="com.fasterxml.jackson.module" name="jackson-module-blackbird" rev="2.21.2" transitive="false"/>
      <dependency org="com.fasterxml.jackson.datatype" name="jackson-datatype-jdk8" rev="2.21.2" transitive="false"/>
    """,
    # The registry of tests, demo and `kseg registry`: an archive with everything that it needs.
    "apicurio-3.0.9": """
      <dependency org="io.apicurio" name="apicurio-registry-app" rev="3.0.9" transitive="false" conf="default->*">
        <artifact name="apicurio-registry-app" type="tar.gz" ext="tar.gz" m:classifier="all"/>
      </dependency>
    """,
    # Other releases of Kafka, with their ZooKeeper (tests/harness/releases.py), without Netty: it uses plain NIO.
    "kafka-3.9.2": """
      <dependency org="org.apache.kafka" name="kafka_2.13" rev="3.9.2"/>
      <dependency org="org.slf4j" name="slf4j-reload4j" rev="1.7.36"/>
      <exclude org="io.netty" module=".*" matcher="regexp"/>
    """,
    "kafka-2.8.2": """
      <dependency org="org.apache.kafka" name="kafka_2.13" rev="2.8.2"/>
      <dependency org="org.slf4j" name="slf4j-log4j12" rev="1.7.30"/>
      <exclude org="io.netty" module=".*" matcher="regexp"/>
    """,
    # These two lack what their scripts or an older Java brought along: log4j, and the XML binding that left Java at 11.
    "kafka-1.1.1": """
      <dependency org="org.apache.kafka" name="kafka_2.11" rev="1.1.1"/>
      <dependency org="org.slf4j" name="slf4j-log4j12" rev="1.7.25"/>
    """,
    "kafka-0.10.2.2": """
      <dependency org="org.apache.kafka" name="kafka_2.11" rev="0.10.2.2"/>
      <dependency org="javax.xml.bind" name="jaxb-api" rev="2.3.1"/>
    """,
    "kafka-0.9.0.1": """
      <dependency org="org.apache.kafka" name="kafka_2.11" rev="0.9.0.1"/>
      <exclude org="io.netty" module=".*" matcher="regexp"/>
      <exclude org="jline" module=".*" matcher="regexp"/>
      <exclude org="junit" module=".*" matcher="regexp"/>
    """,
}
_IVY = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven"><info organisation="kseg" module="lock"/>
<configurations defaultconfmapping="default->master,runtime()"><conf name="default"/></configurations>
<dependencies>{dependencies}</dependencies></ivy-module>"""
_ARRIVED = re.compile(r"\[SUCCESSFUL \] ([^#\s]+)#([^;]+);([^!]+)!\S+\.(jar|tar\.gz)")


#: Sets of one artifact each whose POM has a parent that was never published.
_WITHOUT_POM = frozenset({"apicurio-3.0.9"})
_CLASSIFIER = re.compile(r'm:classifier="([^"]+)"')


def lock_lines(name: str) -> Iterator[str]:
    """The lock's lines for one set, sorted."""
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        dependencies = _MODULES[name].format(kafka=_KAFKA, delta=_DELTA, connector=_CONNECTOR, avro=_AVRO)
        (work / "ivy.xml").write_text(_IVY.format(dependencies=dependencies))
        if name in _WITHOUT_POM:
            (work / "settings.xml").write_text(SETTINGS)
        settings = ["-settings", str(work / "settings.xml")] if name in _WITHOUT_POM else []
        arguments = [*settings, "-cache", str(work / "cache"), "-ivy", str(work / "ivy.xml"), "-confs", "default"]
        arguments += ["-retrieve", f"{work}/jars/{RETRIEVED}"]
        completed = subprocess.run(
            [*ivy_command(find_java()), *arguments], check=True, stdout=subprocess.PIPE, text=True, cwd=work
        )
        for organisation, module, version, extension in sorted(set(_ARRIVED.findall(completed.stdout))):
            classifier = next(iter(_CLASSIFIER.findall(dependencies)), "") if extension != "jar" else ""
            jar = Jar(organisation, module, version, "", classifier, extension)
            yield _line(name, replace(jar, sha256=sha256(work / "jars" / jar.filename)))


def _line(name: str, jar: Jar) -> str:
    line = f"{name} {jar.organisation} {jar.module} {jar.version} {jar.sha256}"
    return line if jar.extension == "jar" else f"{line} {jar.classifier} {jar.extension}"


def main() -> None:
    wanted = sys.argv[1:] or list(_MODULES)
    print("# Every jar that is fetched: set, organisation, module, version, SHA-256. Written by jobs/broker/lock.py.")
    for name in _MODULES:
        kept = [_line(name, jar) for jar in locked_sets().get(name, ())]
        for line in lock_lines(name) if name in wanted else kept:
            print(line)


if __name__ == "__main__":
    main()
