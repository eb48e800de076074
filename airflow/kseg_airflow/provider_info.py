"""Describes this package to Airflow's provider manager: the entry point `apache_airflow_provider`.

Its form: `airflow/provider_info.schema.json` of Airflow, and the rules for community providers,
https://airflow.apache.org/docs/apache-airflow-providers/howto/create-custom-providers.html
"""

from __future__ import annotations

from typing import Any

from kseg_airflow import __version__


def get_provider_info() -> dict[str, Any]:
    """The provider's metadata. Connections are those of the Apache providers for Kafka, Spark and Livy."""
    integration = "kafka-segment-etl"
    operators = ["kseg_airflow.operators", "kseg_airflow.audit"]
    return {
        "package-name": "kafka-segment-etl-airflow",
        "name": "kafka-segment-etl",
        "description": "Batches of Kafka records into Delta tables, exactly once, with `kseg` on Spark.",
        "versions": [__version__],
        "integrations": [{"integration-name": integration, "tags": ["software"]}],
        "operators": [{"integration-name": integration, "python-modules": operators}],
        "sensors": [{"integration-name": integration, "python-modules": ["kseg_airflow.sensors"]}],
        "triggers": [{"integration-name": integration, "python-modules": ["kseg_airflow.triggers"]}],
        "hooks": [{"integration-name": integration, "python-modules": ["kseg_airflow.hooks"]}],
        "extra-links": [
            f"kseg_airflow.links.{name}" for name in ("RunReportLink", "DriverLogLink", "DeltaVersionLink")
        ],
        "config": {
            "kseg": {
                "description": "Settings of kafka-segment-etl's operators.",
                "options": {
                    "run_dir": {
                        "description": "The folder for run files and drivers' logs, shared by workers and triggerers.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "/var/lib/kseg",
                        "default": "",
                    },
                    "report_url": {
                        "description": "The address under which run_dir is served, for the links on a task's page.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "https://reports.example.com/kseg",
                        "default": "",
                    },
                    "run_retention_days": {
                        "description": "Days after which the files of ended drivers in run_dir are removed. 0: never.",
                        "version_added": "0.1.0",
                        "type": "float",
                        "example": "7",
                        "default": "30",
                    },
                },
            }
        },
    }
