"""The iteration space of a kernel and what it reads where: what scheduling and lowering share.

The axes are the result's, then the reduced ones. Everything is found by asking the ops for one
element.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from typing import cast

from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from mlc.dialects.dims import Dim, Shape, product, shape_of
from mlc.dialects.dtypes import DType
from mlc.dialects.numerics import is_strict
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.element import Ix, Point
from mlc.dialects.tensor.op import OpaqueOp, TensorOp
from mlc.dialects.tensor.order import Order
from mlc.dialects.tensor.reduce import Product, Reduction
from mlc.dialects.tensor.shape import ConcatOp, SliceOp
from mlc.lazy_dataclass import dataclass

ZERO = Dim.const(0)
RESULTS = -1  # stands for the results among the numbers of arguments
SOMEWHERE = Dim.symbol("_")  # an offset that is known only at run time


@dataclass(frozen=True)
class Affine(Ix):
    """A position as sum(coefficient * axis) + offset; unknown where it is read from memory."""

    terms: tuple[tuple[int, int], ...] = ()
    offset: Dim = ZERO
    known: bool = True

    def coefficient(self, axis: int) -> int:
        """How the position moves with an axis of the iteration space."""
        return dict(self.terms).get(axis, 0)

    @property
    def is_axis(self) -> int | None:
        """The axis, when the position is exactly one."""
        if not self.known or len(self.terms) != 1 or self.offset != ZERO:
            return None
        axis, coefficient = self.terms[0]
        return axis if coefficient == 1 else None


@dataclass(frozen=True)
class Access:
    """One read of a kernel input: which, where, and in which part of the nest.

    `per_result`: once per element of the result (an epilogue), not per point of the iteration
    space.
    """

    argument: int
    point: tuple[Affine, ...]
    shape: Shape
    per_result: bool

    @property
    def innermost(self) -> int:
        """The last axis of the input on which there is more than one place, else its last one."""
        several = [k for k, size in enumerate(self.shape) if size.constant != 1]
        return several[-1] if several else len(self.shape) - 1

    def is_moved_by(self, start: Shape) -> bool:
        """Whether a piece of a result that begins there reads where it is written."""
        return len(self.point) == len(start) and all(
            position.known and position.terms == ((axis, 1),) and position.offset == offset
            for axis, (position, offset) in enumerate(zip(self.point, start, strict=True))
        )

    def is_apart_from(self, sizes: Shape, start: Shape, count: Shape) -> bool:
        """Whether it reads, over a space of these sizes, nothing of a part of the tensor."""
        for position, first, number in zip(self.point, start, count, strict=True):
            if not position.known:
                continue
            low = high = position.offset
            for axis, coefficient in position.terms:
                end = (sizes[axis] - 1) * abs(coefficient)
                low, high = (low, high + end) if coefficient > 0 else (low - end, high)
            for gap in (first - high, low - first - number + 1):
                if gap.constant is not None and gap.constant > 0:
                    return True
        return False


@dataclass
class Nest:
    """A kernel's iteration space."""

    kernel: KernelOp
    reduction: Reduction | None
    sizes: Shape  # of every axis: result axes, then reduced axes
    rank: int  # number of result axes
    accesses: list[Access] = field(default_factory=list[Access])
    counted: set[int] = field(default_factory=set[int])  # axes whose position is used as a value
    weight: float = 1.0  # time of one point of the space relative to an addition
    order: Order = "any"  # in which summands must be combined
    siblings: tuple[Reduction, ...] = ()  # over the same space, combined at the same time

    @property
    def reductions(self) -> tuple[Reduction, ...]:
        """All of them."""
        return () if self.reduction is None else (self.reduction, *self.siblings)

    @property
    def states(self) -> tuple[DType, ...]:
        """The dtypes of what is combined, of one reduction after the other."""
        return tuple(x for op in self.reductions for x in op.combiner().state(op.summand()))

    def groups(self, strided: frozenset[int]) -> tuple[tuple[int, ...], ...]:
        """Adjacent axes that every access walks as one; axes of size 1 join their neighbour.

        `strided`: arguments that are not row-major, and RESULTS where results are not.
        """
        found: list[list[int]] = []
        for axis in range(len(self.sizes)):
            boundary = axis in (0, self.rank) or (axis > self.rank and self.order == "in lanes")
            if not boundary and found and self._joins(axis, strided):
                found[-1].append(axis)
            else:
                found.append([axis])
        return tuple(tuple(group) for group in found)

    def _joins(self, axis: int, strided: frozenset[int]) -> bool:
        if RESULTS in strided and axis < self.rank:
            return False
        if axis in self.counted or axis - 1 in self.counted:
            return False
        if not all(self._walks_as_one(access, axis, strided) for access in self.accesses):
            return False
        # an input read in two ways must be walked along the same pair of its axes in both
        inner: dict[int, int] = {}
        for access in self.accesses:
            for k, position in enumerate(access.point):
                if position.coefficient(axis) and inner.setdefault(access.argument, k) != k:
                    return False
        return True

    def _walks_as_one(self, access: Access, axis: int, strided: frozenset[int]) -> bool:
        uses = [
            [a for a, position in enumerate(access.point) if position.coefficient(d)]
            for d in (axis - 1, axis)
        ]
        if not uses[0] and not uses[1]:
            return True
        if access.argument in strided or [len(u) for u in uses] != [1, 1]:
            return False
        outer, inner = uses[0][0], uses[1][0]
        whole = access.point[outer].is_axis == axis - 1 and access.point[inner].is_axis == axis
        return whole and inner == outer + 1 and access.shape[inner] == self.sizes[axis]


_ANY = cast(SSAValue, object())


class _Probe:
    """An `ElementBuilder` that computes nothing and notes what is read."""

    def __init__(self, nest: Nest, stop: Collection[SSAValue], per_result: bool) -> None:
        self.nest = nest
        self.counted = nest.counted
        self.stop = stop
        self.per_result = per_result
        self.seen: set[tuple[int, Point]] = set()

    def constant(self, value: complex, dtype: DType) -> SSAValue:
        return _ANY

    def apply(self, op: type[Operation], *operands: SSAValue) -> SSAValue:
        return _ANY

    def compare(self, predicate: str, lhs: SSAValue, rhs: SSAValue, dtype: DType) -> SSAValue:
        return _ANY

    def select(self, condition: SSAValue, if_true: SSAValue, if_false: SSAValue) -> SSAValue:
        return _ANY

    def real(self, value: SSAValue) -> SSAValue:
        return _ANY

    def imag(self, value: SSAValue) -> SSAValue:
        return _ANY

    def pair(self, real: SSAValue, imag: SSAValue) -> SSAValue:
        return _ANY

    def convert(self, value: SSAValue, source: DType, target: DType) -> SSAValue:
        return _ANY

    def bitcast(self, value: SSAValue, element: Attribute) -> SSAValue:
        return _ANY

    def size(self, dim: Dim) -> SSAValue:
        return _ANY

    def position(self, at: Ix) -> SSAValue:
        assert isinstance(at, Affine)
        self.counted |= {axis for axis, _ in at.terms}
        return _ANY

    def at_element(self, value: SSAValue) -> Ix:
        return Affine(known=False)

    def affine(self, at: Ix, scale: int, offset: Dim) -> Ix:
        if scale == 0:
            return Affine(offset=offset)
        assert isinstance(at, Affine)
        return Affine(
            tuple((a, c * scale) for a, c in at.terms), at.offset * scale + offset, at.known
        )

    def shift(self, at: Ix, by: SSAValue) -> Ix:
        assert isinstance(at, Affine)
        return Affine(at.terms, at.offset + SOMEWHERE, at.known)

    def plus(self, a: Ix, b: Ix) -> Ix:
        assert isinstance(a, Affine)
        assert isinstance(b, Affine)
        return Affine(a.terms + b.terms, a.offset + b.offset, a.known and b.known)

    def check(self, ok: SSAValue, site: Operation, value: SSAValue, extent: SSAValue) -> None:
        return None

    def fetch(self, tensor: SSAValue, at: Point, where: SSAValue | None = None) -> SSAValue:
        if tensor in self.stop or (id(tensor), at) in self.seen:
            return _ANY
        self.seen.add((id(tensor), at))
        if isinstance(tensor, BlockArgument):
            point = tuple(p for p in at if isinstance(p, Affine))
            access = Access(tensor.index, point, shape_of(tensor.type), self.per_result)
            self.nest.accesses.append(access)
            return _ANY
        op = tensor.owner
        assert isinstance(op, TensorOp)
        self.nest.weight += op.WEIGHT if op.FLOPS else 0.0
        return op.element(self, at)


@dataclass
class Reads:
    """Where one op reads its operands."""

    points: dict[int, tuple[tuple[Affine, ...], ...]]  # by operand
    counted: set[int]  # axes of its iteration space whose position is used as a value


class _OpProbe(_Probe):
    """Notes what one op reads, whatever its operands are."""

    def __init__(self, op: TensorOp) -> None:
        self.op = op
        self.counted: set[int] = set()
        self.points: dict[int, tuple[tuple[Affine, ...], ...]] = {}

    def fetch(self, tensor: SSAValue, at: Point, where: SSAValue | None = None) -> SSAValue:
        point = tuple(p for p in at if isinstance(p, Affine))
        for k, operand in enumerate(self.op.operands):
            if operand is tensor:
                self.points[k] = (*self.points.get(k, ()), point)
        return _ANY


def reads_of(op: TensorOp) -> Reads:
    """Where the op reads its operands for one point of its iteration space."""
    probe = _OpProbe(op)
    op.element(probe, tuple(Affine(((axis, 1),)) for axis in range(len(op.iteration()))))
    return Reads(probe.points, probe.counted)


class _PlaceProbe(_OpProbe):
    """
    As `_OpProbe`; a position that is known only at run time is a term of its own, -1, -2, …, so
    that two of them are not taken for one.
    """

    def __init__(self, op: TensorOp) -> None:
        super().__init__(op)
        self.unknown = 0
        self.guarded: set[int] = set()

    def fetch(self, tensor: SSAValue, at: Point, where: SSAValue | None = None) -> SSAValue:
        if where is not None:
            self.guarded.update(k for k, x in enumerate(self.op.operands) if x is tensor)
        return super().fetch(tensor, at, where)

    def _unknown(self) -> tuple[int, int]:
        self.unknown += 1
        return -self.unknown, 1

    def at_element(self, value: SSAValue) -> Ix:
        return Affine((self._unknown(),))

    def shift(self, at: Ix, by: SSAValue) -> Ix:
        assert isinstance(at, Affine)
        return Affine((*at.terms, self._unknown()), at.offset)


def places_of(op: TensorOp) -> tuple[dict[int, tuple[tuple[Affine, ...], ...]], set[int]]:
    """
    As the points of `reads_of`; what is known only at run time are terms below 0. And the operands
    that are read only where some condition holds.
    """
    probe = _PlaceProbe(op)
    op.element(probe, tuple(Affine(((axis, 1),)) for axis in range(len(op.iteration()))))
    return probe.points, probe.guarded


def whole_of(kernel: KernelOp) -> OpaqueOp | None:
    """The op whose result the kernel writes as a whole, if it holds one."""
    owner = kernel.yielded.values[0].owner
    return owner if isinstance(owner, OpaqueOp) else None


_KNOWN = "mlc_nest"
"""Python attribute of a kernel: what its nest was made of, the nest, and while what stayed."""

_staying: ContextVar[object | None] = ContextVar("mlc_nests_stay", default=None)


@contextmanager
def nests_stay() -> Generator[None]:
    """While nobody changes what kernels compute: what made a nest is looked at once."""
    token = _staying.set(object())
    try:
        yield
    finally:
        _staying.reset(token)


def nest_of(kernel: KernelOp) -> Nest | None:
    """The iteration space of a kernel; None for one written as a whole, or of several phases."""
    known: tuple[list[object], Nest | None, object] | None = getattr(kernel, _KNOWN, None)
    staying = _staying.get()
    if known is not None and staying is not None and known[2] is staying:
        return known[1]
    made_of = _made_of(kernel)
    nest = known[1] if known is not None and known[0] == made_of else _nest_of(kernel)
    setattr(kernel, _KNOWN, (made_of, nest, staying))
    return nest


def _made_of(kernel: KernelOp) -> list[object]:
    """All that decides on a kernel's nest: passes ask for it again and again, and rarely change."""
    found: list[object] = [kernel.template, kernel.overwritten, is_strict(kernel)]
    found += [argument.type for argument in kernel.block.args]
    for op in kernel.block.ops:
        found += [op, *op.operands, *op.properties.values()]
        found += [result.type for result in op.results]
    return found


def _nest_of(kernel: KernelOp) -> Nest | None:
    ops = list(kernel.block.ops)
    if whole_of(kernel) is not None or kernel.overwritten is not None:
        return None
    if kernel.template.data in ("rows", "nest"):
        return None
    reduction, *others = [op for op in ops if isinstance(op, Reduction)] or [None]
    result = shape_of(kernel.outs[0].type)
    sizes = result if reduction is None else reduction.iteration()
    siblings = tuple(op for op in others if op is not None)
    nest = Nest(kernel, reduction, sizes, len(result), siblings=siblings)
    axes = tuple(Affine(((axis, 1),)) for axis in range(len(sizes)))
    stop = {op.results[0] for op in nest.reductions}
    if reduction is not None:
        if is_strict(kernel):
            nest.order = reduction.order()
        summands = _Probe(nest, (), per_result=False)
        for op in nest.reductions:
            op.element(summands, axes)
        if len(reduction.combiner().state(reduction.summand())) > 1:
            nest.counted |= set(range(nest.rank, len(sizes)))
    probe = _Probe(nest, stop, per_result=reduction is not None)
    for value in kernel.yielded.values:
        probe.fetch(value, axes[: nest.rank])
    return nest


def is_single(op: Reduction) -> bool:
    """Whether a reduction combines one number for each result, and so may do beside others."""
    states = op.combiner().state(op.summand())
    single = len(states) == 1 and all(x.kind != "bool" for x in states)
    return single and not isinstance(op, Product) and not op.window_axes()


def reads_of_pieces(kernel: KernelOp, op: ConcatOp) -> Iterator[tuple[Shape, list[Access]]]:
    """Where each piece of a kernel's concatenation begins, and what one element of it reads."""
    for piece, start in op.pieces():
        sizes = shape_of(piece.type)
        nest = Nest(kernel, None, sizes, len(sizes))
        axes = tuple(Affine(((axis, 1),)) for axis in range(len(sizes)))
        _Probe(nest, (), per_result=False).fetch(piece, axes)
        yield start, nest.accesses


def kept_pieces(kernel: KernelOp, number: int) -> set[int]:
    """
    By their numbers, the pieces of a kernel's concatenation that are elements of an input as they
    stand there.
    """
    op = whole_of(kernel)
    if not isinstance(op, ConcatOp) or len(kernel.outs) != 1:
        return set()
    old = kernel.block.args[number]
    if old.type != kernel.outs[0].type:
        return set()
    pairs = zip(op.pieces(), reads_of_pieces(kernel, op), strict=True)
    return {
        k
        for k, ((piece, start), (_, accesses)) in enumerate(pairs)
        if _is_part_of(piece, old) and all(access.is_moved_by(start) for access in accesses)
    }


def _is_part_of(value: SSAValue, whole: SSAValue) -> bool:
    """Whether a value is made of slices of a tensor alone."""
    while isinstance(value.owner, SliceOp):
        value = value.owner.x
    return value is whole


def contiguous_votes(nest: Nest, *, of_points: bool = False) -> dict[int, int]:
    """
    For each axis, how many reads walk it with unit stride minus how many jump along it.

    `of_points`: without the reads of an epilogue, which are few beside those of every point.
    """
    votes = dict.fromkeys(range(len(nest.sizes)), 0)
    for access in nest.accesses:
        if of_points and access.per_result:
            continue
        for axis in votes:
            moved = [k for k, p in enumerate(access.point) if p.known and p.coefficient(axis)]
            if not moved:
                continue
            last = access.innermost
            unit = moved == [last] and access.point[last].coefficient(axis) == 1
            votes[axis] += 1 if unit else -1
    return votes


def group_sizes(nest: Nest, groups: Sequence[Sequence[int]]) -> tuple[Dim, ...]:
    """The size of each group of axes."""
    return tuple(product(nest.sizes[axis] for axis in group) for group in groups)
