"""Operands of NumPy's functions as SSA values: lifting, promotion (NEP 50), broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NoReturn, TypeGuard

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, Shape, shape_of, tensor_type
from mlc.dialects.dtypes import (
    BF16,
    BOOL,
    DTYPES,
    F32,
    F64,
    I64,
    DType,
    named_dtype,
    numpy_dtype,
)
from mlc.dialects.errors import DTypeError, MlcError, ShapeError
from mlc.dialects.tensor.comparison import ConvertOp, cast
from mlc.dialects.tensor.create import ConstantOp, dense, full
from mlc.dialects.tensor.letters import spell
from mlc.dialects.tensor.op import element_dtype, tensor_of
from mlc.dialects.tensor.shape import broadcast_to
from mlc.frontend.errors import located, relocated
from mlc.frontend.numpy.fits import beside, is_integer, number_of
from mlc.frontend.trace.kinds import (
    Number,
    is_array,
    is_number,
    is_scalar,
    is_series,
    is_variants,
    makes_array,
)
from mlc.frontend.trace.paths import HiddenInput, object_path
from mlc.frontend.trace.source import name_of
from mlc.frontend.trace.symbolic import SymbolicDim
from mlc.frontend.trace.trace import here, lift_size
from mlc.frontend.trace.tracer import Tracer

ONE = Dim.const(1)


class OverflowDTypeError(DTypeError, OverflowError):
    """A Python int that the array's dtype cannot hold: ``np.int32 array + 2**40``."""


def strong(value: object, function: str = "mlc") -> Tracer:
    """Any operand as an array with a dtype of its own, as NumPy's asarray makes it."""
    found = lift(value, function)
    return Tracer(found.owner, found.value) if found.weak else found


def is_operand(value: object) -> TypeGuard[Any]:
    """Whether an operator on a traced array accepts the value."""
    arrays = Tracer | SymbolicDim | np.ndarray | np.generic
    if makes_array(value):
        return True
    return isinstance(value, arrays | bool | int | float | complex | list | tuple)


def lift(value: object, function: str = "mlc") -> Tracer:
    """Any operand as a traced array; Python numbers become weak constants."""
    if isinstance(value, Tracer):
        return value
    if isinstance(value, SymbolicDim):
        return lift_size(value)
    if is_variants(value):
        found = value.apply(partial(lift, function=function))
        return _several(value, found, function) if is_variants(found) else found
    if is_array(value):
        row = dtype_row(value.dtype.newbyteorder("="), function)
        if value.size <= here().literal:
            return Tracer(here(), constant(value, row))
        # no name leads to it: the array itself is remembered and read at every call
        return here().hidden_argument(
            value, HiddenInput(object_path(value, name_of(value) or "array"))
        )
    if is_series(value):
        from mlc.frontend.numpy.creation import array as from_nested

        return from_nested(value)
    if is_number(value) or is_scalar(value):
        array: NDArray[Any] = np.asarray(value)
        dtype = dtype_row(array.dtype, function)
        weak = not isinstance(value, np.generic | bool)
        return Tracer(here(), constant(array, dtype), weak=weak)
    if makes_array(value):
        return _array_like(value, function)
    raise located(
        DTypeError,
        f"{function}: an operand is {type(value).__name__}; expected an array or a number.",
    )


def _several(value: Any, found: Any, function: str) -> NoReturn:
    """The error for a number of which only the compiled function knows the dtype."""
    dtypes = list(dict.fromkeys(x.row.numpy for x in found.options))
    kinds, common = " or ".join(map(str, dtypes)), np.result_type(*dtypes)
    name = name_of(value) or "an operand"
    message = f"{function}: {name} is {kinds}, as a loop has trips or not; expected one dtype."
    remedy = f"Convert it before the loop, or here: np.{common}({name})."
    raise located(DTypeError, message, remedy=remedy)


def _array_like(value: object, function: str) -> Tracer:
    """An object from outside of which NumPy makes an array, at every call anew."""
    from mlc.frontend.trace.captures import paths

    made: NDArray[Any] = np.asarray(value)
    dtype_row(made.dtype.newbyteorder("="), function)
    path = paths().of(value) or object_path(value, type(value).__name__)
    return here().hidden_argument(made, HiddenInput(path.array()))


def dtype_row(dtype: Any, function: str = "astype") -> DType:
    """The row of a dtype the user names; DTypeError at the user's line otherwise."""
    if isinstance(dtype, DType):
        return dtype
    try:
        found = np.dtype(dtype)
    except TypeError:
        if isinstance(dtype, str) and dtype in {row.name for row in DTYPES}:
            return named_dtype(dtype)
        raise located(DTypeError, f"{function}: {dtype!r} is not a dtype") from None
    try:
        return numpy_dtype(found)
    except TypeError:
        known = ", ".join(str(row.numpy) for row in DTYPES)
        message = f"{function}: dtype {found} is not supported; expected one of {known}."
        remedy = "Convert with .astype(np.float32), .astype(np.int64) or another of these."
        raise located(DTypeError, message, remedy=remedy) from None


def constant(array: np.ndarray[Any, Any], dtype: DType) -> SSAValue:
    """A static array written into the program."""
    return here().emit(ConstantOp, value=dense(array, dtype))


def number(value: Number, dtype: DType, shape: Shape = ()) -> SSAValue:
    """One number, repeated."""
    if (
        is_integer(dtype)
        and isinstance(value, int)
        and not (dtype.lowest <= value <= dtype.highest)
    ):
        raise _overflow(value, dtype)
    if isinstance(value, complex) and dtype.kind != "complex":
        message = f"the complex number {value} does not fit into {dtype.numpy}"
        raise located(DTypeError, message, remedy="Take its .real, or convert x.astype(complex).")
    trace = here()
    exact = cast(np.asarray(value), dtype)
    key = (trace.scopes[-1], dtype.name, exact.tobytes(), shape)
    found = trace.numbers.get(key)
    if found is None:
        found = trace.numbers[key] = full(trace.b, exact.item(), dtype, shape)
    return found


def convert(value: SSAValue, dtype: DType) -> SSAValue:
    """The value in another dtype."""
    found = tensor_of(value)
    if found.element_type == dtype.ir:
        return value
    return here().emit(ConvertOp, value, declared=tensor_type(dtype.ir, shape_of(found)))


def fitting(x: Tracer, dtype: DType) -> SSAValue:
    """The value in another dtype; OverflowDTypeError for a Python int that it cannot hold."""
    if beside(x, dtype):
        raise _overflow(number_of(x), dtype)
    return convert(x.value, dtype)


def _overflow(found: int, dtype: DType) -> OverflowDTypeError:
    message = f"Python integer {found} out of bounds for {dtype.numpy}"
    return located(OverflowDTypeError, message)


def dtype_at(value: SSAValue) -> DType:
    """The dtype of an SSA value."""
    return element_dtype(value)


# Promotion

PromotionKey = str | tuple[str, Number]
"""A dtype's name, or a kind of Python number with an example of it."""

_WEAK: dict[str, PromotionKey] = {
    "bool": "bool",
    "int": ("int", 0),
    "float": ("float", 0.0),
    "complex": ("complex", 0j),
}


def promotion_key(value: object, function: str) -> PromotionKey:
    """What NumPy's result_type looks at: a dtype, or a Python number for weak operands."""
    if isinstance(value, Tracer):
        return _WEAK[value.row.kind] if value.weak else value.row.name
    if isinstance(value, SymbolicDim):
        return _WEAK["int"]
    if isinstance(value, bool):
        return "bool"
    if is_number(value):
        return _WEAK[type(value).__name__]
    return dtype_row(np.asarray(value).dtype, function).name


def common_dtype(function: str, operands: Sequence[object]) -> DType:
    """The dtype NumPy gives to the operands together; weak numbers keep a floating dtype (D11)."""
    keys = tuple(promotion_key(x, function) for x in operands)
    try:
        return _common(keys)
    except TypeError:
        names = " and ".join(key for key in keys if isinstance(key, str))
        raise located(
            DTypeError,
            f"{function}: {names} have no common dtype.",
            remedy="Convert one of them, e.g. y.astype(x.dtype).",
        ) from None


@lru_cache(maxsize=1024)
def _common(keys: tuple[PromotionKey, ...]) -> DType:
    strong = [named_dtype(key) for key in keys if isinstance(key, str)]
    weak = [key[1] for key in keys if not isinstance(key, str)]
    if any(row.kind in ("float", "complex", "storage") for row in strong):
        weak = [x for x in weak if isinstance(x, complex)]
    try:
        return numpy_dtype(np.result_type(*(row.numpy for row in strong), *weak))
    except TypeError:
        beside = {row.kind for row in strong if row is not BF16}
        if BF16 not in strong or not beside <= {"float", "int", "uint"}:
            raise
    # result_type does not know what ufuncs do: bf16 counts as f32 beside what it does not hold
    strong = [F32 if row is BF16 else row for row in strong]
    return numpy_dtype(np.result_type(*(row.numpy for row in strong), *weak))


def is_weak(value: object) -> bool:
    """Whether the operand is a Python number (bool is not: NumPy's is as wide)."""
    if isinstance(value, Tracer):
        return value.weak
    if isinstance(value, bool | np.generic):
        return False
    return isinstance(value, int | float | complex | SymbolicDim)


def operator_result(
    function: Callable[..., Any], *operands: object, of_numbers: bool = False
) -> object:
    """
    An operator's result: of Python numbers it is a Python number again, as weak as they are.
    `of_numbers`: Python's bools are then 0 and 1.
    """
    if any(isinstance(x, Tracer) and x.whole is not None for x in operands):
        return _of_doubtful(function, operands, of_numbers)
    return _operator_result(function, operands, of_numbers)


def _of_doubtful(
    function: Callable[..., Any], operands: Sequence[object], of_numbers: bool
) -> object:
    """Likewise where only the compiled function knows which operands are Python's."""
    from mlc.frontend.staging.variants import of_options
    from mlc.frontend.staging.wholes import result_of, spelled

    apart = spelled(function.__name__, operands)
    if apart is not operands:
        return of_options(partial(operator_result, function, of_numbers=of_numbers), (*apart,), {})
    result = _operator_result(function, operands, of_numbers)
    if isinstance(result, Tracer):
        result.whole = result_of(function.__name__, operands, result)
    return result


def _operator_result(
    function: Callable[..., Any], operands: Sequence[object], of_numbers: bool
) -> object:
    python = all(is_weak(x) or isinstance(x, bool) for x in operands) or takes_float(operands)
    if python and of_numbers:
        operands = [*map(counted, operands)]
    result = function(*operands)
    if isinstance(result, Tracer) and python:
        result.weak, result.origins = True, common_origins(operands)
    return result


def takes_float(operands: Sequence[object]) -> bool:
    """Whether the first is a complex number of Python's, to which NumPy's float64 is a float."""
    if len(operands) != 2 or not is_weak(operands[0]):
        return False
    x, y = operands
    of_python = x.row.kind == "complex" if isinstance(x, Tracer) else isinstance(x, complex)
    if not isinstance(y, Tracer):
        return of_python and isinstance(y, np.float64)
    return of_python and y.row is F64 and not y.weak and not y.is_place


def counted(value: object) -> object:
    """A Python bool as the int that Python computes with."""
    if isinstance(value, bool):
        return int(value)
    if not isinstance(value, Tracer) or value.row is not BOOL:
        return value
    return Tracer(here(), convert(value.value, I64), weak=True, origins=value.origins)


def common_origins(operands: Sequence[object]) -> frozenset[str]:
    """The scalar arguments that alone determine the operands; empty when more does."""
    found: frozenset[str] = frozenset()
    for x in operands:
        if isinstance(x, Tracer):
            if not x.origins:
                return frozenset()
            found |= x.origins
        elif not isinstance(x, int | float | complex | np.generic):
            return frozenset()
    return found


# Shapes


def broadcast_shapes(function: str, shapes: Sequence[Shape], names: Sequence[str] = ()) -> Shape:
    """The common shape by NumPy's rule; a symbolic size equals only itself."""
    rank = max((len(shape) for shape in shapes), default=0)
    result: list[Dim] = []
    for axis in range(-rank, 0):
        size = ONE
        for shape in shapes:
            dim = shape[axis] if -axis <= len(shape) else ONE
            if dim in (size, ONE):
                continue
            if size != ONE:
                raise _broadcast_error(function, shapes, names, rank + axis, size, dim)
            size = dim
        result.append(size)
    return tuple(result)


def _broadcast_error(
    function: str, shapes: Sequence[Shape], names: Sequence[str], axis: int, left: Dim, right: Dim
) -> ShapeError:
    labels = [f"{n} " if n else "" for n in names] or [""] * len(shapes)
    spelled = " and ".join(
        f"{label}{spell(shape)}" for label, shape in zip(labels, shapes, strict=True)
    )
    reason = "expected equal sizes, or 1."
    if left.constant is None or right.constant is None:
        reason = "a symbolic size broadcasts only with itself or 1."
    remedy = ""
    if left.constant is None and right.constant is None:
        remedy = (
            "Give both axes one symbol, e.g."
            f' dynamic={{"x": {{0: "{left}"}}, "y": {{0: "{left}"}}}}.'
        )
    message = (
        f"{function}: shapes {spelled} do not broadcast: axis {axis} is {left} and {right};"
        f" {reason}"
    )
    return located(ShapeError, message, remedy=remedy)


def spread(value: SSAValue, shape: Shape) -> SSAValue:
    """The value broadcast to `shape`, which it fits."""
    try:
        return broadcast_to(here().b, value, shape)
    except MlcError as error:
        raise relocated(error) from None


def common_operands(
    function: str, operands: Sequence[object], dtype: DType | None = None
) -> list[SSAValue]:
    """The operands in one dtype and one shape."""
    dtype = dtype or common_dtype(function, operands)
    tracers = [None if is_number(x) else lift(x, function) for x in operands]
    known = [x.dims for x in tracers if x is not None]
    if any(shape != known[0] for shape in known[1:]):
        shape = _broadcast_named(function, tracers, known)
    else:
        shape = known[0] if known else ()
    values: list[SSAValue] = []
    for operand, tracer in zip(operands, tracers, strict=True):
        if tracer is None:
            assert is_number(operand)
            values.append(number(operand, dtype, shape))
        else:
            values.append(spread(fitting(tracer, dtype), shape))
    return values


def _broadcast_named(
    function: str, tracers: Sequence[Tracer | None], known: Sequence[Shape]
) -> Shape:
    try:
        return broadcast_shapes(function, known)
    except ShapeError:
        names = [name_of(x) or "" for x in tracers if x is not None]
        return broadcast_shapes(function, known, names)


def check_casting(
    function: str, operands: Sequence[Tracer], target: DType, casting: str = "same_kind"
) -> None:
    """Raises what NumPy raises for a dtype= that the operands are not converted to unasked."""
    for x in operands:
        if not np.can_cast(x.row.numpy, target.numpy, casting):  # pyright: ignore[reportArgumentType]
            message = (
                f"{function}: {x.row.numpy} is not converted to {target.numpy} by the rule"
                f" {casting!r}."
            )
            remedy = f"Convert it first: x.astype(np.{target.numpy})."
            raise located(DTypeError, message, remedy=remedy)


def result(value: SSAValue) -> Tracer:
    """An SSA value as a traced array."""
    return Tracer(here(), value)


def float_dtype(function: str, operands: Sequence[object]) -> DType:
    """The dtype in which NumPy computes a floating function of the operands."""
    dtype = common_dtype(function, operands)
    if is_inexact(dtype):
        return dtype
    # each integer asks for its own floating dtype: int8 and uint8 for float16 together
    own = [common_dtype(function, (x,)) for x in operands if not is_weak(x)]
    own = own if any(row is not BOOL for row in own) else [dtype]
    return dtype_row(np.result_type(*(_floating(row.name) for row in own)), function)


@lru_cache(maxsize=64)
def _floating(name: str) -> np.dtype[Any]:
    """float16 of int8 and bool, float32 of int16, float64 of wider integers."""
    return np.sqrt.resolve_dtypes((named_dtype(name).numpy, None))[1]


def is_inexact(dtype: DType) -> bool:
    """Whether it is a floating dtype."""
    return dtype.kind in ("float", "complex")
