"""StableHLO text under construction: values with types, ops in generic form, regions, sizes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, FloorDiv, Shape, shape_of
from mlc.dialects.dtypes import BOOL, I32, I64, DType
from mlc.dialects.stablehlo import ELEMENTS
from mlc.dialects.tensor.op import element_dtype
from mlc.lazy_dataclass import dataclass

Body = Callable[..., "Sequence[Value]"]
_NAMES = {ours: theirs for theirs, ours in ELEMENTS.items()}
_SHORT = 16  # elements of a constant that are written one by one


class Unsaid(Exception):  # noqa: N818 - collected, and raised as one error of the user's
    """What an op means cannot be said in StableHLO; the message says why."""


@dataclass(frozen=True)
class Value:
    """A value of the text."""

    name: str
    dtype: DType
    shape: Shape

    @property
    def kind(self) -> str:
        """Its type."""
        return kind_of(self.dtype, self.shape)


def kind_of(dtype: DType, shape: Shape) -> str:
    """A type; a size that is open is `?`."""
    sizes = "".join("?x" if d.constant is None else f"{d.constant}x" for d in shape)
    return f"tensor<{sizes}{_NAMES[dtype.name]}>"


def static(shape: Shape) -> list[int] | None:
    """The sizes, where all are known."""
    found = [d.constant for d in shape if d.constant is not None]
    return found if len(found) == len(shape) else None


def integers(values: Sequence[int]) -> str:
    """`array<i64: 1, 2>`."""
    return "array<i64>" if not values else f"array<i64: {', '.join(map(str, values))}>"


class Writer:
    """Ops in the order in which they are written, in a stack of blocks."""

    def __init__(self) -> None:
        self.blocks: list[list[str]] = [[]]
        self.known: list[dict[Dim, Value]] = [{}]  # sizes as values, by block
        self.values: dict[SSAValue, Value] = {}
        self.count = 0

    def fresh(self, dtype: DType, shape: Shape) -> Value:
        """A new name."""
        self.count += 1
        return Value(f"%{self.count - 1}", dtype, shape)

    def of(self, value: SSAValue) -> Value:
        """What stands for a value of the program."""
        return self.values[value]

    def line(self, text: str) -> None:
        """A line of the block that is written."""
        self.blocks[-1] += text.split("\n")

    # ops ------------------------------------------------------------------------------------------

    def emit_all(
        self, name: str, operands: Sequence[Value], results: Sequence[tuple[DType, Shape]],
        attributes: str = "", regions: Sequence[str] = (),
    ) -> list[Value]:  # fmt: skip
        """`%r = "name"(operands) (regions) {attributes} : types`."""
        found = [self.fresh(*kind) for kind in results]
        text = f'"{name}"({", ".join(x.name for x in operands)})'
        text += f" ({', '.join(regions)})" if regions else ""
        text += f" {{{attributes}}}" if attributes else ""
        taken, given = (", ".join(x.kind for x in xs) for xs in (operands, found))
        left = f"{', '.join(x.name for x in found)} = " if found else ""
        self.line(f"{left}{text} : ({taken}) -> ({given})")
        return found

    def emit(
        self, name: str, operands: Sequence[Value], dtype: DType, shape: Shape,
        attributes: str = "", regions: Sequence[str] = (),
    ) -> Value:  # fmt: skip
        """An op of StableHLO with one result; of another dialect where the name has a dot."""
        full = name if "." in name else f"stablehlo.{name}"
        return self.emit_all(full, operands, [(dtype, shape)], attributes, regions)[0]

    def same(self, name: str, *operands: Value) -> Value:
        """An elementwise op whose result is of the last operand's type."""
        return self.emit(name, operands, operands[-1].dtype, operands[-1].shape)

    def region(self, kinds: Sequence[tuple[DType, Shape]], body: Body) -> str:
        """A region of one block, whose values `body` writes."""
        self.blocks.append([])
        self.known.append({})
        arguments = [self.fresh(*kind) for kind in kinds]
        results = body(*arguments)
        self.line(
            f'"stablehlo.return"({", ".join(x.name for x in results)}) :'
            f" ({', '.join(x.kind for x in results)}) -> ()"
        )
        self.known.pop()
        lines = [f"  {line}" for line in self.blocks.pop()]
        if arguments:
            lines = [f"^bb0({', '.join(f'{x.name}: {x.kind}' for x in arguments)}):", *lines]
        return "\n".join(["{", *lines, "}"])

    # constants and shapes -------------------------------------------------------------------------

    def constant(self, array: NDArray[Any], dtype: DType) -> Value:
        """An array."""
        shape = tuple(map(Dim.const, array.shape))
        text = f"value = dense<{_literal(array, dtype)}> : {kind_of(dtype, shape)}"
        return self.emit("constant", (), dtype, shape, text)

    def integer(self, value: int) -> Value:
        """A number, i64 of no axes."""
        return self.constant(np.array(value), I64)

    def full(self, value: complex, dtype: DType, shape: Shape) -> Value:
        """One number everywhere."""
        sizes = static(shape)
        number = np.array(value).astype(dtype.numpy)
        if sizes is not None:
            return self.constant(np.broadcast_to(number, sizes), dtype)
        return self.broadcast(self.constant(number, dtype), (), shape)

    def broadcast(self, x: Value, dims: Sequence[int], shape: Shape) -> Value:
        """Axis k of x becomes axis dims[k]."""
        said = f"broadcast_dimensions = {integers(dims)}"
        if static(shape) is not None:
            return self.emit("broadcast_in_dim", [x], x.dtype, shape, said)
        both = [x, self.sizes(shape)]
        return self.emit("dynamic_broadcast_in_dim", both, x.dtype, shape, said)

    def reshape(self, x: Value, shape: Shape) -> Value:
        """The same elements in another shape."""
        if x.shape == shape:
            return x
        if static(shape) is not None:
            return self.emit("reshape", [x], x.dtype, shape)
        return self.emit("dynamic_reshape", [x, self.sizes(shape)], x.dtype, shape)

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        """Axis k of the result is axis order[k]."""
        if list(order) == list(range(len(x.shape))):
            return x
        shape = tuple(x.shape[k] for k in order)
        return self.emit("transpose", [x], x.dtype, shape, f"permutation = {integers(order)}")

    def iota(self, axis: int, shape: Shape) -> Value:
        """Positions along an axis, as i64."""
        said = f"iota_dimension = {axis} : i64"
        if static(shape) is not None:
            return self.emit("iota", (), I64, shape, said)
        return self.emit("dynamic_iota", [self.sizes(shape)], I64, shape, said)

    def convert(self, x: Value, dtype: DType) -> Value:
        """In another dtype."""
        return x if x.dtype is dtype else self.emit("convert", [x], dtype, x.shape)

    def compare(self, direction: str, x: Value, y: Value, *, total: bool = False) -> Value:
        """`LT` and its kin; `total`: floats in IEEE's total order."""
        kind = {"float": "FLOAT", "complex": "FLOAT", "int": "SIGNED"}.get(x.dtype.kind, "UNSIGNED")
        said = (
            f"comparison_direction = #stablehlo<comparison_direction {direction}>,"
            f" compare_type = #stablehlo<comparison_type {'TOTALORDER' if total else kind}>"
        )
        return self.emit("compare", [x, y], BOOL, x.shape, said)

    # sizes ----------------------------------------------------------------------------------------

    def size(self, dim: Dim) -> Value:
        """A size as a value, i64 of no axes."""
        for known in self.known:
            if dim in known:
                return known[dim]
        if dim.constant is not None:
            found = self.integer(dim.constant)
        else:
            terms = (self._joined("multiply", self._factors(*term)) for term in dim.terms)
            found = self._joined("add", terms)
        self.known[-1][dim] = found
        return found

    def _joined(self, name: str, values: Iterable[Value]) -> Value:
        return functools.reduce(functools.partial(self.same, name), values)

    def _factors(self, monomial: Sequence[str | FloorDiv], coefficient: int) -> Iterator[Value]:
        if coefficient != 1 or not monomial:
            yield self.integer(coefficient)
        yield from map(self._atom, monomial)

    def _atom(self, atom: str | FloorDiv) -> Value:
        if isinstance(atom, str):
            dim = Dim.symbol(atom)
            if (known := self.known[0].get(dim)) is None:
                raise Unsaid(f"the size {atom} is no argument's")
            return known
        divisor = self.integer(atom.divisor)
        return self.same("divide", self.size(atom.numerator), divisor)  # sizes: not negative

    def sizes(self, shape: Shape) -> Value:
        """A shape as a value."""
        one = (Dim.const(1),)
        parts = [self.reshape(self.size(dim), one) for dim in shape]
        if not parts:
            return self.constant(np.zeros(0, np.int64), I64)
        whole = (Dim.const(len(parts)),)
        return self.emit("concatenate", parts, I64, whole, "dimension = 0 : i64")

    def learn(self, arguments: Sequence[Value]) -> None:
        """The symbols that axes of arguments say."""
        for value in arguments:
            for axis, dim in enumerate(value.shape):
                scales = [c for monomial, c in dim.terms if monomial]
                names = dim.symbols()
                if len(names) != 1 or len(scales) != 1:
                    continue
                symbol, scale = Dim.symbol(*names), scales[0]
                rest = dim - symbol * scale
                if symbol in self.known[0] or rest.constant is None:
                    continue
                said = f"dimension = {axis} : i64"
                found = self.emit("get_dimension_size", [value], I32, (), said)
                found = self.convert(found, I64)
                if rest.constant:
                    found = self.same("subtract", found, self.size(rest))
                if scale != 1:
                    found = self.same("divide", found, self.size(Dim.const(scale)))
                self.known[0][symbol] = found


def typed(value: SSAValue) -> tuple[DType, Shape]:
    """Dtype and shape of a value of the program."""
    return element_dtype(value), shape_of(value.type)


def _literal(array: NDArray[Any], dtype: DType) -> str:
    """The elements between the brackets of `dense`."""
    if not array.size:
        return ""
    flat = np.ascontiguousarray(array).reshape(-1)
    raw = flat.view(np.uint8).reshape(flat.size, -1)
    if (raw == raw[0]).all():
        return _number(flat[0], dtype)
    if flat.size > _SHORT:
        packed = np.packbits(flat, bitorder="little") if dtype is BOOL else flat
        return f'"0x{packed.tobytes().hex().upper()}"'
    return _nested(array, dtype)


def _nested(array: NDArray[Any], dtype: DType) -> str:
    if not array.ndim:
        return _number(array[()], dtype)
    return f"[{', '.join(_nested(part, dtype) for part in array)}]"


def _number(value: Any, dtype: DType) -> str:
    if dtype is BOOL:
        return "true" if value else "false"
    if dtype.kind == "complex":
        return f"({_number(value.real, dtype.part)}, {_number(value.imag, dtype.part)})"
    if dtype.is_integer:
        return str(int(value))
    number = float(value)
    if not np.isfinite(number):
        bits = int(np.array(value, dtype.numpy).view(f"u{dtype.bytes}"))
        return f"0x{bits:0{2 * dtype.bytes}X}"
    text = repr(number)
    return text.replace("e", ".0e") if "e" in text and "." not in text else text
