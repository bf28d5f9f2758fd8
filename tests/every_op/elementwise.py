"""Cases of the elementwise ops, and of the ops that make tensors out of nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, Shape, tensor_type
from mlc.dialects.dtypes import BF16, BOOL, C64, C128, DTYPES, F32, F64, U64, DType
from mlc.dialects.tensor.bitwise import BitcastOp, ClampOp
from mlc.dialects.tensor.comparison import (
    PREDICATES,
    CompareOp,
    ConvertOp,
    SelectOp,
    ShareOp,
)
from mlc.dialects.tensor.complex_parts import COMPLEX_OF, ComplexOp, MagnitudeOp
from mlc.dialects.tensor.create import ConstantOp, IotaOp, SizeOp, dense
from mlc.dialects.tensor.division import DivisorOp, PowOp
from mlc.dialects.tensor.elementwise import (
    DivOp,
    Elementwise,
    ExpOp,
    MulOp,
)
from mlc.dialects.tensor.library import LibraryOp
from mlc.dialects.tensor.op import OpBuilder, TensorOp
from mlc.dialects.tensor.random import PhiloxOp
from mlc.dialects.tensor.registry import OPS
from mlc.dialects.tensor.room import RoomOp
from mlc.dialects.tensor.some import SomeOp
from mlc.dialects.tensor.terms import COUNT, TERMS, OfTermsOp, TermOp
from mlc.dialects.tensor.trigonometry import SincOp
from mlc.dialects.tensor.within import WithinOp
from mlc.runtime.probe import host_target
from tests.every_op.cases import Build, Case, Operand
from tests.every_op.native import Array
from tests.every_op.shapes import ShapeClass
from tests.every_op.values import (
    Complex,
    Exact,
    Fill,
    Relative,
    Steps,
    Tolerance,
    Ulps,
    anything,
    ordinary,
    specials,
)
from tests.numerics.judges import BY_TABLE, FUNCTIONS, OPEN_ZEROS, Function

ELEMENTWISE = tuple(op for op in OPS if issubclass(op, Elementwise))
BOUNDS = BY_TABLE if host_target().has_lane_tables else {}
"""Of the functions that the machine under test computes in its own way."""


def _judged(op: type[TensorOp], dtype: DType) -> Tolerance | None:
    """The bound of vector math, if the op is one of its functions."""
    name = op.name.removeprefix("mlc.")
    function = BOUNDS.get(name, FUNCTIONS.get(name))
    if op is SincOp:  # a sine over its argument
        f32, f64 = (2 * FUNCTIONS["sin"].bound(x) + 0.5 for x in ("f32", "f64"))
        function = Function(op.name, SincOp.NUMPY, f32, f64)
    if function is None or dtype.kind != "float":
        return None
    if dtype not in (F32, F64):
        return Steps(1)
    return Ulps(function.bound(dtype.name), function.exact)


def small_and_positive(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Exponents that integers may have."""
    found = np.asarray(rng.integers(0, 9, shape)).astype(dtype.numpy)
    return np.where(rng.random(shape) < 0.1, np.array(dtype.highest, dtype.numpy), found)


def shares(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Numbers in [0, 1], both ends and -0.0 among them."""
    found = np.maximum(rng.uniform(-0.2, 1.2, shape), -0.0).clip(-0.0, 1.0)
    return found.astype(dtype.numpy)


def plain(op: type[TensorOp], **properties: object) -> Build:
    """The op on its operands."""
    return lambda b, x: b(op, *x, declared=None, **properties)


def takes(op: type[TensorOp], dtype: DType) -> bool:
    """Whether the op is defined for the dtype."""
    if op is PhiloxOp:
        return dtype is U64  # two numbers of 64 bits: the counter and the key
    if op in TERMS:
        return dtype is (F32 if op is TermOp else BF16)
    if op is LibraryOp and dtype not in (F32, F64, C64, C128):
        return False
    return dtype.kind in op.KINDS and (op is not ComplexOp or dtype in COMPLEX_OF)


def _tolerance(op: type[TensorOp], dtype: DType) -> Tolerance:
    if dtype.kind == "complex" and op in (MulOp, DivOp, ExpOp):
        return Complex(4.0)
    if op is MagnitudeOp:
        return Relative(2.0)
    judged = _judged(op, dtype)
    if judged is not None:
        return judged
    return Exact(signed_zero=not issubclass(op, OPEN_ZEROS))


OTHERS = (
    CompareOp, SelectOp, ConvertOp, BitcastOp, PhiloxOp, WithinOp, SomeOp, RoomOp, TermOp,
    DivisorOp,
)  # fmt: skip
"""Of more dtypes than one, or with properties."""


def elementwise(
    shape: Shape, fills: tuple[Fill, Fill] = (anything, anything), *, all_forms: bool = True
) -> Iterator[Case]:
    """
    Every elementwise op on every dtype it is defined for, over one shape. `all_forms`: every pair
    of dtypes of a conversion and every predicate of a comparison, instead of two of each.
    """
    for op in ELEMENTWISE:
        if op in OTHERS:
            continue
        for dtype in DTYPES:
            if takes(op, dtype):
                operands = tuple(Operand(dtype, shape, fill) for fill in fills)
                if dtype.kind == "complex" and op in (MulOp, DivOp, ExpOp):
                    operands = (Operand(dtype, shape, ordinary),) * 2
                if op is PowOp and dtype.is_integer:
                    operands = (operands[0], Operand(dtype, shape, small_and_positive))
                if op is ShareOp:
                    operands = (Operand(dtype, shape, shares),)
                if op in (ClampOp, OfTermsOp):
                    operands = (Operand(dtype, shape, anything), *operands)
                used = operands[: len(op.get_irdl_definition().operands)]
                yield Case(op, "", used, plain(op), _tolerance(op, dtype))
    numbers = tuple(Operand(U64, shape, fill) for fill in fills)
    for bits, stream in ((32, 0), (64, -(2**40) + 7)):
        build = plain(PhiloxOp, bits=bits, stream=stream)
        yield Case(PhiloxOp, f"{bits} bits", numbers, build)
    for number in range(COUNT):
        x = Operand(F32, shape, fills[0])
        yield Case(TermOp, f"term {number}", (x,), plain(TermOp, number=number))
    for dtype in DTYPES:
        x, y = (Operand(dtype, shape, fill) for fill in fills)
        for p in PREDICATES if all_forms else ("eq", "ne") if dtype.bytes % 2 else ("ne", "lt"):
            if dtype.kind in CompareOp.KINDS and (dtype.kind != "complex" or p in ("eq", "ne")):
                yield Case(CompareOp, p, (x, y), plain(CompareOp, predicate=p))
        yield Case(SelectOp, "", (Operand(BOOL, shape), x, y), plain(SelectOp))
        for target in DTYPES if all_forms else _two_targets(dtype):
            declared = tensor_type(target.ir, shape)
            yield Case(ConvertOp, f"to {target.name}", (x,), _declared(ConvertOp, declared))
        for target in DTYPES:
            declared = tensor_type(target.ir, shape)
            kinds = {dtype.kind, target.kind}
            if dtype.bytes == target.bytes and kinds <= set(BitcastOp.KINDS):
                yield Case(BitcastOp, f"to {target.name}", (x,), _declared(BitcastOp, declared))


def _two_targets(dtype: DType) -> tuple[DType, DType]:
    """Dtypes to convert to: f32, and another one for each source."""
    return F32, DTYPES[(DTYPES.index(dtype) + 5) % len(DTYPES)]


def _declared(op: type[Elementwise], declared: object) -> Build:
    return lambda b, x: b(op, *x, declared=declared)  # pyright: ignore[reportArgumentType]


def ranks(c: ShapeClass) -> Iterator[Case]:
    """Ranks other than two: three ops with one, two and three operands."""
    for shape in (c.dims(), c.dims("n"), c.dims("m", "k", "n"), c.dims("m", 1, "n", 1)):
        label = f"rank {len(shape)}"
        x, flag = Operand(F32, shape, anything), Operand(BOOL, shape)
        yield Case(ExpOp, label, (x,), plain(ExpOp), _tolerance(ExpOp, F32))
        yield Case(SelectOp, label, (flag, x, x), plain(SelectOp))


def creation(c: ShapeClass) -> Iterator[Case]:
    """constant, iota and size."""
    shape = c.dims("m", "n")
    for dtype in (d for d in DTYPES if d.kind in IotaOp.KINDS):
        for axis in (0, 1):
            kind = tensor_type(dtype.ir, shape)
            yield Case(IotaOp, f"{axis} {dtype.name}", (), _iota(axis, kind))
    for dim in c.dims("m", "2*m*n + 1", "(n + 1) // 2"):
        yield Case(SizeOp, str(dim), (), plain(SizeOp, dims=(dim,)))
    if c.symbolic:
        return
    rng = np.random.default_rng(0)
    sizes = tuple(dim.evaluate({}) for dim in shape)
    for dtype in DTYPES:
        value = dense(anything(rng, dtype, sizes), dtype)
        yield Case(ConstantOp, dtype.name, (), plain(ConstantOp, value=value))
        splat = dense(np.full(sizes, 1, dtype.numpy), dtype)
        yield Case(ConstantOp, f"splat {dtype.name}", (), plain(ConstantOp, value=splat))


def _iota(axis: int, kind: object) -> Callable[[OpBuilder, Sequence[SSAValue]], SSAValue]:
    return lambda b, x: b(IotaOp, axis=axis, declared=kind)  # pyright: ignore[reportArgumentType]


def _first(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    values = specials(dtype)
    return np.resize(np.repeat(values, len(values)), shape)


def _second(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    values = specials(dtype)
    return np.resize(np.tile(values, len(values)), shape)


def special_pairs() -> Iterator[Case]:
    """Every special value against every other, in each elementwise op."""
    most = max(len(specials(dtype)) for dtype in DTYPES)
    yield from elementwise((Dim.const(most * most),), (_first, _second))
