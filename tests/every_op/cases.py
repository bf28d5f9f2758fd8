"""One case: an op with its attributes, its arguments, and the tolerance of its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, Shape
from mlc.dialects.dtypes import DType
from mlc.dialects.tensor.op import OpBuilder, TensorOp
from tests.every_op.native import Argument, Array, evaluate
from tests.every_op.shapes import LAYOUTS, Sizes
from tests.every_op.values import Exact, Fill, Tolerance, ordinary

Build = Callable[[OpBuilder, Sequence[SSAValue]], SSAValue]
EXACT = Exact()


def always(sizes: Sizes) -> bool:
    """The op has a result for any sizes."""
    return True


@dataclass(frozen=True)
class Operand:
    """An argument of the op; `indexes`: it holds positions on an axis of that size."""

    dtype: DType
    dims: Shape
    fill: Fill = ordinary
    indexes: Dim | None = None


@dataclass(frozen=True)
class Case:
    """
    `build` makes the op (last) from its operands; `label` says which attributes it has; `defined`
    is false for sizes at which NumPy raises.
    """

    op: type[TensorOp]
    label: str
    operands: tuple[Operand, ...]
    build: Build
    tolerance: Tolerance = EXACT
    defined: Callable[[Sizes], bool] = always

    def __str__(self) -> str:
        dtypes = " ".join(dict.fromkeys(x.dtype.name for x in self.operands))
        return f"{self.op.name} {self.label} {dtypes}".replace("  ", " ")

    def arguments(self, strided: bool) -> list[Argument]:
        """The function's arguments for this case."""
        return [Argument(x.dtype, x.dims, strided and len(x.dims) > 0) for x in self.operands]

    def draw(self, rng: np.random.Generator, sizes: Sizes, layout: str) -> list[Array]:
        """Arrays for the arguments."""
        arrays = [np.asarray(_draw(x, rng, sizes)) for x in self.operands]
        return [LAYOUTS[layout](x) if x.ndim else x for x in arrays]


def _draw(x: Operand, rng: np.random.Generator, sizes: Sizes) -> Array:
    shape = evaluate(x.dims, sizes)
    if x.indexes is None:
        return x.fill(rng, x.dtype, shape)
    extent = max(x.indexes.evaluate(sizes), 1)
    return rng.integers(-extent, extent, shape).astype(x.dtype.numpy)
