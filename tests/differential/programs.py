"""Random programs: each step picks values made so far and an op that takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np
from xdsl.ir import Block, SSAValue

from mlc.dialects.dims import Dim, Shape, tensor_type
from mlc.dialects.dtypes import (
    BF16,
    BOOL,
    C64,
    C128,
    DTYPES,
    F16,
    F32,
    F64,
    I32,
    I64,
    DType,
)
from mlc.dialects.tensor.create import ConstantOp, dense
from mlc.dialects.tensor.op import OpBuilder
from mlc.dialects.tensor.shape import BroadcastOp
from tests.differential.values import Axes, Known, Traced
from tests.every_op.native import Argument, Array

T = TypeVar("T")

SYMBOLS = ("B", "N")
SIZES = (0, 1, 2, 3, 5, 17, 40)
MOST_ELEMENTS = 4000
MOST_AXES = 4


class Chooser(Protocol):
    """Where decisions come from: hypothesis."""

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""
        ...

    def number(self, low: int, high: int) -> int:
        """An integer in [low, high]."""
        ...


@dataclass(frozen=True)
class Input:
    """An argument of a program and what its elements are drawn from."""

    argument: Argument
    values: Array
    dominant: bool = False  # matrices with a large diagonal

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """An array for the argument."""
        found = rng.choice(self.values, shape)
        if self.dominant:
            diagonal = range(shape[-1])
            found[..., diagonal, diagonal] += np.asarray(8, found.dtype)
        return found


@dataclass
class Program:
    """
    A program under construction. Its ops go to `b`, its arguments to `block`; several programs may
    share both. `inside`: the carried values of the innermost region, as they are by now.
    """

    b: OpBuilder
    block: Block
    choose: Chooser
    axes: Axes
    inputs: list[Input]
    values: list[Traced] = field(default_factory=list[Traced])
    depth: int = 0
    inside: list[Traced] = field(default_factory=list[Traced])

    def emit(self, op: type, *operands: SSAValue, **properties: object) -> SSAValue:
        """A new op's result."""
        return self.b(op, *operands, **properties)  # pyright: ignore[reportArgumentType]

    def add(self, value: SSAValue, dtype: DType, word: str, known: Known) -> Traced:
        """Remembers a value."""
        traced = Traced(value, dtype, word, known)
        self.values.append(traced)
        return traced

    def input(
        self,
        dtype: DType,
        dims: Shape,
        values: Array,
        *,
        strided: bool = False,
        dominant: bool = False,
    ) -> SSAValue:
        """One argument more."""
        argument = Argument(dtype, dims, strided)
        value = self.block.insert_arg(tensor_type(dtype.ir, dims), len(self.inputs))
        self.inputs.append(Input(argument, values.astype(dtype.numpy), dominant))
        return value

    def any(self, wanted: Callable[[Traced], bool] = lambda _: True) -> Traced | None:
        """A value with a property, the latest ones more often; None where there is none."""
        found = [x for x in self.values if wanted(x)]
        if not found:
            return None
        if self.choose.number(0, 2):
            found = found[-4:]
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

    def fits(self, word: str) -> bool:
        """Whether a value of these axes is small enough."""
        return len(word) <= MOST_AXES and self.axes.most(word) <= MOST_ELEMENTS

    def renamed(self, word: str, at: int, dim: Dim) -> str:
        """The word with another dim at one axis."""
        return word[:at] + self.axes.new(dim, word) + word[at + 1 :]


WHOLE = np.arange(-3, 4)
WILD = np.array([0.0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan, 1e30, -1e-30, 3.0])
FRACTIONS = np.linspace(-2, 2, 23)
COMMON = (F32, F32, F64, F64, I64, I32, BOOL, F16, BF16, C64, C128)


def random_inputs(program: Program) -> None:
    """One to four arguments."""
    choose = program.choose
    letters = list(program.axes.dims)
    for _ in range(choose.number(1, 4)):
        dtype = choose.pick(COMMON if choose.number(0, 2) else DTYPES)
        rank = choose.pick((0, 1, 1, 2, 2, 2, 3))
        word = "".join(choose.pick(_orders(letters))[:rank])
        while not program.fits(word):
            word = word[1:]
        strided = bool(word) and choose.number(0, 5) == 0
        known, values = drawn(choose, dtype)
        dims = program.axes.shape(word)
        program.add(program.input(dtype, dims, values, strided=strided), dtype, word, known)


def _orders(letters: Sequence[str]) -> list[list[str]]:
    """The letters from each start, forwards and backwards."""
    turned = [list(letters[k:]) + list(letters[:k]) for k in range(len(letters))]
    return turned + [order[::-1] for order in turned]


def drawn(choose: Chooser, dtype: DType) -> tuple[Known, Array]:
    """What an argument's elements are drawn from."""
    if dtype.kind == "bool":
        return Known(1, whole=True), np.array([False, True])
    if dtype.kind == "uint":
        return Known(6, whole=True), WHOLE + 3
    if dtype.kind == "int":
        return Known(3, whole=True), WHOLE
    kind = choose.pick(("whole", "fractions", "fractions", "wild"))
    if dtype.kind == "complex":
        parts = FRACTIONS if kind == "fractions" else WHOLE
        return Known(5, whole=kind != "fractions"), (parts[:, None] + 1j * parts).ravel()
    if kind == "wild":
        with np.errstate(over="ignore"):
            return Known(), WILD.astype(dtype.numpy)
    return (Known(3, whole=True), WHOLE) if kind == "whole" else (Known(2), FRACTIONS)


def random_sizes(choose: Chooser) -> Mapping[str, int]:
    """Values of the symbols for one run."""
    return {name: choose.pick(SIZES) for name in SYMBOLS}


def random_axes(choose: Chooser, runs: Sequence[Mapping[str, int]]) -> Axes:
    """Two to four letters with constant or symbolic dims."""
    dims: dict[str, Dim] = {}
    for letter in "abcd"[: choose.number(2, 4)]:
        symbolic = choose.number(0, 2) == 0
        name = choose.pick(SYMBOLS) if symbolic else None
        dims[letter] = Dim.symbol(name) if name else Dim.const(choose.pick(SIZES))
    return Axes(dims, runs)
