"""Write example DAGs and settings for a first Airflow: `python -m kseg_airflow.first_steps FOLDER`.

    FOLDER/dags/       the DAGs of airflow/dags, with their job files
    FOLDER/config/     settings of an Airflow whose database is a SQLite file; Airflow imports them from its home

Files that are there already stay as they are. The tutorial docs/tutorials/airflow.md begins with this.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

_PACKAGE = Path(__file__).parent
#: Folder below FOLDER -> where its files lie in an installed provider, and in a checkout.
_SOURCES = {
    "dags": (_PACKAGE / "example_dags", _PACKAGE.parent / "dags"),
    "config": (_PACKAGE / "example_config", _PACKAGE.parent / "first_steps"),
}
_KINDS = (".py", ".yaml")


def write(folder: Path) -> list[Path]:
    """Write the files; returns those that were written. Raises OSError."""
    written = []
    for name, sources in _SOURCES.items():
        source = next(path for path in sources if path.is_dir())
        for path in sorted(source.rglob("*")):
            target = folder / name / path.relative_to(source)
            if path.suffix in _KINDS and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
                written.append(target)
    return written


def main(arguments: list[str]) -> int:
    """Exit code: 0, or 2 for wrong arguments."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__)
        return 2
    written = write(Path(arguments[0]))
    print(f"{len(written)} files written to {arguments[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
