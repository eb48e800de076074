"""docs/guides/kubernetes, held against Kubernetes' schemas, hadolint, Spark's settings and our job files."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from kseg.etl.config.load import load_job
from kseg.etl.source.job_origin import deferred_origin_of
from kseg.etl.spark.cache import DELTA, cache_root, jar_folder
from kseg.jobs.broker.jars import locked_sets

FOLDER = Path(__file__).parents[3] / "docs" / "guides" / "kubernetes"
VERSIONS = ("1.31", "1.37")


def documents(*names: str) -> list[dict[str, Any]]:
    files = [FOLDER / name for name in names] or sorted(FOLDER.glob("*.yaml"))
    return [document for file in files for document in yaml.safe_load_all(file.read_text())]


def pod_specs() -> list[dict[str, Any]]:
    cron = documents("cronjob.yaml")[0]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return [cron, *(template["spec"] for template in documents("driver-template.yaml", "executor-template.yaml"))]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_is_one_that_kubernetes_knows_without_a_key_too_many(version: str) -> None:
    found = documents()
    assert {document["kind"] for document in found} >= {"Role", "Secret", "Pod", "CronJob", "ServiceAccount"}
    for document in found:
        kubernetes_validate.validate(document, version, strict=True)


def test_a_wrong_manifest_is_seen() -> None:
    (template,) = documents("executor-template.yaml")
    template["spec"]["serviceAcountName"] = "typo"
    with pytest.raises(kubernetes_validate.ValidationError, match="serviceAcountName"):
        kubernetes_validate.validate(template, VERSIONS[-1], strict=True)


def test_what_the_manifests_name_is_there() -> None:
    """Accounts, secrets' keys and volumes: a name that leads nowhere is found by a cluster alone, when a pod hangs."""
    by_name = {(document["kind"], document["metadata"].get("name")): document for document in documents()}
    secret = by_name["Secret", "kseg-orders"]["stringData"]
    for spec in pod_specs():
        assert ("ServiceAccount", spec["serviceAccountName"]) in by_name
        volumes = {volume["name"] for volume in spec["volumes"]}
        for container in spec["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
            for variable in container["env"]:
                reference = variable["valueFrom"].get("secretKeyRef")
                assert reference is None or reference["key"] in secret
        for volume in spec["volumes"]:
            assert all(item["key"] in secret for item in volume.get("secret", {}).get("items", []))


def test_the_job_of_the_example_is_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (config,) = documents("job.yaml")
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")
    (tmp_path / "orders.yaml").write_text(config["data"]["orders.yaml"])
    job = load_job(tmp_path / "orders.yaml")
    assert deferred_origin_of(job) is not None


def test_spark_takes_every_setting_of_the_submit_lines() -> None:
    """Each `spark.kubernetes.*` name stands in Spark's own class of them: a wrong one would do nothing, silently."""
    import pyspark

    arguments = documents("cronjob.yaml")[0]["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["args"]
    line = shlex.split((FOLDER / "submit.sh").read_text().partition("exec ")[2].replace("\\\n", " "))
    names = {word.partition("=")[0] for word in line if word.startswith("spark.kubernetes.")}
    names |= {word[7:].partition("=")[0] for word in arguments if word.startswith("--conf=spark.kubernetes.")}
    assert len(names) > 6
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-kubernetes_*.jar")
    with zipfile.ZipFile(jar) as archive:
        (config,) = (name for name in archive.namelist() if name.endswith("/k8s/Config$.class"))
        known = archive.read(config).decode("latin-1")
    whole = {name for name in names if name in known}
    # Spark puts the account's names together: prefix, then serviceAccountName.
    rest = {name for name in names - whole if not re.fullmatch(r"spark\.kubernetes\.authenticate\.\w+\.\w+", name)}
    assert rest == set()


def test_the_submit_lines_name_deltas_jars_where_the_image_has_them() -> None:
    """A session that was submitted gets no jars from us: without them `kseg verify` would be refused."""
    (cache,) = re.findall(r"^ENV KSEG_CACHE=(\S+)$", (FOLDER / "Dockerfile").read_text(), re.MULTILINE)
    folder = jar_folder(DELTA).relative_to(cache_root())
    jars = ",".join(f"local://{cache}/{folder}/{jar.filename}" for jar in locked_sets()[DELTA])
    for name, option in (("submit.sh", "--jars "), ("cronjob.yaml", "--jars=")):
        assert option + jars in (FOLDER / name).read_text()


def test_the_image_recipe_is_one_that_hadolint_takes() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    told = subprocess.run([hadolint, FOLDER / "Dockerfile"], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout
