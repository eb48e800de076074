"""Makes `pyspark_kseg` visible to Spark in an editable install; setuptools runs this, from `pyproject.toml`.

Spark finds data sources with ``pkgutil.iter_modules``. An editable install maps packages through an import hook,
which ``iter_modules`` cannot see: so there the folder is copied instead. It only names a class of ``kseg.etl``, so the
copy does not age.
"""

from __future__ import annotations

from pathlib import Path

from setuptools.command.build_py import build_py

SPARK_MODULE = "pyspark_kseg"
SPARK_FOLDER = "etl/spark_format/pyspark_kseg"


class BuildPy(build_py):  # type: ignore[misc]  # setuptools' stubs come and go with its version
    """`build_py`, and the copy."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            for source in Path(SPARK_FOLDER).glob("*.py"):
                # The install's own folder goes into the wheel; build_lib does not, in an editable install.
                target = Path(self.get_finalized_command("install").install_purelib, SPARK_MODULE, source.name)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(source.read_text())
