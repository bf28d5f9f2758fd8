"""
Sizes as searches see them: of a symbol the typical one that the module states, else one assumed; of
a number that the program computes half of what it is at most, which is what trips' numbers are on
average: so the sizes of a triangle's rows are not taken for those of a square, nor for none.

A plan for 4096 examples is no good plan for two. `mlc.typical = {B = 2 : i64}` on a module says
what a symbol mostly is; it decides how fast a program is for which sizes, and never what it
computes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation

from mlc.dialects.dims import Dim, Shape, product
from mlc.dialects.errors import MlcError
from mlc.dialects.plan import KernelOp
from mlc.dialects.program import entry_function, symbols_of
from mlc.dialects.tensor.bind import BindOp, with_limits
from mlc.dialects.tensor.op import bytes_of
from mlc.dialects.typical import typical_of

P = ParamSpec("P")
R = TypeVar("R")

ASSUMED = 4096
"""Of a size that only the call knows, and of which nobody says what it mostly is."""

_Named = tuple[tuple[str, int], ...]
_typical: ContextVar[_Named] = ContextVar("mlc_typical", default=())


@contextmanager
def sizes_of(module: ModuleOp) -> Generator[None]:
    """While passes look at a module: its typical sizes, for what they make of parts of it, too."""
    token = _typical.set(tuple(sorted(_means(module).items())))
    try:
        yield
    finally:
        _typical.reset(token)


def _means(module: ModuleOp) -> dict[str, int]:
    """Typical sizes, and means of the numbers that blocks bind."""
    found = typical_of(module)
    for op in _binds_in(module):
        limit = op.highest
        known = {name: found.get(name, ASSUMED) for name in limit.symbols()}
        found[op.symbol.data] = max(limit.evaluate(known), 0) // 2
    return found


def _binds_in(op: Operation) -> Iterator[BindOp]:
    """The ops that bind symbols, outside of kernels."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                if inner.regions:
                    if not isinstance(inner, KernelOp):
                        yield from _binds_in(inner)
                elif isinstance(inner, BindOp):
                    yield inner


def stated() -> tuple[tuple[str, int], ...]:
    """The typical sizes, as part of keys of what is kept."""
    return _typical.get()


def assumed(names: Iterable[str]) -> dict[str, int]:
    """What is taken for each symbol."""
    known = _as_mapping(_typical.get())
    return {name: known.get(name, ASSUMED) for name in names}


def typical(dim: Dim) -> int | None:
    """The dim's value for typical sizes; None where one of its symbols has none."""
    known = _as_mapping(_typical.get())
    return dim.evaluate(known) if dim.symbols() <= known.keys() else None


def sizes_in_call(module: ModuleOp, given: Mapping[str, int]) -> dict[str, int]:
    """
    The value of every symbol of a program: as given, else what the module says it mostly is; of
    sizes that the program binds the largest. MlcError where a symbol has neither.
    """
    found = {**typical_of(module), **given}
    symbols = symbols_of(entry_function(module))
    if missing := [name for name in symbols if name not in found]:
        known = ", ".join(f"{name} = {size}" for name, size in found.items()) or "none"
        raise MlcError(
            f"what this plan takes depends on sizes that only a call knows: no value for "
            f"{', '.join(missing)}; found: {known}. Give each a value, or state what it mostly is: "
            f"mlc.typical = {{{missing[0]} = 1024 : i64}} on the module"
        )
    return with_limits(module, found)


def by_sizes(function: Callable[P, R]) -> Callable[P, R]:
    """Remembers what a function of types gives, for each set of typical sizes."""

    @lru_cache(maxsize=4096)
    def kept(_: _Named, *args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    @wraps(function)
    def asked(*args: P.args, **kwargs: P.kwargs) -> R:
        return kept(_typical.get(), *args, **kwargs)

    return asked


@by_sizes
def elements_of(shape: Shape) -> int:
    """How many elements, by the sizes that are taken."""
    return estimate(product(shape))


@by_sizes
def stored_bytes(kind: Attribute) -> int:
    """Bytes of a tensor, by the sizes that are taken."""
    return estimate(bytes_of(kind))


def estimate(dim: Dim) -> int:
    """The dim's value, with every symbol at the size that is taken for it."""
    value = dim.constant
    return dim.evaluate(assumed(dim.symbols())) if value is None else value


@lru_cache(maxsize=256)
def _as_mapping(pairs: _Named) -> Mapping[str, int]:
    return dict(pairs)
