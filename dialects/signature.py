"""
What a compiled function takes and returns: the entry's signature, and how its symbols are solved.

`solve` is the one place that decides where each symbol is read from and which sizes are then
checked; the native shim and the slow Python entry both follow it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from mlc.cached_property import cached_property
from mlc.dialects.sizes import Dim
from mlc.lazy_dataclass import dataclass

ArgKind = Literal["array", "float", "int", "bool"]
Layout = Literal["c", "general"]
Size = int | str | Dim


@dataclass(frozen=True)
class ArgSpec:
    """One argument of the entry.

    `kind`: "array", or the type of a weak Python scalar, which is passed as a 0-d value of `dtype`.
    `layout`: "c" takes C-contiguous arrays; "general" takes any whole-element strides and adds one
    stride per axis (in elements) to the entry's sizes.
    `donated`: the function may overwrite the array; a result names it with `alias_of`.
    """

    kind: ArgKind
    dtype: str
    dims: tuple[Size, ...] = ()
    layout: Layout = "c"
    donated: bool = False

    @cached_property
    def shape(self) -> tuple[Dim, ...]:
        """The sizes as polynomials."""
        return tuple(Dim.of(size) for size in self.dims)


@dataclass(frozen=True)
class ResultSpec:
    """One result: a new C-contiguous array, or the donated argument number `alias_of` itself."""

    dtype: str
    dims: tuple[Size, ...] = ()
    alias_of: int | None = None

    @cached_property
    def shape(self) -> tuple[Dim, ...]:
        """The sizes as polynomials."""
        return tuple(Dim.of(size) for size in self.dims)


@dataclass(frozen=True)
class EntrySignature:
    """Arguments, results and symbols of one entry.

    `returns_tuple`: None means that one result is returned itself and several as a tuple.
    `assumed`: what is 0 or more, or else the entry does not take the arguments.
    """

    args: tuple[ArgSpec, ...]
    results: tuple[ResultSpec, ...]
    symbols: tuple[str, ...] = ()
    returns_tuple: bool | None = None
    assumed: tuple[Dim, ...] = ()

    @property
    def as_tuple(self) -> bool:
        """Whether a call returns a tuple."""
        return len(self.results) != 1 if self.returns_tuple is None else self.returns_tuple

    @cached_property
    def strided(self) -> tuple[tuple[int, int], ...]:
        """(argument, axis) of every stride among the sizes, in order."""
        return tuple(
            (position, axis)
            for position, arg in enumerate(self.args)
            if arg.kind == "array" and arg.layout == "general"
            for axis in range(len(arg.dims))
        )

    @property
    def size_count(self) -> int:
        """Length of the `sizes` array: symbols in order, then strides of strided arguments."""
        return len(self.symbols) + len(self.strided)


@dataclass(frozen=True)
class BindSymbol:
    """symbol = (dims[axis] of arg - offset) / scale, exact and not negative."""

    arg: int
    axis: int
    symbol: str
    scale: int
    offset: Dim


@dataclass(frozen=True)
class CheckSize:
    """dims[axis] of arg must equal `expected`, whose symbols are bound by then."""

    arg: int
    axis: int
    expected: Dim


@dataclass(frozen=True)
class CheckAssumed:
    """`dim`, whose symbols are bound by then, must be 0 or more."""

    dim: Dim


SolveStep = BindSymbol | CheckSize | CheckAssumed


def solve(signature: EntrySignature) -> tuple[SolveStep, ...]:
    """
    The steps, in order, that bind each symbol at its first solvable occurrence and check every
    other size, and then what is assumed of them.

    A size is solvable when exactly one of its symbols is still unbound and occurs linearly with a
    constant factor, as in B, 4*B or B + C with C known.
    """
    pending = [
        (position, axis, dim)
        for position, arg in enumerate(signature.args)
        for axis, dim in enumerate(arg.shape)
    ]
    pending.sort(key=lambda size: size[2].single_symbol is None)  # plain symbols bind first
    bound: set[str] = set()
    steps: list[SolveStep] = []
    progress = True
    while pending and progress:
        progress = False
        later: list[tuple[int, int, Dim]] = []
        for position, axis, dim in pending:
            step = _step(position, axis, dim, bound)
            if step is None:
                later.append((position, axis, dim))
                continue
            progress = True
            steps.append(step)
            if isinstance(step, BindSymbol):
                bound.add(step.symbol)
        pending = later
    unsolved = sorted(set(signature.symbols) - bound)
    if pending or unsolved:
        raise ValueError(
            f"symbols {', '.join(unsolved) or '?'} cannot be computed from the arguments' sizes "
            f"({_sizes(dim for _, _, dim in pending)}); expected each symbol as the size of an "
            "axis, or in one that is linear in it; name that axis with dynamic="
        )
    return (*steps, *(CheckAssumed(x) for x in signature.assumed if x.symbols() <= bound))


def _step(position: int, axis: int, dim: Dim, bound: set[str]) -> SolveStep | None:
    free = dim.symbols() - bound
    if not free:
        return CheckSize(position, axis, dim)
    if len(free) > 1:
        return None
    (symbol,) = free
    scale = 0
    for monomial, coefficient in dim.terms:
        if monomial == (symbol,):
            scale = coefficient
    offset = Dim(tuple(term for term in dim.terms if term[0] != (symbol,)))
    if scale == 0 or symbol in offset.symbols():
        return None
    return BindSymbol(position, axis, symbol, scale, offset)


def _sizes(dims: Iterable[Dim]) -> str:
    return ", ".join(str(dim) for dim in dims) or "no size mentions them"


def wanted(signature: EntrySignature, count: int | None = None) -> str:
    """What it takes, in words; `count`: of the arguments, the first ones."""
    args = ", ".join(
        f"{arg.dtype}[{', '.join(map(str, arg.dims))}]" if arg.kind == "array" else arg.kind
        for arg in signature.args[:count]
    )
    assumed = ", ".join(f"{dim} >= 0" for dim in signature.assumed)
    return f"({args}){f' where {assumed}' if assumed else ''}"


def solved(steps: Sequence[SolveStep], shapes: Sequence[Sequence[int]]) -> dict[str, int] | None:
    """The symbols' values for arguments of these shapes; None where a step does not hold."""
    symbols: dict[str, int] = {}
    for step in steps:
        if isinstance(step, CheckAssumed):
            if step.dim.evaluate(symbols) < 0:
                return None
            continue
        size = shapes[step.arg][step.axis]
        if isinstance(step, BindSymbol):
            value, rest = divmod(size - step.offset.evaluate(symbols), step.scale)
            if rest or value < 0:
                return None
            symbols[step.symbol] = value
        elif size != step.expected.evaluate(symbols):
            return None
    return symbols
