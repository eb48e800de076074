"""Steps that call a function on the DataFrame: `module:function`, DataFrame -> DataFrame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kseg.etl.errors import ConfigurationError, KsegError, summary
from kseg.etl.source.errors import PythonStepError
from kseg.etl.transform.step import FrameStep
from kseg.etl.transform.user_frames import raised_at
from kseg.etl.transform.user_function import WHERE_MODULES_ARE, load_function

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WRONG_USE: Final = (AttributeError, LookupError, NotImplementedError, TypeError, ValueError)


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

        function = load_function(self.function, self.place, remedy=WHERE_MODULES_ARE)
        try:
            result = function(rows)
        except KsegError:
            raise
        except Exception as error:
            if _is_sparks_failure(error):
                raise
            message = f"{self.function} raised {summary(error)}"
            remedy = "fix the function; its traceback is in the log"
            where = raised_at(error, self.references)
            raise PythonStepError(message, remedy=remedy, step=self.place, **where) from error
        if not isinstance(result, DataFrame):
            raise ConfigurationError.of(
                self.place, f"{self.function} returned {type(result).__name__}, not a DataFrame"
            )
        return result


def _is_sparks_failure(error: Exception) -> bool:
    """Whether Spark failed in what the function made it do. A query that it cannot analyse is the function's error, and
    so is a wrong use of its API, for which PySpark raises its own kinds of Python's exceptions."""
    from pyspark.errors import AnalysisException

    of_spark = type(error).__module__.partition(".")[0] in ("pyspark", "py4j")
    return of_spark and not isinstance(error, (AnalysisException, *_WRONG_USE))
