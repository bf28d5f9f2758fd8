"""
Sums of products, and reductions, over windows: an axis read at a sum of two positions.

``"nc(2y+i)(2x+j),fcij->nfyx"`` reads the first operand at ``[n, c, 2*y + i, 2*x + j]``: stride 2, a
window of i by j. Every layout, stride and dilation of a convolution is a choice of letters; padding
is `mlc.pad` before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, prop_def, result_def

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import Dim, DimsAttr, Shape, shape_of, tensor_type
from mlc.dialects.dtypes import DType, dtype_of
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.element import ElementBuilder, Ix, Point
from mlc.dialects.tensor.letters import fresh
from mlc.dialects.tensor.monoid import MONOIDS, Monoid
from mlc.dialects.tensor.op import (
    Array,
    OpBuilder,
    Tensor,
    element_dtype,
    one_of_property,
    same_array,
    tensor_of,
    text_property,
)
from mlc.dialects.tensor.reduce import PRODUCT, Product, Reduction, remedy_for
from mlc.dialects.tensor.shape import BroadcastOp, JoinOp
from mlc.dialects.tensor.window_cotangent import flip, spread_cotangent
from mlc.dialects.tensor.window_letters import (
    Axis,
    bind_windows,
    check_reach,
    flat_word,
    spell_axes,
    split_windows,
)

ZERO = Dim.const(0)
ONE = Dim.const(1)


def static(dims: Shape) -> tuple[int, ...]:
    """Sizes without symbols."""
    if any(d.constant is None for d in dims):
        raise NotImplementedError("windows need concrete shapes: call reference_at")
    return tuple(d.evaluate({}) for d in dims)


def windows_of(x: Array, axes: Sequence[Axis], sizes: Mapping[str, int]) -> Array:
    """A view with one axis per letter."""
    pairs = list(zip(axes, x.strides, strict=True))
    strides = [scale * stride for axis, stride in pairs for scale, _ in axis]
    shape = [sizes[c] for axis in axes for _, c in axis]
    if 0 in shape:
        return np.empty(shape, x.dtype)
    return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)


class Windowed(Reduction):
    """The family: operands are read at sums of positions, and the result's shape is declared."""

    @property
    def axes(self) -> tuple[tuple[Axis, ...], ...]:
        """What each operand's axes are read at."""
        return split_windows(text_property(self.properties, "letters"))[0]

    def words(self) -> tuple[tuple[str, ...], str, str]:
        axes, result = split_windows(text_property(self.properties, "letters"))
        words = tuple(map(flat_word, axes))
        found = dict.fromkeys("".join(words))
        return words, result, "".join(c for c in found if c not in result)

    def sizes(self) -> dict[str, Dim]:
        _, result, _ = self.words()
        return bind_windows(
            self.name, self.axes, result, [shape_of(x.type) for x in self.operands], self.shape
        )

    def operand_point(self, b: ElementBuilder, operand: int, at: Mapping[str, Ix]) -> Point:
        found: list[Ix] = []
        for axis in self.axes[operand]:
            terms = [at[c] if scale == 1 else b.affine(at[c], scale, ZERO) for scale, c in axis]
            found.append(terms[0] if len(terms) == 1 else b.plus(*terms))
        return tuple(found)

    def window_axes(self) -> tuple[int, ...]:
        _, result, reduced = self.words()
        summed = {c for axes in self.axes for axis in axes if len(axis) > 1 for _, c in axis}
        return tuple(len(result) + k for k, c in enumerate(reduced) if c in summed)

    def concrete(self, operands: Sequence[Array], shape: tuple[int, ...]) -> dict[str, int]:
        """The size of each letter, for a concrete result shape."""
        _, result, _ = self.words()
        sizes = dict(zip(result, shape, strict=True))
        for axes, x in zip(self.axes, operands, strict=True):
            plain = zip(axes, x.shape, strict=True)
            sizes |= {axis[0][1]: n for axis, n in plain if len(axis) == 1}
        return sizes


@irdl_op_definition
class ConvOp(Windowed, Product):
    """
    A convolution (a correlation, as in deep learning): out[n, f, y, x] = sum over c, i, j of
    lhs[n, c, s*y + d*i, t*x + e*j] * rhs[f, c, i, j], for any letters. Without padding.

    ```mlir
    %0 = mlc.conv "nc(2y+i)(2x+j),fcij->nfyx" %x, %w
         : tensor<8x3x9x9xf32>, tensor<4x3x3x3xf32> -> tensor<8x4x4x4xf32>
    ```
    """

    name = "mlc.conv"
    SOURCE: ClassVar[str] = "StableHLO specification, convolution"
    letters = prop_def(StringAttr)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = PRODUCT

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        assert declared is not None
        text = text_property(properties, "letters")
        axes, result = split_windows(text)
        if len(axes) != 2 or any(len(axis) > 1 for axis in axes[-1]):
            raise ShapeError(f"mlc.conv {text!r}: expected two operands, windows in the first only")
        cls.check_dtypes(operands, properties)
        shapes = [shape_of(x) for x in operands]
        words = [*map(flat_word, axes), result]
        if single := [c for c in "".join(words) if "".join(words).count(c) < 2]:
            raise ShapeError(f"mlc.conv {text!r}: '{single[0]}' occurs only once")
        for axis in axes[0]:
            if len(axis) > 1 and [c in result for _, c in axis].count(True) != 1:
                raise ShapeError(
                    f"mlc.conv {text!r}: of {spell_axes([axis])} one letter belongs to the result,"
                    " one to the second operand"
                )
        sizes = bind_windows(cls.name, axes, result, shapes, shape_of(declared))
        check_reach(cls.name, axes, shapes, sizes)
        return tensor_type(operands[0].element_type, shape_of(declared))

    def reference(self, *operands: Array) -> Array:
        return self.reference_at(operands, static(self.shape))

    def reference_at(self, operands: Sequence[Array], shape: tuple[int, ...]) -> Array:
        """The meaning for a concrete result shape."""
        lhs, rhs = operands
        return self.multiply((windows_of(lhs, self.axes[0], self.concrete(operands, shape)), rhs))

    def stored_operands(self) -> tuple[int, ...]:
        # each element is read many times; filters in several tensors are packed from each
        return (0,) if isinstance(self.rhs.owner, JoinOp) else (0, 1)

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        (left, right), (_, result, _) = self.axes, self.words()
        if operand == 1:
            return b(
                ConvOp,
                self.lhs,
                cotangent,
                letters=f"{spell_axes(left)},{result}->{spell_axes(right)}",
                declared=tensor_of(self.rhs),
                **self.rounding,
            )
        spread = spread_cotangent(b, self, cotangent, by_phases=True)
        weights, word = self.rhs, flat_word(right)
        for phase in spread.phases:
            weights, word = phase.split_window(b, weights, word)
        wanted = "".join(_kept(axis, result) for axis in left)
        found = b(
            ConvOp,
            spread.cotangent,
            flip(b, weights, [word.index(c) for c in spread.backwards]),
            letters=f"{spell_axes(spread.axes)},{word}->{spread.letters(wanted)}",
            declared=tensor_type(self.dtype.ir, spread.sizes(wanted, shape_of(self.lhs.type))),
            **self.rounding,
        )
        return spread.joined(b, found, wanted, shape_of(self.lhs.type))

    def batch(
        self, b: OpBuilder, operands: Sequence[SSAValue], batched: Sequence[bool]
    ) -> SSAValue:
        words, result, _ = self.words()
        new = fresh(["".join(words), result])
        marked = [
            f"{new}{spell_axes(a)}" if k else spell_axes(a)
            for a, k in zip(self.axes, batched, strict=True)
        ]
        count = shape_of(operands[list(batched).index(True)].type)[0]
        declared = tensor_type(self.dtype.ir, (count, *self.shape))
        letters = f"{','.join(marked)}->{new}{result}"
        return b(ConvOp, *operands, letters=letters, declared=declared, **self.rounding)


def _kept(axis: Axis, result: str) -> str:
    """The letter of an axis that belongs to the result; of a plain axis, its own."""
    return axis[0][1] if len(axis) == 1 else next(c for _, c in axis if c in result)


@irdl_op_definition
class WindowOp(Windowed):
    """
    Combines the elements of each window; `window` gives the size of each letter that only windows
    have, in their order.

    ```mlir
    %0 = mlc.window "max" "nc(2y+i)(2x+j)->ncyx" [<3, 3>] %x
         : tensor<8x3x9x9xf32> -> tensor<8x3x4x4xf32>
    ```
    """

    name = "mlc.window"
    SOURCE: ClassVar[str] = "StableHLO specification, reduce_window"
    monoid = prop_def(StringAttr)
    letters = prop_def(StringAttr)
    window = prop_def(DimsAttr)
    x = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = (
        "$monoid $letters `[` $window `]` $x attr-dict `:` type($x) `->` type($result)"
    )

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        assert declared is not None
        name = one_of_property(cls.name, properties, "monoid", MONOIDS)
        text = text_property(properties, "letters")
        window = properties["window"]
        assert isinstance(window, DimsAttr)
        monoid = MONOIDS[name]
        dtype = dtype_of(operands[0].element_type)
        if dtype.kind not in monoid.kinds:
            raise DTypeError(
                f"mlc.window {name!r} is not defined for {dtype.name}; expected"
                f" {' or '.join(monoid.kinds)}: {remedy_for(dtype)}"
            )
        (axes,), result = split_windows(text)
        word = flat_word(axes)
        if result != "".join(c for c in word if c in result):
            raise ShapeError(
                f"mlc.window {text!r}: result letters must be operand letters in their order"
            )
        reduced = [c for c in word if c not in result]
        if len(monoid.state(dtype)) > 1 and len(reduced) != 1:
            raise ShapeError(
                f"mlc.window {name!r} {text!r}: {len(reduced)} reduced letters, expected one"
            )
        sizes = bind_windows(cls.name, (axes,), result, [shape_of(operands[0])], shape_of(declared))
        unknown = [c for c in reduced if c not in sizes]
        if len(unknown) != len(window.data):
            raise ShapeError(
                f"mlc.window {text!r}: {len(window.data)} window sizes, expected {len(unknown)}"
            )
        sizes |= dict(zip(unknown, window.data, strict=True))
        if monoid.needs_element and any(sizes[c].constant == 0 for c in reduced):
            raise ShapeError(f"zero-size window of reduction {name}, which has no identity")
        check_reach(cls.name, (axes,), [shape_of(operands[0])], sizes)
        return tensor_type(monoid.result(dtype).ir, shape_of(declared))

    def sizes(self) -> dict[str, Dim]:
        sizes = super().sizes()
        _, _, reduced = self.words()
        unknown = [c for c in reduced if c not in sizes]
        return sizes | dict(zip(unknown, self.window.data, strict=True))

    def combiner(self) -> Monoid:
        return MONOIDS[self.monoid.data]

    def summand(self) -> DType:
        return self.combiner().accumulator(element_dtype(self.x))

    def element(self, b: ElementBuilder, at: Point) -> SSAValue:
        source = element_dtype(self.x)
        return b.convert(b.fetch(self.x, self.points(b, at)[0]), source, self.summand())

    def reference(self, *operands: Array) -> Array:
        return self.reference_at(operands[0], static(self.shape), static(self.window.data))

    def reference_at(self, x: Array, shape: tuple[int, ...], window: tuple[int, ...]) -> Array:
        """The meaning for a concrete result shape and window."""
        (word,), _, reduced = self.words()
        sizes = self.concrete((x,), shape)
        sizes |= dict(zip([c for c in reduced if c not in sizes], window, strict=True))
        view = windows_of(x, self.axes[0], sizes)
        places = tuple(word.index(c) for c in reduced)
        if not places:
            return np.array(view)
        if 0 in shape:
            return np.empty(shape, self.dtype.numpy)
        return same_array(self.combiner().reference(view, places, self.order()), self.dtype)

    def stored_operands(self) -> tuple[int, ...]:
        """Where windows overlap, elements are read more than once."""
        sizes = self.sizes()
        for axis in self.axes[0]:
            if len(axis) > 1:
                (stride, _), (dilation, inner) = axis
                reach = ((sizes[inner] - 1) * dilation + 1).constant
                if reach is None or reach > stride:
                    return (0,)
        return ()

    def linear_operands(self) -> tuple[int, ...]:
        return (0,) if self.monoid.data == "sum" and self.dtype.is_inexact else ()

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        """Each element gets the sum of the cotangents of the windows that hold it."""
        (axes,), (_, result, _) = self.axes, self.words()
        sizes = self.sizes()
        spread = spread_cotangent(b, self, cotangent)
        wanted = "".join(_kept(axis, result) for axis in axes)
        present = "".join(c for c in wanted if c in result)
        shape = tuple(d for c, d in zip(wanted, shape_of(self.x.type), strict=True) if c in present)
        total = b(
            WindowOp,
            spread.cotangent,
            monoid="sum",
            letters=f"{spell_axes(spread.axes)}->{present}",
            window=DimsAttr(tuple(sizes[c] for c in spread.backwards)),
            declared=tensor_type(self.dtype.ir, shape),
        )
        if present == wanted:
            return total
        return b(BroadcastOp, total, letters=f"{present}->{wanted}", declared=tensor_of(self.x))

    def jvp(self, b: OpBuilder, tangents: Sequence[SSAValue | None]) -> SSAValue | None:
        from mlc.dialects.tensor.tangents import window_tangent

        tangent = tangents[0]
        if tangent is None or not self.dtype.is_inexact:
            return None
        return window_tangent(b, self, tangent)

    def batch(
        self, b: OpBuilder, operands: Sequence[SSAValue], batched: Sequence[bool]
    ) -> SSAValue:
        words, result, _ = self.words()
        new = fresh(words)
        count = shape_of(operands[0].type)[0]
        return b(
            WindowOp,
            operands[0],
            monoid=self.monoid,
            letters=f"{new}{spell_axes(self.axes[0])}->{new}{result}",
            window=self.window,
            declared=tensor_type(self.dtype.ir, (count, *self.shape)),
        )
