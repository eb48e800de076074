"""All catalogs: a new one is a module of this folder, and an entry of `CATALOGS`.

target           catalog          location          credentials           commits
---------------  ---------------  ----------------  --------------------  -----------------------------------------
has a slash      Paths            the path or URI   the environment's     any writer that supports the table
has no slash     SparkCatalogs    Spark knows it    Spark's               Spark
"""

from __future__ import annotations

from typing import ClassVar, Final

from kseg.etl.catalogs.port import Catalog, Committer, Resolved


class Paths(Catalog):
    """Paths and URIs, which are locations themselves."""

    def holds(self, table: str) -> bool:
        return "/" in table

    def resolve(self, table: str) -> Resolved:
        return Resolved(table)


class SparkCatalogs(Catalog):
    """The catalogs of a Spark session: names that no other catalog has."""

    commits: ClassVar[Committer] = "spark"

    def holds(self, table: str) -> bool:
        return True

    def resolve(self, table: str) -> Resolved:
        return Resolved(None)


CATALOGS: Final[tuple[Catalog, ...]] = (
    Paths(),
    SparkCatalogs(),
)
"""A name is one of the first catalog that holds it."""


def catalog_of(table: str) -> Catalog:
    """The catalog of a target of the job file."""
    return next(catalog for catalog in CATALOGS if catalog.holds(table))


def resolve(table: str) -> Resolved:
    """Resolve a target of the job file."""
    return catalog_of(table).resolve(table)
