"""Random programs: each step picks values made so far and an op that takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np
from xdsl.ir import Region, SSAValue

from mlc.dialects.dims import Dim, tensor_type
from mlc.dialects.dtypes import BOOL, F32, F64, I32, I64, DType
from mlc.dialects.tensor.control import ForOp, YieldOp, loop_region
from mlc.dialects.tensor.create import ConstantOp, SizeOp, dense
from mlc.dialects.tensor.op import OpBuilder
from mlc.dialects.tensor.shape import BroadcastOp
from tests.differential.values import Axes, Known, Traced
from tests.every_op.native import Argument, Array

T = TypeVar("T")

SYMBOLS = ("B", "N")
SIZES = (0, 1, 2, 3, 5, 17, 40)


class Chooser(Protocol):
    """Where decisions come from: hypothesis."""

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""
        ...

    def number(self, low: int, high: int) -> int:
        """An integer in [low, high]."""
        ...


@dataclass
class Program:
    """A program under construction; its ops go to `b`, which several programs may share."""

    b: OpBuilder
    choose: Chooser
    axes: Axes
    values: list[Traced] = field(default_factory=list[Traced])
    depth: int = 0

    def emit(self, op: type, *operands: SSAValue, **properties: object) -> SSAValue:
        """A new op's result."""
        return self.b(op, *operands, **properties)  # pyright: ignore[reportArgumentType]

    def add(self, value: SSAValue, dtype: DType, word: str, known: Known) -> Traced:
        """Remembers a value; integers and bools are always certain."""
        if dtype.kind != "float":
            known = Known(known.bound, whole=True)
        traced = Traced(value, dtype, word, known)
        self.values.append(traced)
        return traced

    def any(self, wanted: Callable[[Traced], bool] = lambda _: True) -> Traced | None:
        """A value with a property, the latest ones more often; None where there is none."""
        found = [x for x in self.values if wanted(x)]
        if not found:
            return None
        if self.choose.number(0, 2):
            found = found[-3:]
        return self.choose.pick(found)

    def scalar(self, value: float, dtype: DType, word: str) -> SSAValue:
        """A number in every element."""
        number = self.emit(ConstantOp, value=dense(np.asarray(value), dtype))
        return self.spread(number, dtype, "", word)

    def spread(self, value: SSAValue, dtype: DType, source: str, word: str) -> SSAValue:
        """A value repeated along the letters it lacks; `source` is in the order of `word`."""
        if source == word:
            return value
        declared = tensor_type(dtype.ir, self.axes.shape(word))
        return self.b(BroadcastOp, value, letters=f"{source}->{word}", declared=declared)


@dataclass(frozen=True)
class Input:
    """An argument of a program and what its elements are drawn from."""

    argument: Argument
    known: Known
    values: Array

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """An array for the argument."""
        return rng.choice(self.values, shape)


WHOLE = np.arange(-3, 4)
WILD = np.array([0.0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan, 1e30, -1e-30, 3.0])
FRACTIONS = np.linspace(-2, 2, 23)


def inputs(choose: Chooser, axes: Axes) -> list[tuple[Input, str]]:
    """One to four arguments, with their letters."""
    found: list[tuple[Input, str]] = []
    letters = list(axes.dims)
    for _ in range(choose.number(1, 4)):
        dtype = choose.pick((F32, F32, F32, F64, F64, F64, I32, I64, I64, BOOL))
        rank = choose.pick((0, 1, 1, 2, 2, 2, 3))
        word = "".join(choose.pick(_orders(letters))[:rank])
        strided = rank > 0 and choose.number(0, 5) == 0
        known, values = _drawn(choose, dtype)
        argument = Argument(dtype, axes.shape(word), strided)
        found.append((Input(argument, known, values.astype(dtype.numpy)), word))
    return found


def _orders(letters: Sequence[str]) -> list[list[str]]:
    """The letters from each start, forwards and backwards."""
    turned = [list(letters[k:]) + list(letters[:k]) for k in range(len(letters))]
    return turned + [order[::-1] for order in turned]


def _drawn(choose: Chooser, dtype: DType) -> tuple[Known, Array]:
    if dtype is BOOL:
        return Known(1, whole=True), np.array([False, True])
    if dtype.kind == "int":
        return Known(3, whole=True), WHOLE
    kind = choose.pick(("whole", "whole", "fractions", "wild"))
    if kind == "whole":
        return Known(3, whole=True), WHOLE
    return (Known(2), FRACTIONS) if kind == "fractions" else (Known(), WILD)


def random_axes(choose: Chooser, sizes: dict[str, int]) -> Axes:
    """Two to four letters with constant or symbolic dims."""
    dims: dict[str, Dim] = {}
    for letter in "abcd"[: choose.number(2, 4)]:
        symbolic = choose.number(0, 2) == 0
        name = choose.pick(SYMBOLS) if symbolic else None
        dims[letter] = Dim.symbol(name) if name else Dim.const(choose.pick(SIZES))
    return Axes(dims, sizes)


def random_loop(program: Program, steps: Callable[[Program, int], None]) -> None:
    """`for` over one or two carried values; the body may use everything made before."""
    choose = program.choose
    if program.depth:
        return
    chosen = [program.any(lambda x: x.known.certain) for _ in range(choose.number(1, 2))]
    carried = [x for x in chosen if x is not None]
    if not carried:
        return
    count, trips = _count(program)
    block = loop_region([x.value.type for x in carried]).detach_block(0)
    outer, program.values = program.values, list(program.values)
    before, program.b = program.b, OpBuilder(block.add_op)
    program.depth += 1
    # of a value that changes from trip to trip nothing is known but that its bits are certain
    inner = [
        program.add(argument, x.dtype, x.word, Known(signed=x.known.signed))
        for argument, x in zip(block.args[1:], carried, strict=True)
    ]
    program.add(block.args[0], I64, "", Known(float(max(trips, 1)), whole=True))
    start = len(program.values)
    steps(program, choose.number(1, 4))
    yielded = [_following(x, [*program.values[start:], *inner], choose) for x in inner]
    block.add_op(YieldOp.create(operands=[y.value for y in yielded]))
    program.depth -= 1
    program.b, program.values = before, outer
    op = ForOp(count, [x.value for x in carried], Region(block))
    program.b.insert(op)
    for x, out in zip(carried, op.outs, strict=True):
        program.add(out, x.dtype, x.word, Known(signed=x.known.signed))


def _following(x: Traced, made: Sequence[Traced], choose: Chooser) -> Traced:
    """A value of the carried one's type of which no less is known."""
    fitting = [
        y
        for y in made
        if y.value.type == x.value.type
        and y.known.certain
        and (y.known.signed or not x.known.signed)
    ]
    return choose.pick(fitting) if fitting else x


def _count(program: Program) -> tuple[SSAValue, int]:
    """A trip count: a number, or a symbolic size."""
    if program.choose.number(0, 3) == 0:
        name = program.choose.pick(SYMBOLS)
        return program.emit(SizeOp, dims=(Dim.symbol(name),)), program.axes.sizes[name]
    trips = program.choose.pick((0, 1, 2, 3))
    return program.emit(ConstantOp, value=dense(np.asarray(trips), I64)), trips
