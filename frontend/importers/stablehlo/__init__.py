"""`mlc.stablehlo.load`: StableHLO text as a function that compiles, differentiates and batches."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import Parameter
from typing import Any

import numpy as np

from mlc.dialects.errors import DTypeError, ShapeError
from mlc.frontend.call.compile import Compiled
from mlc.frontend.call.compile import compile as compile_function
from mlc.frontend.call.lowered import Lowered
from mlc.frontend.call.spec import TensorSpec
from mlc.frontend.call.stats import Stats
from mlc.frontend.errors import NotSupportedError
from mlc.frontend.importers.signed import signed
from mlc.frontend.importers.stablehlo.program import (
    Function,
    Kind,
    Module,
    Op,
    Region,
    TensorKind,
)
from mlc.frontend.importers.stablehlo.reader import read
from mlc.frontend.importers.stablehlo.run import Run, is_known, unsupported
from mlc.frontend.importers.stablehlo.sizes import argument_shapes
from mlc.frontend.importers.stablehlo.text import StableHloError, numpy_of
from mlc.frontend.numpy.values import lift
from mlc.frontend.trace.called import called
from mlc.frontend.trace.symbolic import SymbolicDim
from mlc.frontend.trace.trace import current, here

__all__ = ["Imported", "StableHloError", "load"]


class Imported:
    """
    A function of a StableHLO module: compiled where it is called, and one of the program's
    functions in what is traced.
    """

    def __init__(self, module: Module, function: Function) -> None:
        self._module, self._function = module, function
        self.__name__ = function.name
        self._shapes = argument_shapes(module, function)
        self._compiled = self.compiled()

    def __call__(self, *arguments: Any) -> Any:
        """The result, or a tuple of several."""
        if current() is None:
            return self._compiled(*self._given(arguments))
        given = self._given(arguments)
        if not all(isinstance(x, TensorKind) for x in self._function.inputs):
            return self._traced(*given)
        return called(self.__name__, self._traced, *(lift(x, self.__name__) for x in given))

    def stats(self) -> Stats:
        """Calls outside of traced functions, and the compilations they made."""
        return self._compiled.stats()

    def checks(self, *arguments: Any) -> list[tuple[str, tuple[Any, ...]]]:
        """What the calls of `check.…` in the module compare, computed: a name and arrays each."""
        names: list[str] = []

        def compared(*given: Any) -> Any:
            run = self._run(given)[1]
            names[:] = [name for name, _ in run.checked]
            return tuple(values for _, values in run.checked)

        found = compile_function(compared)(*arguments)
        return list(zip(names, found, strict=True))

    def _traced(self, *arguments: Any) -> Any:
        results, _ = self._run(arguments)
        return results[0] if len(results) == 1 else results

    def compiled(self, **options: Any) -> Compiled[..., Any]:
        """
        The function with the options of `mlc.compile`, under the module's name where its own is
        `main`. Its parameters are those of the text, of the types that it says.
        """
        own = self._function.name
        name = self._module.name or own if own == "main" else own
        names = [argument.lstrip("%") for argument in self._function.region.arguments]
        return compile_function(signed(self._traced, name, names, self._specs()), **options)

    def lower(self, *arguments: Any) -> Lowered:
        """The program for these arguments; without any, for those that the text says."""
        return self._compiled.lower(*(arguments or self._specs()))

    def _specs(self) -> list[Any]:
        """The types of the arguments; of one that is no array nothing is known."""
        return [
            TensorSpec(*shape, dtype=numpy_of(kind))
            if isinstance(kind, TensorKind)
            else Parameter.empty
            for shape, kind in zip(self._shapes, self._function.inputs, strict=True)
        ]

    def _run(self, arguments: tuple[Any, ...]) -> tuple[tuple[Any, ...], Run]:
        run = Run(self._module)
        given = [lift(x, self.__name__) for x in self._given(arguments)]
        return run.function(self._function, given), run

    def _given(self, arguments: tuple[Any, ...]) -> list[Any]:
        """Arguments of the types that the text says; ShapeError or DTypeError for others."""
        wanted = self._function.inputs
        if len(arguments) != len(wanted):
            raise TypeError(f"{self.__name__} takes {len(wanted)} arrays, found {len(arguments)}")
        pairs = enumerate(zip(arguments, wanted, strict=True))
        return [_as_said(f"{self.__name__}: argument {k}", x, kind) for k, (x, kind) in pairs]

    def __repr__(self) -> str:
        return f"<stablehlo function {self.__name__}>"


def _as_said(place: str, x: Any, kind: Kind) -> Any:
    """An argument of the type that the text says; a number of Python's is of any dtype."""
    if not isinstance(kind, TensorKind):
        raise NotSupportedError(f"{place} is a {kind.text}; expected arrays alone")
    dtype = numpy_of(kind)
    if type(x) in (bool, int, float, complex):
        x = np.asarray(x, dtype)
    elif not hasattr(x, "dtype"):
        x = np.asarray(x)
    if x.dtype != dtype:
        raise DTypeError(f"{place} is {x.dtype}; expected {dtype}: x.astype(np.{dtype})")
    known = [(n, size) for n, size in zip(kind.shape, x.shape, strict=False) if n is not None]
    if len(kind.shape) != len(x.shape) or any(isinstance(m, int) and m != n for n, m in known):
        expected = ", ".join("any" if n is None else str(n) for n in kind.shape)
        raise ShapeError(f"{place} has the shape {tuple(x.shape)}; expected ({expected})")
    for n, size in known:
        if isinstance(size, SymbolicDim):
            here().assume(size.dim - n, place)
            here().assume(-size.dim + n, place)
    return x


def load(text: str | bytes, *, name: str = "<stablehlo>", function: str | None = None) -> Imported:
    """
    The function of a StableHLO module, in either form of its text: `main`, or the one called
    `function`. Its ops compile, differentiate and batch like NumPy's.

    Raises StableHloError, which names the line, for what is no such text, and NotSupportedError,
    which lists every op that is not supported, with its line. `name` stands for the file there.
    """
    if isinstance(text, bytes):
        if text[:4] == b"ML\xefR":
            raise NotSupportedError(
                f"{name} is bytecode; print it as text first: stablehlo-translate --deserialize, or"
                " jax.jit(f).lower(x).as_text()"
            )
        text = text.decode()
    module = read(text, name)
    chosen = module.functions.get(function) if function is not None else module.entry()
    if chosen is None:
        known = ", ".join(module.functions)
        raise KeyError(f"{name} has no function {function!r}; expected one of {known}")
    missing = [op for f in module.functions.values() for op in _ops(f.region) if not is_known(op)]
    if missing:
        raise NotSupportedError(f"{name}: {unsupported(missing)}")
    return Imported(module, chosen)


def _ops(region: Region) -> Iterator[Op]:
    for op in region.ops:
        yield op
        for inner in op.regions:
            yield from _ops(inner)
