"""
Python ints from outside that are sizes of the program: how many trips a range has, where a slice
ends. The symbol is the size of an array without elements, which each call makes of the number.
"""

from __future__ import annotations

from dataclasses import field

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import BOOL
from mlc.frontend.trace.captures import guard
from mlc.frontend.trace.paths import Guard, HiddenInput, Path, array_of_size
from mlc.frontend.trace.symbolic import SymbolicDim
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer
from mlc.lazy_dataclass import dataclass

MOST = 2**30
"""Above it an int is no number of trips or elements; products of two are within 64 bits."""


@dataclass
class AsSize:
    """An int that is a size, in all programs of a function but those that are for one value."""

    symbol: str
    name: str  # what remarks call it
    most: int = MOST
    apart: set[int] = field(default_factory=set[int])  # values that have programs of their own
    value: int | None = None  # in the program that is traced, if it reads it

    def takes(self, value: object) -> bool:
        """Whether a value is one of the sizes, and not the program's alone."""
        return type(value) is int and 0 <= value <= self.most and value not in self.apart


def size_input(path: Path, value: int, number: AsSize) -> SymbolicDim:
    """The number as a size; the program holds for those that it takes."""
    trace, size = here(), Dim.symbol(number.symbol)
    number.value = value
    guard(Guard("range", path, (0, number.most)))
    if number.symbol not in trace.ints.ways:
        array = array_of_size(value)
        trace.ints.ways[number.symbol] = path
        trace.ints.sizes = {**trace.ints.sizes, number.symbol: value}
        trace.hidden.append(HiddenInput(path.size()))
        trace.hidden_arrays.append(array)
        trace.keep.append(array)
        held = trace.argument(path.text, BOOL, (size, Dim.const(0)))
        trace.arrays[id(array)] = Tracer(trace, held)
    return SymbolicDim(size)
