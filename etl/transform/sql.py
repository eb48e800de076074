"""Steps that are a query in Spark SQL over the rows, which it calls `__rows__`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kseg.etl.errors import ConfigurationError
from kseg.etl.rows.names import ROWS_VIEW
from kseg.etl.transform.step import FrameStep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class SqlStep(FrameStep):
    """query: one SELECT."""

    query: str
    place: str

    def apply(self, rows: DataFrame) -> DataFrame:
        from pyspark.errors import AnalysisException, ParseException

        spark = rows.sparkSession
        if not hasattr(spark, "_jvm"):
            return self._apply_over_connect(rows)
        rows.createOrReplaceTempView(ROWS_VIEW)
        try:
            return spark.sql(self.query)
        except (AnalysisException, ParseException) as error:
            raise self._invalid(error) from error
        finally:
            # The query is resolved by now: a later step may use the name for its own rows.
            spark.catalog.dropTempView(ROWS_VIEW)

    def _apply_over_connect(self, rows: DataFrame) -> DataFrame:
        """Over Connect a query is resolved each time it is used, so the view of its rows is sent along with it, as
        `spark.sql("… {rows}", rows=rows)` does with a generated name."""
        from pyspark.errors import AnalysisException, ParseException
        from pyspark.sql.connect.dataframe import DataFrame as RemoteFrame
        from pyspark.sql.connect.plan import SQL, SubqueryAlias

        source: Any = rows
        plan = SQL(self.query, [], {}, [SubqueryAlias(source._plan, ROWS_VIEW)])
        frame: DataFrame = RemoteFrame(plan, source.sparkSession)
        try:
            frame.schema  # noqa: B018 - resolved here, where an error in it has its place
        except (AnalysisException, ParseException) as error:
            raise self._invalid(error) from error
        return frame

    def _invalid(self, error: Exception) -> ConfigurationError:
        message = str(error).split("\n")[0]
        return ConfigurationError.of(self.place, message, f"the view of the rows is called {ROWS_VIEW}")
