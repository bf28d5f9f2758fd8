"""
What a function returns, made of the results of its native entry: containers, numbers, arrays of as
many elements as there are, errors, and what is written to arguments. A file keeps it as text.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from mlc.dialects.errors import MlcError
from mlc.dialects.signature import EntrySignature
from mlc.lazy_dataclass import dataclass

Axes = tuple[int | None, ...]
"""For each axis of a result the number of the result that holds its size; None of a known one."""


def counted(values: Sequence[Any], axes: Mapping[int, Axes]) -> list[Any]:
    """The results with as many elements as there are, without the sizes beside them."""
    found = list(values)
    for number, sizes in axes.items():
        array = found[number]
        shape = tuple(
            known if at is None else int(values[at])
            for known, at in zip(array.shape, sizes, strict=True)
        )
        found[number] = _shrunk(array, shape)
    first = min(at for sizes in axes.values() for at in sizes if at is not None)
    return found[:first]


def _shrunk(array: Any, shape: tuple[int, ...]) -> Any:
    """
    The first elements of an array, as one of a shape: in the same memory, unless that is much too
    large.
    """
    if array.shape == shape:
        return array
    if 2 * math.prod(shape) <= array.size:
        return array.reshape(-1)[: math.prod(shape)].reshape(shape).copy()
    array.resize(shape, refcheck=False)
    return array


Part = tuple[Any, ...]
"""
A part of what a function returns: ("array",), ("number",) for one of Python's, ("tuple", *parts),
("list", *parts), ("dict", keys, *parts), or a value that is always the same: ("value", it), and
("scalar", dtype, its bytes in hexadecimal digits) for one of NumPy's.
"""


@dataclass(frozen=True)
class Returned:
    """
    The results in order: what the function returns, arrays from outside that it writes to, what it
    stores to objects, its error with what that says, arguments that it writes to, and sizes.
    """

    part: Part
    own: int  # results that are in it
    stored: tuple[int, int]  # where those are that it stores to objects, and their end
    error: int | None  # the result that says which of the faults there is; 0 for none
    faults: tuple[tuple[str, str, str, int], ...]  # class, what it says, the user's file and line
    written: tuple[tuple[int, int], ...]  # results, and the arguments to whose arrays they go
    counted: tuple[tuple[int, Axes], ...]

    def check(self, signature: EntrySignature) -> None:
        """ValueError where it is not of such an entry."""
        results, (first, end) = len(signature.results), self.stored
        places = [*(() if self.error is None else (self.error,)), *(x for x, _ in self.written)]
        places += [x for number, axes in self.counted for x in (number, *axes) if x is not None]
        right = all(0 <= x < results for x in places) and 0 <= self.own <= first <= end <= results
        given = all(0 <= x < len(signature.args) for _, x in self.written)
        if not (right and given and _takes(self.part) == self.own):
            raise ValueError(f"what it returns is not of {results} results")

    def of(self, results: Sequence[Any], arguments: Sequence[Any]) -> Any:
        """
        What the function returns; what it stores to objects comes behind that, in a tuple. Raises
        what the function raises.
        """
        values = counted(results, dict(self.counted)) if self.counted else list(results)
        copied = [(k, x) for x, k in self.written if values[x] is not arguments[k]]
        for k, _ in copied:
            check_apart(k, arguments)
        for k, number in copied:
            np.copyto(arguments[k], values[number])
        if self.error is not None and (number := int(values[self.error])):
            _throw(*self.faults[number - 1])
        found = _made(self.part, iter(values))
        first, end = self.stored
        return (found, *values[first:end]) if end > first else found


def check_apart(written: int, arguments: Sequence[Any]) -> None:
    """MlcError where an array that a function writes to shares memory with another argument."""
    arrays = {k: x for k, x in enumerate(arguments) if type(x) is np.ndarray}
    target = arrays.pop(written, None)
    for k, other in arrays.items():
        if target is not None and np.may_share_memory(target, other):
            raise MlcError(
                f"argument {written}, which is written, shares memory with argument {k};"
                " pass a copy of one of them"
            )


def _throw(name: str, says: str, file: str, line: int) -> NoReturn:
    """Raises an error of one of Python's classes; another is an MlcError."""
    kind = getattr(builtins, name, None)
    where = f"\n  {file}:{line}" if file else ""
    if isinstance(kind, type) and issubclass(kind, Exception):
        raise kind(f"{says}{where}")
    raise MlcError(f"{says}{where}")


def _takes(part: Part) -> int:
    """How many results a part is made of."""
    match part:
        case ("array",) | ("number",):
            return 1
        case ("tuple" | "list", *inner):
            return sum(map(_takes, inner))
        case ("dict", keys, *inner) if len(keys) == len(inner):
            return sum(map(_takes, inner))
        case ("value", None | bool() | int() | float() | str()) | ("scalar", str(), str()):
            return 0
        case _:
            raise ValueError("a part of what it returns is of no known kind")


def _made(part: Part, results: Iterator[Any]) -> Any:
    """A part, of the results that follow."""
    match part:
        case ("array",):
            return next(results)
        case ("number",):
            return next(results).item()
        case ("tuple", *inner):
            return tuple(_made(x, results) for x in inner)
        case ("list", *inner):
            return [_made(x, results) for x in inner]
        case ("dict", keys, *inner):
            return {key: _made(x, results) for key, x in zip(keys, inner, strict=True)}
        case ("scalar", dtype, digits):
            return np.frombuffer(bytes.fromhex(digits), dtype)[0]
        case _:
            return part[1]
