"""`mlc.stablehlo.load`: StableHLO text as a function that compiles, differentiates and batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlc.frontend.call.compile import compile as compile_function
from mlc.frontend.call.stats import Stats
from mlc.frontend.errors import NotSupportedError
from mlc.frontend.importers.stablehlo.program import Function, Module, Op, Region
from mlc.frontend.importers.stablehlo.reader import read
from mlc.frontend.importers.stablehlo.run import KNOWN, Run, unsupported
from mlc.frontend.importers.stablehlo.sizes import argument_shapes
from mlc.frontend.importers.stablehlo.text import StableHloError
from mlc.frontend.numpy.values import lift
from mlc.frontend.trace.trace import current

__all__ = ["Imported", "StableHloError", "load"]


class Imported:
    """A function of a StableHLO module: compiled where it is called, traced in what is traced."""

    def __init__(self, module: Module, function: Function) -> None:
        self._module, self._function = module, function
        self.__name__ = function.name
        self._compiled = compile_function(self._traced, dynamic=_open_sizes(module, function))

    def __call__(self, *arguments: Any) -> Any:
        """The result, or a tuple of several."""
        return self._compiled(*arguments) if current() is None else self._traced(*arguments)

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

    def _run(self, arguments: tuple[Any, ...]) -> tuple[tuple[Any, ...], Run]:
        wanted = self._function.inputs
        if len(arguments) != len(wanted):
            raise TypeError(f"{self.__name__} takes {len(wanted)} arrays, found {len(arguments)}")
        run = Run(self._module)
        return run.function(self._function, [lift(x, self.__name__) for x in arguments]), run

    def __repr__(self) -> str:
        return f"<stablehlo function {self.__name__}>"


def _open_sizes(module: Module, function: Function) -> dict[str, dict[int, str]] | bool:
    """The sizes that types leave open, as `mlc.compile` is told of them."""
    found = {
        f"arguments[{k}]": {axis: str(d) for axis, d in enumerate(shape) if d.constant is None}
        for k, shape in enumerate(argument_shapes(module, function))
    }
    return {name: axes for name, axes in found.items() if axes} or False


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
    missing = [
        op for f in module.functions.values() for op in _ops(f.region) if op.name not in KNOWN
    ]
    if missing:
        raise NotSupportedError(f"{name}: {unsupported(missing)}")
    return Imported(module, chosen)


def _ops(region: Region) -> Iterator[Op]:
    for op in region.ops:
        yield op
        for inner in op.regions:
            yield from _ops(inner)
