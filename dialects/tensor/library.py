"""
Factorisations and transforms that a library computes: LAPACK and pocketfft, as NumPy calls them;
and what a program tells Python (telling.py).

A routine works on the last axes of its operands (their cores), once for each index of the leading
ones. Its results lie side by side along the last axis of the op's one result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, ClassVar, cast

import numpy as np
from xdsl.dialects.builtin import StringAttr, TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import prop_def, result_def, var_operand_def

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import Dim, Shape, product, shape_of, tensor_type
from mlc.dialects.dtypes import C64, C128, F32, F64, DType, dtype_of
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.comparison import CompareOp, ConvertOp
from mlc.dialects.tensor.create import IotaOp, full
from mlc.dialects.tensor.letters import spell
from mlc.dialects.tensor.op import (
    Array,
    OpaqueOp,
    OpaqueTemplate,
    OpBuilder,
    Tensor,
    one_of_property,
    tensor_of,
)
from mlc.dialects.tensor.shape import ConcatOp, SliceOp, broadcast_to
from mlc.dialects.tensor.telling import tell
from mlc.lazy_dataclass import dataclass

Shapes = tuple[Shape, ...]


@dataclass(frozen=True, kw_only=True)
class Routine:
    """One library routine. `compute` takes whole arrays, leading axes included."""

    cores: tuple[int, ...]  # how many last axes of each operand it works on
    shapes: Callable[[Shapes], Shapes]  # core shapes of the results, from those of the operands
    compute: Callable[..., Any]
    kinds: tuple[str, ...] = ("float", "complex")  # of the first operand's dtype
    dtype: Callable[[DType], DType] = lambda dtype: dtype  # of the result


def real_of(dtype: DType) -> DType:
    """The dtype of the real part."""
    return dtype.part


def complex_of(dtype: DType) -> DType:
    """The complex dtype with parts of this one."""
    return {F32: C64, F64: C128}.get(dtype, dtype)


def square(name: str, core: Shape) -> Dim:
    """The size of a square matrix; NumPy's LinAlgError otherwise."""
    if core[0] != core[1]:
        raise ShapeError(f"{name}: the last 2 axes of {spell(core)} must be equal: a square matrix")
    return core[0]


def smaller(core: Shape) -> Dim:
    """The smaller side of a matrix: its columns, where that is not known."""
    rows, columns = core
    less = (rows - columns).constant
    return rows if less is not None and less < 0 else columns


def _same(cores: Shapes) -> Shapes:
    square("matrix", cores[0])
    return (cores[0],)


def _solved(cores: Shapes) -> Shapes:
    n = square("solve", cores[0])
    if cores[1][0] != n:
        raise ShapeError(f"solve: a is {spell(cores[0])}, b {spell(cores[1])}; expected equal rows")
    return (cores[1],)


def _eigen(cores: Shapes) -> Shapes:
    n = square("eig", cores[0])
    return ((n,), (n, n))


def _values(cores: Shapes) -> Shapes:
    return ((square("eigvals", cores[0]),),)


def _qr_reduced(cores: Shapes) -> Shapes:
    (rows, columns), least = cores[0], smaller(cores[0])
    return ((rows, least), (least, columns))


def _qr_complete(cores: Shapes) -> Shapes:
    rows, columns = cores[0]
    return ((rows, rows), (rows, columns))


def _qr_r(cores: Shapes) -> Shapes:
    return ((smaller(cores[0]), cores[0][1]),)


def _svd_full(cores: Shapes) -> Shapes:
    rows, columns = cores[0]
    return ((rows, rows), (smaller(cores[0]),), (columns, columns))


def _svd_reduced(cores: Shapes) -> Shapes:
    (rows, columns), least = cores[0], smaller(cores[0])
    return ((rows, least), (least,), (least, columns))


def _svd_values(cores: Shapes) -> Shapes:
    return ((smaller(cores[0]),),)


def _lstsq(cores: Shapes) -> Shapes:
    (rows, columns), (other, count) = cores[0], cores[1]
    if rows != other:
        raise ShapeError(f"lstsq: a has {rows} rows and b has {other}; expected as many")
    one = Dim.const(1)
    return ((columns, count), (count,), (one,), (smaller(cores[0]),))


def _least_squares(a: Array, b: Array, rcond: Array) -> tuple[Array, ...]:
    """NumPy's lstsq for each matrix; residuals for any rank."""
    batch = a.shape[:-2]
    found: list[tuple[Array, ...]] = []
    for index in np.ndindex(*batch):
        limit: Any = np.abs(rcond[index])
        x, _, rank, s = np.linalg.lstsq(a[index], b[index], float(limit))
        away = b[index] - a[index] @ x
        squares = np.sum(np.abs(away) ** 2, axis=0)
        found.append((x, squares.astype(a.dtype), np.array([rank], a.dtype), s.astype(a.dtype)))
    if not found:
        m, n, k = *a.shape[-2:], b.shape[-1]
        empty = [np.empty((*batch, *s), a.dtype) for s in ((n, k), (k,), (1,), (min(m, n),))]
        return tuple(empty)
    parts = zip(*found, strict=True)
    return tuple(np.stack(p).reshape(*batch, *p[0].shape) for p in parts)


def _pinv(cores: Shapes) -> Shapes:
    rows, columns = cores[0]
    return ((columns, rows),)


def _pseudo_inverse(a: Array, rcond: Array) -> Array:
    return np.linalg.pinv(a, np.real(rcond))


def _adjugate(a: Array) -> Array:
    """
    The matrix of cofactors, transposed: with A = U S V^H, det(U V^H) V adj(S) U^H, where adj(S)
    holds the products of all other singular values.
    """
    u, s, vh = np.linalg.svd(a)
    ones = np.ones_like(s[..., :1])
    before = np.cumprod(np.concatenate([ones, s[..., :-1]], -1)[..., : s.shape[-1]], -1)
    after = np.cumprod(np.concatenate([ones, s[..., :0:-1]], -1)[..., : s.shape[-1]], -1)
    others = before * after[..., ::-1]
    phase = np.linalg.det(u) * np.linalg.det(vh)
    v, uh = (np.conj(np.swapaxes(x, -1, -2)) for x in (vh, u))
    return phase[..., None, None] * ((v * others[..., None, :]) @ uh)


def _any_inverse(a: Array) -> Array:
    """The inverse; of a singular matrix its limit: the adjugate over 0."""
    try:
        return np.linalg.inv(a)
    except np.linalg.LinAlgError:
        return _adjugate(a) / np.linalg.det(a)[..., None, None]


def _spectrum(cores: Shapes) -> Shapes:
    return (cores[0],)


def _half(cores: Shapes) -> Shapes:
    return ((cores[0][0] // 2 + 1,),)


def _even(cores: Shapes) -> Shapes:
    return (((cores[0][0] - 1) * 2,),)


def _odd(cores: Shapes) -> Shapes:
    return ((cores[0][0] * 2 - 1,),)


def _transform(function: Callable[..., Array], odd: bool | None = None) -> Callable[[Array], Array]:
    """A transform along the last axis, also of no transforms at all."""

    def run(x: Array) -> Array:
        m = x.shape[-1]
        if odd is not None:
            return function(x, 2 * m - 1 if odd else 2 * m - 2)
        return function(x)

    return run


def _any_eig(a: Array) -> tuple[Array, ...]:
    values, vectors = np.linalg.eig(a)
    wide = np.result_type(a.dtype, np.complex64)
    return values.astype(wide), vectors.astype(wide)


_MATRIX, _VECTOR = (2,), (1,)

ROUTINES: dict[str, Routine] = {
    "cholesky": Routine(cores=_MATRIX, shapes=_same, compute=np.linalg.cholesky),
    "inv": Routine(cores=_MATRIX, shapes=_same, compute=np.linalg.inv),
    "solve": Routine(cores=(2, 2), shapes=_solved, compute=np.linalg.solve),
    "slogdet": Routine(
        cores=_MATRIX,
        shapes=lambda cores: ((), ()) if square("det", cores[0]) else (),
        compute=np.linalg.slogdet,
    ),
    "det": Routine(
        cores=_MATRIX,
        shapes=lambda cores: ((),) if square("det", cores[0]) else (),
        compute=np.linalg.det,
    ),
    "qr_reduced": Routine(
        cores=_MATRIX, shapes=_qr_reduced, compute=partial(np.linalg.qr, mode="reduced")
    ),
    "qr_complete": Routine(
        cores=_MATRIX, shapes=_qr_complete, compute=partial(np.linalg.qr, mode="complete")
    ),
    "qr_r": Routine(cores=_MATRIX, shapes=_qr_r, compute=partial(np.linalg.qr, mode="r")),
    "svd_full": Routine(cores=_MATRIX, shapes=_svd_full, compute=np.linalg.svd),
    "svd_reduced": Routine(
        cores=_MATRIX,
        shapes=_svd_reduced,
        compute=partial(np.linalg.svd, full_matrices=False),
    ),
    "svd_values": Routine(
        cores=_MATRIX,
        shapes=_svd_values,
        compute=partial(np.linalg.svd, compute_uv=False),
        dtype=real_of,
    ),
    "eigh_lower": Routine(cores=_MATRIX, shapes=_eigen, compute=partial(np.linalg.eigh, UPLO="L")),
    "eigh_upper": Routine(cores=_MATRIX, shapes=_eigen, compute=partial(np.linalg.eigh, UPLO="U")),
    "eigvalsh_lower": Routine(
        cores=_MATRIX,
        shapes=_values,
        compute=partial(np.linalg.eigvalsh, UPLO="L"),
        dtype=real_of,
    ),
    "eigvalsh_upper": Routine(
        cores=_MATRIX,
        shapes=_values,
        compute=partial(np.linalg.eigvalsh, UPLO="U"),
        dtype=real_of,
    ),
    "eig": Routine(cores=_MATRIX, shapes=_eigen, compute=_any_eig, dtype=complex_of),
    "eigvals": Routine(cores=_MATRIX, shapes=_values, compute=np.linalg.eigvals, dtype=complex_of),
    "lstsq": Routine(cores=(2, 2, 0), shapes=_lstsq, compute=_least_squares),
    "pinv": Routine(cores=(2, 0), shapes=_pinv, compute=_pseudo_inverse),
    "adjugate": Routine(cores=_MATRIX, shapes=_same, compute=_adjugate),
    "any_inverse": Routine(cores=_MATRIX, shapes=_same, compute=_any_inverse),
    "fft": Routine(
        cores=_VECTOR, shapes=_spectrum, compute=_transform(np.fft.fft), kinds=("complex",)
    ),
    "ifft": Routine(
        cores=_VECTOR, shapes=_spectrum, compute=_transform(np.fft.ifft), kinds=("complex",)
    ),
    "rfft": Routine(
        cores=_VECTOR,
        shapes=_half,
        compute=_transform(np.fft.rfft),
        kinds=("float",),
        dtype=complex_of,
    ),
    "irfft_even": Routine(
        cores=_VECTOR,
        shapes=_even,
        compute=_transform(np.fft.irfft, odd=False),
        kinds=("complex",),
        dtype=real_of,
    ),
    "irfft_odd": Routine(
        cores=_VECTOR,
        shapes=_odd,
        compute=_transform(np.fft.irfft, odd=True),
        kinds=("complex",),
        dtype=real_of,
    ),
    "tell": Routine(
        cores=_VECTOR, shapes=lambda _: ((Dim.const(1),),), compute=tell, kinds=("float",)
    ),
}
"""Compiled code names a routine by its place in this table."""


TRANSFORMS = ("fft", "ifft", "rfft", "irfft_even", "irfft_odd")
MOST_POINTS = 1 << 20
"""Of longer transforms tables would be a large part of the code: a call computes them."""


def packed(routine: str, arrays: Sequence[Array], dtype: np.dtype[Any]) -> Array:
    """The routine's results side by side along one last axis, in `dtype`."""
    row = ROUTINES[routine]
    lead = arrays[0].shape[: arrays[0].ndim - row.cores[0]]
    with np.errstate(all="ignore"):
        found: Any = row.compute(*arrays)
    several: Sequence[Any] = cast("Sequence[Any]", found) if isinstance(found, tuple) else (found,)
    parts: list[Array] = [np.asarray(x, dtype=dtype) for x in several]
    if len(parts) == 1:
        return parts[0].reshape(*lead, prod(parts[0].shape[len(lead) :]))
    count = sum(prod(x.shape[len(lead) :]) for x in parts)
    result = np.empty((*lead, count), dtype)
    at = 0
    for x in parts:
        width = prod(x.shape[len(lead) :])
        result[..., at : at + width] = x.reshape(*lead, width)
        at += width
    return result


@irdl_op_definition
class LibraryOp(OpaqueOp):
    """
    The results of a library routine, side by side. A matrix whose sizes do not say which of them is
    smaller has at least as many rows as columns: a call with fewer is an error.

    ```mlir
    // U (3x3), S (3) and Vh (4x3 transposed) of each matrix
    %0 = mlc.library "svd_reduced" %a : tensor<8x3x4xf32> -> tensor<8x24xf32>
    ```
    """

    name = "mlc.library"
    SOURCE: ClassVar[str] = "LAPACK Users' Guide, 3rd edition; NumPy 2, numpy.linalg and numpy.fft"
    TEMPLATE: ClassVar[OpaqueTemplate] = "library"
    KINDS: ClassVar[tuple[str, ...]] = ("float", "complex")
    FLOPS: ClassVar[int] = 1
    WEIGHT: ClassVar[float] = 4.0
    CHECKS: ClassVar[bool] = True
    SITE: ClassVar[str] = "library"
    routine = prop_def(StringAttr)
    inputs = var_operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$routine $inputs attr-dict `:` type($inputs) `->` type($result)"

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        name = one_of_property(cls.name, properties, "routine", ROUTINES)
        row = ROUTINES[name]
        if len(operands) != len(row.cores):
            raise ShapeError(
                f"mlc.library {name!r}: {len(operands)} operands, not {len(row.cores)}"
            )
        dtype = dtype_of(operands[0].element_type)
        if dtype not in (F32, F64, C64, C128) or dtype.kind not in row.kinds:
            raise DTypeError(
                f"mlc.library {name!r} is not defined for {dtype.name};"
                f" expected {' or '.join(row.kinds)} of single or double precision"
            )
        lead, cores = split_cores(name, operands)
        if any(x.element_type != operands[0].element_type for x in operands):
            raise DTypeError(f"mlc.library {name!r}: expected operands of one dtype")
        count = sum((product(shape) for shape in row.shapes(cores)), Dim.const(0))
        return tensor_type(row.dtype(dtype).ir, (*lead, count))

    def iteration(self) -> Shape:
        shape, length = shape_of(self.inputs[0].type), self.length
        if length is not None:  # SOURCE: Cooley and Tukey 1965, 5 n log2 n
            bits = (length.constant or MOST_POINTS).bit_length()
            return (*shape, Dim.const(5 * max(bits - 1, 1)))
        return (*shape, *shape[-1:])

    @property
    def length(self) -> Dim | None:
        """Points of a Fourier transform, which code computes; None where a library is called."""
        name = self.routine.data
        if name not in TRANSFORMS:
            return None
        ((given,),) = self.cores()
        return {"irfft_odd": given * 2 - 1, "irfft_even": given * 2 - 2}.get(name, given)

    @property
    def points(self) -> int | None:
        """The same of a transform whose stages and tables are in the code."""
        length = None if self.length is None else self.length.constant
        return length if length is not None and 1 <= length <= MOST_POINTS else None

    def reference(self, *operands: Array) -> Array:
        rows = [np.asarray(x, order="C") for x in operands]  # as compiled code hands them over
        return packed(self.routine.data, rows, self.dtype.numpy)

    def cores(self) -> Shapes:
        """The core shapes of the operands."""
        return split_cores(self.routine.data, [x.type for x in self.inputs])[1]  # pyright: ignore[reportArgumentType]

    def linear_operands(self) -> tuple[int, ...]:
        from mlc.dialects.tensor.library_tangents import LINEAR

        found = LINEAR.get(self.routine.data)
        return () if found is None else (found[0],)

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        from mlc.dialects.tensor.library_tangents import LINEAR

        return LINEAR[self.routine.data][1](b, self, cotangent)

    def jvp(self, b: OpBuilder, tangents: Sequence[SSAValue | None]) -> SSAValue | None:
        return self.joined(b, self.jvp_of_parts(b, tangents))

    def jvp_of_parts(self, b: OpBuilder, tangents: Sequence[SSAValue | None]) -> list[SSAValue]:
        """The tangents of the routine's results, each as the columns that it has in ours."""
        from mlc.dialects.tensor.library_tangents import part_tangents

        return part_tangents(b, self, tangents)

    def split(self, b: OpBuilder, x: SSAValue) -> list[SSAValue]:
        """The columns of each of the routine's results, of a value like ours."""
        columns = self.columns()
        if len(columns) == 1:
            return [x]
        lead, zero, one = self.shape[:-1], Dim.const(0), Dim.const(1)
        found: list[SSAValue] = []
        for first, width in columns:
            kind = tensor_type(self.dtype.ir, (*lead, width))
            offsets, steps = (*(zero for _ in lead), first), (one,) * (len(lead) + 1)
            found.append(b(SliceOp, x, offsets=offsets, steps=steps, declared=kind))
        return found

    def joined(self, b: OpBuilder, parts: Sequence[SSAValue]) -> SSAValue:
        """A value like ours of such columns."""
        return parts[0] if len(parts) == 1 else b(ConcatOp, *parts, axis=len(self.shape) - 1)

    def columns(self) -> list[tuple[Dim, Dim]]:
        """First column and number of columns of each of the routine's results."""
        found: list[tuple[Dim, Dim]] = []
        at = Dim.const(0)
        for shape in ROUTINES[self.routine.data].shapes(self.cores()):
            found.append((at, product(shape)))
            at = at + product(shape)
        return found

    def batch(
        self, b: OpBuilder, operands: Sequence[SSAValue], batched: Sequence[bool]
    ) -> SSAValue:
        count = shape_of(operands[list(batched).index(True)].type)[0]
        full = [
            x if k else broadcast_to(b, x, (count, *shape_of(x.type)))
            for x, k in zip(operands, batched, strict=True)
        ]
        return b(LibraryOp, *full, routine=self.routine)

    def harmless(self, b: OpBuilder, operand: int) -> SSAValue | None:
        """The unit matrix, which every factorisation can take; transforms take everything."""
        if self.routine.data == "tell":
            return full(b, 0.0, self.dtype, shape_of(self.inputs[0].type))  # whom nobody is
        if operand or ROUTINES[self.routine.data].cores[0] != 2:
            return None
        x = tensor_of(self.inputs[0])
        axes = len(shape_of(x))
        index = tensor_type(i64, shape_of(x))
        rows, columns = (b(IotaOp, axis=k, declared=index) for k in (axes - 2, axes - 1))
        return b(ConvertOp, b(CompareOp, rows, columns, predicate="eq"), declared=x)


def split_cores(name: str, operands: Sequence[Tensor]) -> tuple[Shape, Shapes]:
    """The leading axes, which all operands share, and the core shape of each."""
    leads: list[Shape] = []
    cores: list[Shape] = []
    for operand, rank in zip(operands, ROUTINES[name].cores, strict=True):
        shape = shape_of(operand)
        if len(shape) < rank:
            raise ShapeError(
                f"{name}: an array of {len(shape)} axes {spell(shape)}; expected at least {rank}"
            )
        leads.append(shape[: len(shape) - rank])
        cores.append(shape[len(shape) - rank :])
    if any(lead != leads[0] for lead in leads):
        raise ShapeError(f"mlc.library {name!r}: the leading axes of the operands differ")
    return leads[0], tuple(cores)
