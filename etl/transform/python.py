"""Steps that call a function on the DataFrame: `module:function`, DataFrame -> DataFrame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kseg.etl.errors import ConfigurationError
from kseg.etl.transform.step import FrameStep
from kseg.etl.transform.user_function import load_function

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class PythonStep(FrameStep):
    """function: `module:function`."""

    function: str
    place: str

    @property
    def references(self) -> tuple[str, ...]:
        return (self.function,)

    def apply(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import DataFrame

        remedy = "put the module on PYTHONPATH, or install its package"
        result = load_function(self.function, self.place, remedy=remedy)(rows)
        if not isinstance(result, DataFrame):
            raise ConfigurationError.of(
                self.place, f"{self.function} returned {type(result).__name__}, not a DataFrame"
            )
        return result
