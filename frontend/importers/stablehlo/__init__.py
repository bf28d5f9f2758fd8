"""`mlc.stablehlo.load`: StableHLO text as a function that compiles, differentiates and batches."""

from __future__ import annotations

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
from mlc.frontend.importers.bounds import check_calls
from mlc.frontend.importers.signed import signed
from mlc.frontend.importers.stablehlo.program import (
    Function,
    Kind,
    Module,
    TensorKind,
)
from mlc.frontend.importers.stablehlo.reader import read
from mlc.frontend.importers.stablehlo.rng import Generator, drawing
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
    functions in what is traced. `draws`: whether it draws random numbers, of a key that is its last
    argument in `compiled` and `lower`.
    """

    def __init__(self, module: Module, function: Function, seed: int) -> None:
        self._module, self._function = module, function
        self.__name__ = function.name
        self._shapes = argument_shapes(module, function)
        self.draws = function.name in drawing(module)
        self._generator = Generator(self.__name__, seed)
        self._compiled = self.compiled()

    def __call__(self, *arguments: Any, key: Any = None) -> Any:
        """
        The result, or a tuple of several. `key`: of `mlc.random`, where the function draws numbers;
        without one each call has the next key of those that the seed gives.
        """
        given = self._given(arguments)
        if key is not None:
            self._check_key(key)
        if current() is None:
            drawn = [self._generator.next() if key is None else key] * self.draws
            return self._compiled(*given, *drawn)
        if self.draws:
            given.append(self._generator.traced(self.__name__) if key is None else key)
        if not all(isinstance(x, TensorKind) for x in self._function.inputs):
            return self._traced(*given)
        return called(self.__name__, self._traced, *(lift(x, self.__name__) for x in given))

    def seed(self, seed: int) -> None:
        """From the next call on the numbers of this seed, from the first ones on."""
        self._generator.begin(seed)

    def _check_key(self, key: Any) -> None:
        """TypeError or DTypeError where a key is none, or is for a function that takes none."""
        if not self.draws:
            raise TypeError(f"{self.__name__} draws no numbers, and takes no key")
        if getattr(key, "dtype", None) != np.uint64 or key.ndim:
            found = f"{key.dtype}{list(key.shape)}" if hasattr(key, "dtype") else repr(key)
            message = f"{self.__name__}: key is {found}; expected one of mlc.random"
            raise DTypeError(f"{message}: key=mlc.random.key(seed)")

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

        key = [self._generator.next()] * self.draws
        found = compile_function(compared)(*arguments, *key)
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
        names += ["key"] * self.draws
        return compile_function(signed(self._traced, name, names, self._specs()), **options)

    def lower(self, *arguments: Any) -> Lowered:
        """The program for these arguments; without any, for those that the text says."""
        return self._compiled.lower(*(arguments or self._specs()))

    def _specs(self) -> list[Any]:
        """The types of the arguments; of one that is no array nothing is known."""
        own: list[Any] = [
            TensorSpec(*shape, dtype=numpy_of(kind))
            if isinstance(kind, TensorKind)
            else Parameter.empty
            for shape, kind in zip(self._shapes, self._function.inputs, strict=True)
        ]
        return own + [TensorSpec(dtype=np.uint64)] * self.draws

    def _run(self, arguments: tuple[Any, ...]) -> tuple[tuple[Any, ...], Run]:
        """The results for arguments, behind which the key is where it draws."""
        count = len(arguments) - self.draws
        run = Run(self._module, *arguments[count:])
        given = [lift(x, self.__name__) for x in self._given(arguments[:count])]
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


def load(
    text: str | bytes, *, name: str = "<stablehlo>", function: str | None = None, seed: int = 0
) -> Imported:
    """
    The function of a StableHLO module, in either form of its text: `main`, or the one called
    `function`. Its ops compile, differentiate and batch like NumPy's.

    Raises StableHloError, which names the line, for what is no such text, and NotSupportedError,
    which lists every op that is not supported, with its line. `name` stands for the file there.
    `seed` is that of the numbers that `rng` draws, the next ones at each call.
    """
    if isinstance(text, bytes):
        if text[:4] == b"ML\xefR":
            raise NotSupportedError(
                f"{name} is bytecode; print it as text first: stablehlo-translate --deserialize, or"
                " jax.jit(f).lower(x).as_text()"
            )
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            line = 1 + text.count(b"\n", 0, error.start)
            raise StableHloError(f"{name}:{line}: {error}; expected text in UTF-8") from None
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        kind = type(text).__name__
        raise TypeError(f"load takes the text of a module, found {kind}: Path(…).read_text()")
    module = read(text, name)
    known = ", ".join(module.functions) or "none"
    if function is not None and function not in module.functions:
        raise KeyError(f"{name} has no function {function!r}; expected one of {known}")
    chosen = module.functions[function] if function is not None else module.entry()
    if chosen is None:
        raise StableHloError(
            f"{name} has no function main, and not one that is public; name one of {known} with"
            " function="
        )
    _check_calls(module, name)
    missing = [
        op
        for f in module.functions.values()
        for op in f.region.all_ops()
        if not is_known(op, module)
    ]
    if missing:
        raise NotSupportedError(f"{name}: {unsupported(missing)}")
    return Imported(module, chosen, seed)


def _check_calls(module: Module, name: str) -> None:
    """StableHloError where functions call themselves, or too many."""
    calls: dict[str, tuple[int, list[str]]] = {}
    for function in module.functions.values():
        ops = list(function.region.all_ops())
        calls[function.name] = len(ops), [name for op in ops for name in op.called()]
    try:
        check_calls(calls)
    except ValueError as error:
        raise StableHloError(f"{name}: function {error}") from None
