"""What a SQL function is: a name, parameters, what it gives, and a kernel over arrays.

A function is pure: Arrow arrays of one length in, one array of that length out, and
null where any argument is null. Errors come out as one line that names the function.
With `lenient`, rows that cannot be computed are null instead, and the rest stands.
"""

import re
from collections.abc import Callable
from dataclasses import field
from enum import Enum
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from havasu_vc.errors import GeometryError, InvalidArgumentError
from havasu_vc.geo.functions.arguments import Array
from havasu_vc.records import dataclass

__all__ = ["Kernel", "Result", "SqlFunction"]

Kernel: TypeAlias = Callable[..., Array]
"""Arrow arrays of one length to one of that length, or for an aggregate of length one."""

# The row of a batch says nothing to those who see a table.
_ROW: Final = re.compile(r"^the (geometry|raster) in row \d+ ")


class Result(Enum):
    """What a function gives, by the Arrow type of its arrays."""

    GEOMETRY = ("geometry", pa.binary())
    BYTES = ("binary", pa.binary())
    TEXT = ("string", pa.string())
    NUMBER = ("double", pa.float64())
    WHOLE_NUMBER = ("int", pa.int32())
    TRUTH = ("boolean", pa.bool_())
    METADATA = (
        "struct",
        pa.struct(
            [
                ("upper_left_x", pa.float64()),
                ("upper_left_y", pa.float64()),
                ("width", pa.int32()),
                ("height", pa.int32()),
                ("scale_x", pa.float64()),
                ("scale_y", pa.float64()),
                ("skew_x", pa.float64()),
                ("skew_y", pa.float64()),
                ("srid", pa.int32()),
                ("num_bands", pa.int32()),
            ]
        ),
    )

    def __init__(self, label: str, arrow_type: pa.DataType) -> None:
        self.label = label
        self.arrow_type = arrow_type


@dataclass(frozen=True, slots=True)
class SqlFunction:
    """A function that SQL can call.

    >>> SqlFunction("ST_F", "geometry, distance [, srid]", Result.TEXT, "", len).arity
    (2, 3)
    """

    name: str
    """As it is written in SQL, where case does not matter."""
    signature: str
    """Its parameters by name; those in brackets may be left out."""
    result: Result
    """What it gives."""
    summary: str
    """What it does, in a sentence."""
    kernel: Kernel = field(repr=False)
    """What computes it."""
    aggregate: bool = False
    """Whether it makes one value of all rows of a group."""

    @property
    def arity(self) -> tuple[int, int]:
        """The least and the greatest number of arguments."""
        required = re.sub(r"\[.*?\]", "", self.signature)
        return len(re.findall(r"\w+", required)), len(re.findall(r"\w+", self.signature))

    def check_arity(self, count: int) -> None:
        """Raise `InvalidArgumentError` if it does not take so many arguments."""
        least, most = self.arity
        if not least <= count <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            plural = "" if most == 1 else "s"
            raise InvalidArgumentError(
                f"{self.name} takes {wanted} argument{plural}, not {count}",
                hints=(f"{self.name}({self.signature})",),
            )

    def __call__(self, *columns: Array, lenient: bool = False) -> Array:
        """Compute it for arrays of one length."""
        self.check_arity(len(columns))
        try:
            return self._computed(*columns)
        except GeometryError:
            if not lenient or self.aggregate:
                raise
        return self._leniently(*columns)

    def _computed(self, *columns: Array) -> Array:
        import shapely

        try:
            with np.errstate(all="ignore"):
                found = self.kernel(*columns)
        except shapely.errors.ShapelyError as error:
            reason = " ".join(str(error).split())[:160]
            raise GeometryError(f"{self.name} cannot be computed: {reason}") from error
        except GeometryError as error:
            message = _ROW.sub(r"a \1 ", error.message)
            raise GeometryError(f"{self.name}: {message}", hints=error.hints) from error
        except InvalidArgumentError as error:
            raise InvalidArgumentError(
                f"{self.name}: {error.message}", hints=error.hints
            ) from error
        wanted = self.result.arrow_type
        return found if found.type == wanted else found.cast(wanted)

    def _leniently(self, *columns: Array) -> Array:
        """Compute halves of halves, until only rows that cannot be computed are null."""
        count = len(columns[0])
        try:
            return self._computed(*columns)
        except GeometryError:
            if count == 1:
                return pa.nulls(1, self.result.arrow_type)
        middle = count // 2
        parts = [
            self._leniently(*(column.slice(start, length) for column in columns))
            for start, length in ((0, middle), (middle, count - middle))
        ]
        return pa.concat_arrays(parts)
