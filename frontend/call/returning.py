"""What a traced function returns, said in the words that a file keeps."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from mlc.dialects.dtypes import named_dtype
from mlc.dialects.errors import MlcError
from mlc.dialects.signature import ResultSpec
from mlc.frontend.call.program import Program, ResultLeaf
from mlc.frontend.trace.containers import Leaf, Structure
from mlc.frontend.trace.deferred import Found
from mlc.frontend.trace.effects import Outcome
from mlc.runtime.returned import Part, Returned


def returned_of(program: Program) -> Returned | None:
    """
    How the function's result is made; None where it is the entry's own. A named tuple becomes a
    tuple and an object a dictionary of its fields: where a file is read, there are no such classes.
    Raises MlcError where Python does what no file can hold.
    """
    if program.direct_result:
        return None
    outcome, stores = program.outcome, program.stores
    if program.tells:
        raise _refused(program, "prints, or calls Python, while it runs")
    if program.catches:
        raise _refused(program, "catches errors that end a call, which Python then runs")
    own = sum(leaf.takes for leaf in program.results)
    arrays = () if stores is None else stores.arrays
    end = own + (0 if stores is None else stores.count)
    last = end + (0 if outcome is None else outcome.results)
    beside = program.signature.results[end + 1 : last]  # behind the error: what it says
    written = [
        (own + k, len(program.inputs) + program.hidden.index(x)) for k, x in enumerate(arrays)
    ]
    written += [(last + k, program.inputs.index(x)) for k, x in enumerate(program.written)]
    return Returned(
        part=_part(program, program.structure, iter(program.results)),
        own=own,
        stored=(own + len(arrays), end),
        error=end if outcome is not None and outcome.raises else None,
        faults=() if outcome is None else tuple(_faults(outcome, beside)),
        written=tuple(written),
        counted=tuple(program.counted.items()),
    )


def _refused(program: Program, what: str) -> MlcError:
    return MlcError(
        f"{program.name} {what}, which a file cannot do: save a function that returns arrays,"
        " numbers and containers of them"
    )


def _part(program: Program, structure: Structure, leaves: Iterator[ResultLeaf]) -> Part:
    if isinstance(structure, Leaf):
        return _leaf(program, next(leaves))
    inner = tuple(_part(program, child, leaves) for child in structure.children)
    if structure.kind is list:
        return ("list", *inner)
    if issubclass(structure.kind, tuple):
        return ("tuple", *inner)
    if not all(isinstance(key, str | int | float | None) for key in structure.keys):
        raise _refused(program, "returns a dictionary with keys that are no text or numbers")
    if len(structure.keys) != len(inner):
        raise _refused(program, f"returns an object of the class {structure.kind.__name__}")
    return ("dict", structure.keys, *inner)


def _leaf(program: Program, leaf: ResultLeaf) -> Part:
    if leaf.kind in ("array", "number"):
        return (leaf.kind,)
    if leaf.kind == "made":
        raise _refused(program, "returns what Python makes of its results")
    value: object = leaf.value
    name = type(value).__name__
    if value is None or type(value) in (bool, int, float, str):
        return ("value", value)
    array = np.asarray(value)
    if not isinstance(value, np.generic) or array.dtype.hasobject:
        raise _refused(program, f"returns an object of the class {name}")
    return ("scalar", array.dtype.str, array.tobytes().hex())


def _faults(outcome: Outcome, said: Sequence[ResultSpec]) -> Iterator[tuple[str, str, str, int]]:
    """
    The errors that it raises; of a text that values are in, a file knows the class alone. `said`:
    the results with those values.
    """
    zeros = [
        np.zeros([dim.constant or 1 for dim in x.shape], named_dtype(x.dtype).numpy)[()]
        for x in said
    ]
    for recipe, site, slots in outcome.faults:
        error: Any = RuntimeError
        with suppress(Exception):  # a text may be such as no zeros fit
            error = recipe.make(Found(zeros[slot] for slot in slots))[0]
        kind = error if isinstance(error, type) else type(error)
        says = "the file has no text with the values of this error" if slots else _text(error)
        if error is kind:
            says = ""
        base = next(filter(_is_pythons, kind.__mro__), Exception)
        if base is not kind:  # what catches its base catches it
            says = f"{kind.__name__}: {says}"
        name = "MlcError" if base is Exception is not kind else base.__name__
        file, line = ("", 0) if site is None else (site.filename, site.line)
        yield name, says, file, line


def _text(error: Any) -> str:
    """What it is made of: KeyError says that in quotes."""
    return BaseException.__str__(error) if isinstance(error, KeyError) else str(error)


def _is_pythons(kind: type) -> bool:
    """Whether it is a class of Python's own errors, which are made of a text."""
    if not issubclass(kind, Exception) or getattr(builtins, kind.__name__, None) is not kind:
        return False
    try:
        kind("")
    except TypeError:
        return False
    return True
