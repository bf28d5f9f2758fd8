"""
Contractions of one tensor with several factors are one, with the factors side by side.

The queries, keys and values of attention are one product: its rows are read once, and its register
tiles are full where those of narrow factors are not. The factors stay where they lie (`mlc.join` is
read while the packed panels are filled), and each result is a slice of the one result, a view. So
nothing is copied; where a copy would be needed, the contractions stay apart, with a remark.
SOURCE: Jia et al., "TASO", SOSP 2019, section 2, which splits the result by a copy.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.matmul_axes import SMALL_CONTRACTION, ContractionRoles, contraction_roles
from mlc.dialects.analysis.outside import outside_kernels
from mlc.dialects.dims import Dim, Shape, product, shape_of, tensor_type
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.attribute import cpu_of
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.op import OpBuilder, TensorOp, bytes_of, element_dtype, tensor_of
from mlc.dialects.tensor.reduce import ContractOp, Product
from mlc.dialects.tensor.shape import (
    BroadcastOp,
    JoinOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
)
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.work import FAR, clock
from mlc.passes.remarks import remark
from mlc.passes.tensor.constants import splat, splat_constant
from mlc.passes.tensor.reorder_contractions import SAMPLES
from mlc.passes.tensor.rules import Rewrite
from mlc.passes.tensor.views import Place, letters, regrouped_slice, slice_of_reshape

MOST = 8
"""Contractions that are merged into one: each more is another test while panels are filled."""

LEAST_ROWS = 32
"""Rows from which merging repays. Measured: docs/measurements.md, Merged siblings."""

ZERO = Dim.const(0)


@dataclass(frozen=True)
class MergeSiblingsPass(ModulePass):
    """
    q = x @ wq; k = x @ wk; v = x @ wv  ->  y = x @ (wq | wk | wv); q, k, v = slices of y

    Exact: each sum has the same terms in the same order. For CPUs, whose lowering packs factors.
    """

    name = "mlc-merge-siblings"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = cpu_of(op, self.name)
        for block in list(_blocks(op)):
            _merge_in(block, target)


def _blocks(op: Operation) -> Iterator[Block]:
    for inner in outside_kernels(op):
        if not isinstance(inner, KernelOp):
            for region in inner.regions:
                yield from region.blocks


@dataclass(frozen=True)
class _Sibling:
    """A contraction, the operand that it may share, and the axes of its own columns."""

    op: Product
    shared: int
    roles: ContractionRoles

    @property
    def factor(self) -> SSAValue:
        """The operand that is its own."""
        return self.op.operands[1 - self.shared]

    @property
    def columns(self) -> Dim:
        """How many columns it has."""
        return self.op.sizes()[self.roles.n]

    @property
    def factor_axis(self) -> int:
        """The factor's axis of columns."""
        return self.op.words()[0][1 - self.shared].index(self.roles.n)

    @property
    def result_axis(self) -> int:
        """The result's axis of columns."""
        return self.op.words()[1].index(self.roles.n)


def _sibling(op: Operation) -> _Sibling | None:
    if not isinstance(op, Product) or op.dtype.kind == "bool" or not op.results[0].uses:
        return None
    roles = contraction_roles(op)
    if roles is None or len(roles.n) != 1:
        return None
    return _Sibling(op, 1 if roles.swapped else 0, roles)


def _form(sibling: _Sibling) -> Hashable:
    """Equal for contractions that differ in their factors and numbers of columns alone."""
    op = sibling.op
    words, result, _ = op.words()
    both = [words[sibling.shared], words[1 - sibling.shared], result]
    names = {c: k for k, c in enumerate(dict.fromkeys("".join(both)))}
    text = op.properties["letters"]
    assert isinstance(text, StringAttr)
    spelled = tuple(names.get(c, c) for c in text.data)
    sizes = {names[c]: d for c, d in op.sizes().items() if c != sibling.roles.n}
    return (
        (type(op), op.dtype, sibling.shared, op.operands[sibling.shared], spelled),
        tuple(sorted(sizes.items())),
    )


def _merge_in(block: Block, target: CpuTarget) -> None:
    groups: dict[Hashable, list[_Sibling]] = {}
    for op in block.ops:
        if (sibling := _sibling(op)) is not None:
            groups.setdefault(_form(sibling), []).append(sibling)
    for group in groups.values():
        for first in range(0, len(group), MOST):
            if len(some := group[first : first + MOST]) > 1:
                _merge(some, block, target)


def _merge(group: Sequence[_Sibling], block: Block, target: CpuTarget) -> None:
    order = {op: k for k, op in enumerate(block.ops)}
    if (why := _refusal(group, order, target)) is not None:
        remark(group[-1].op, f"{len(group)} contractions of one tensor stay apart: {why}")
        return
    first = min(_first_use(s.op.results[0], order) for s in group)
    b = Rewrite()
    b.anchor = list(block.ops)[first]
    saved, results = _saved(group), [s.op.results[0] for s in group]
    value = _product(group, b)
    new = value.owner
    assert isinstance(new, Operation)
    new.location = group[0].op.location
    remark(
        new,
        f"{len(group)} contractions of one tensor are one (exact): {len(group) - 1} kernels and"
        f" {saved} bytes of reading less; results are views of one buffer",
    )
    axis = group[0].result_axis
    slices = _slices(value, results, axis, b)
    for s, part in zip(group, slices, strict=True):
        part.name_hint = s.op.results[0].name_hint
        s.op.results[0].replace_all_uses_with(part)
        block.erase_op(s.op)
    for part in _merge_epilogues(value, slices, axis):
        _reshape_before(part)


def _reshape_before(part: SSAValue) -> None:
    """Reshapes of a slice are slices of a reshape, which is a view of the one result."""
    for use in list(part.uses):
        op = use.operation
        if isinstance(op, ReshapeOp) and not op.unit_axes_only():
            b = Rewrite()
            b.anchor = op
            new = slice_of_reshape(op, b)
            assert new is not None
            op.result.replace_all_uses_with(new)
            assert op.parent is not None
            op.parent.erase_op(op)


def _product(group: Sequence[_Sibling], b: OpBuilder) -> SSAValue:
    """The one contraction."""
    one = group[0]
    joined = b(JoinOp, *(s.factor for s in group), axis=one.factor_axis)
    operands = list(one.op.operands)
    operands[1 - one.shared] = joined
    shape = list(one.op.shape)
    shape[one.result_axis] = sum((s.columns for s in group), ZERO)
    declared = tensor_type(one.op.dtype.ir, tuple(shape))
    return b(type(one.op), *operands, declared=declared, **dict(one.op.properties))


def _slices(whole: SSAValue, parts: Sequence[SSAValue], axis: int, b: OpBuilder) -> list[SSAValue]:
    """The parts of a value that stand one after another on an axis."""
    found: list[SSAValue] = []
    at = ZERO
    for part in parts:
        dims = shape_of(part.type)
        offsets = tuple(at if k == axis else ZERO for k in range(len(dims)))
        steps = (Dim.const(1),) * len(dims)
        found.append(b(SliceOp, whole, offsets=offsets, steps=steps, declared=tensor_of(part)))
        at = at + dims[axis]
    return found


# What follows each alike


def _merge_epilogues(whole: SSAValue, slices: Sequence[SSAValue], axis: int) -> Sequence[SSAValue]:
    """f(slice, …) of every slice  ->  slices of f(whole, …), as long as all are alike."""
    while (alike := _alike(slices, axis)) is not None:
        b = Rewrite()
        b.anchor = alike[0]
        shape = shape_of(whole.type)
        kind = tensor_type(alike[0].dtype.ir, shape)
        operands = [
            whole if x is slices[0] else _beside([op.operands[k] for op in alike], shape, axis, b)
            for k, x in enumerate(alike[0].operands)
        ]
        whole = b(type(alike[0]), *operands, declared=kind, **dict(alike[0].properties))
        new = _slices(whole, [op.results[0] for op in alike], axis, b)
        for op, value in zip(alike, new, strict=True):
            op.results[0].replace_all_uses_with(value)
            assert op.parent is not None
            op.parent.erase_op(op)
        slices = new
    return slices


def _alike(slices: Sequence[SSAValue], axis: int) -> list[Elementwise] | None:
    """The only reader of each slice, where these are one elementwise op of like operands."""
    found: list[Elementwise] = []
    for value in slices:
        if not value.has_one_use():
            return None
        (use,) = value.uses
        op = use.operation
        if not isinstance(op, Elementwise) or op.parent is not value.owner.parent:
            return None
        first = found[0] if found else op
        if type(op) is not type(first) or op.properties != first.properties:
            return None
        if list(op.operands).index(value) != list(first.operands).index(slices[0]):
            return None
        found.append(op)
    if any(why for why in _obstacles([op.results[0] for op in found], axis)):
        return None
    place = list(found[0].operands).index(slices[0])
    others = [k for k in range(len(found[0].operands)) if k != place]
    anchor = found[0]
    ready = all(_precedes(x, anchor) for op in found for k in others for x in _root(op.operands[k]))
    rows = all(_is_beside([op.operands[k] for op in found], axis) for k in others)
    is_first = all(op is anchor or anchor.is_before_in_block(op) for op in found)
    return found if ready and rows and is_first else None


def _root(value: SSAValue) -> tuple[SSAValue, ...]:
    """What must be known where the value is made anew."""
    return (value.owner.x,) if isinstance(value.owner, BroadcastOp) else (value,)


def _precedes(value: SSAValue, anchor: Operation) -> bool:
    owner = value.owner
    if isinstance(owner, Block) or owner.parent is not anchor.parent:
        return True
    return owner.is_before_in_block(anchor)


def _is_beside(values: Sequence[SSAValue], axis: int) -> bool:
    """Whether all parts have one number, or vectors along the axis of the parts alone."""
    numbers = [None if (x := splat(value)) is None else x.tobytes() for value in values]
    if None not in numbers and len(set(numbers)) == 1:
        return True
    for x in values:
        if not isinstance(x.owner, BroadcastOp):
            return False
        source, result = letters(x.owner)
        if source != result[axis]:
            return False
    return True


def _beside(values: Sequence[SSAValue], shape: Shape, axis: int, b: OpBuilder) -> SSAValue:
    """The vectors one after another, broadcast as each of them was."""
    first, element = values[0].owner, element_dtype(values[0])
    if (number := splat(values[0])) is not None:
        return splat_constant(b, number, element, shape)
    assert isinstance(first, BroadcastOp)
    vectors = [x.owner.x for x in values if isinstance(x.owner, BroadcastOp)]
    joined = b(JoinOp, *vectors, axis=0)
    return b(BroadcastOp, joined, letters=first.letters, declared=tensor_type(element.ir, shape))


# Whether it pays


def _refusal(
    group: Sequence[_Sibling], order: dict[Operation, int], target: CpuTarget
) -> str | None:
    """Why the contractions stay apart; None where they are merged."""
    first = min(_first_use(s.op.results[0], order) for s in group)
    for s in group:
        owner = s.factor.owner
        is_late = isinstance(owner, Operation) and order.get(owner, -1) >= first
        if is_late or any(owner is other.op for other in group):
            return "a factor is made of a result, or after one is read"
    one, sizes = group[0], group[0].op.sizes()
    lanes = target.lanes(8 * one.op.summand().bytes)
    rows = product(sizes[c] for c in one.roles.m)
    rows = rows.evaluate(dict.fromkeys(rows.symbols(), 1))  # at least, where there is work at all
    depth = product(sizes[c] for c in one.roles.k).constant
    columns = sum((s.columns for s in group), ZERO).constant
    if isinstance(one.op, ContractOp) and columns is not None and columns <= 4 * lanes:
        return f"{columns} columns are read where they lie, without packing"
    if rows < LEAST_ROWS:
        return f"as few as {rows} rows read them; {LEAST_ROWS} repay looking for each factor"
    if rows * (depth or 1) * (columns or 1) < SMALL_CONTRACTION and None not in (depth, columns):
        return "they are small"
    for why in _obstacles([s.op.results[0] for s in group], one.result_axis):
        if why is not None:
            return f"{why}, so a slice of the one result would be copied"
    if not _pays(group, target):
        return "what follows each is no epilogue any more, which costs more than is saved"
    return None


def _first_use(value: SSAValue, order: dict[Operation, int]) -> int:
    """The place in the block of the first op that reads the value, or holds who does."""
    found: list[int] = []
    for use in value.uses:
        op: Operation | None = use.operation
        while op is not None and op not in order:
            op = op.parent_op()
        if op is not None:
            found.append(order[op])
    return min(found)


def _obstacles(parts: Sequence[SSAValue], axis: int) -> Iterator[str | None]:
    """For each part of a value to be, who cannot read it as a view."""
    total = sum((shape_of(x.type)[axis] for x in parts), ZERO)
    at = ZERO
    for part in parts:
        yield _needs_memory(part, (axis, at, total))
        at = at + shape_of(part.type)[axis]


def _needs_memory(value: SSAValue, place: Place | None) -> str | None:
    """
    Who cannot read a slice as a view. `place`: the axis, offset and whole size of the slice; None
    for views of it.
    """
    pending = [(value, place)]
    while pending:
        value, place = pending.pop()
        for use in value.uses:
            op = use.operation
            if not isinstance(op, TensorOp):
                return "a result leaves the function or region"
            if use.index in op.stored_operands():
                return f"{op.name} reads a result at computed places"
            if isinstance(op, ReshapeOp) and not op.unit_axes_only():
                if place is None or regrouped_slice(shape_of(value.type), op.shape, place) is None:
                    return "a reshape joins its columns with other axes"
            elif not isinstance(op, (TransposeOp, SliceOp, ReshapeOp, BroadcastOp)):
                continue
            pending.append((op.results[0], None))
    return None


def _saved(group: Sequence[_Sibling]) -> Dim:
    """Bytes of the shared operand that are not read again."""
    return bytes_of(group[0].op.operands[group[0].shared].type) * (len(group) - 1)


def _pays(group: Sequence[_Sibling], target: CpuTarget) -> bool:
    """
    Whether reading the shared operand and starting kernels less often outweighs the epilogues that
    become kernels: each would read and write its result once more.
    """
    slices = [s.op.results[0] for s in group]
    if _alike_without_slices(slices, group[0].result_axis):
        return True
    costs = clock(target)
    start = costs.start // costs.byte[FAR]  # in the time of a byte
    saved = _saved(group) + start * (len(group) - 1)
    lost = ZERO
    for value in slices:
        if _has_epilogue(value):
            lost = lost + bytes_of(value.type) * 2 + start
    symbols = sorted((saved - lost).symbols())
    return all((saved - lost).evaluate(dict.fromkeys(symbols, size)) > 0 for size in SAMPLES)


def _has_epilogue(value: SSAValue) -> bool:
    """Whether one elementwise op alone reads the result: it runs on the register tile."""
    return value.has_one_use() and all(isinstance(u.operation, Elementwise) for u in value.uses)


def _alike_without_slices(values: Sequence[SSAValue], axis: int) -> bool:
    """Whether what follows is merged as well, and what follows that is no epilogue."""
    if not all(_has_epilogue(x) for x in values):
        return False
    alike = _alike(values, axis)
    return alike is not None and not any(_has_epilogue(op.results[0]) for op in alike)
