"""The packages of the distribution; everything else stands in pyproject.toml.

Spark registers a Python data source by itself only if it finds a top-level module whose name starts with ``pyspark_``,
and it looks with ``pkgutil.iter_modules``. So one folder below ``etl/`` is installed as ``pyspark_kseg``. An editable
install maps packages through an import hook, which ``iter_modules`` cannot see: there the folder is copied instead. It
only names a class of ``etl``, so the copy does not age.
"""

from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

NAMES = ["client", "segment_reader", "etl", "jobs"]
SPARK_MODULE = "pyspark_kseg"
SPARK_FOLDER = "etl/source/pyspark_kseg"


class BuildPy(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:
            for source in Path(SPARK_FOLDER).glob("*.py"):
                # The install's own folder goes into the wheel; build_lib does not, in an editable install.
                target = Path(self.get_finalized_command("install").install_purelib, SPARK_MODULE, source.name)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(source.read_text())


here = Path(__file__).parent
packages = find_packages(str(here), include=[*NAMES, *(f"{name}.*" for name in NAMES)], exclude=["*.pyspark_kseg"])
setup(
    packages=[*packages, SPARK_MODULE],
    package_dir={SPARK_MODULE: SPARK_FOLDER},
    cmdclass={"build_py": BuildPy},
)
