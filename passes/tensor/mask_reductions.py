"""Elements that a mask picks and that are only reduced, or written back, are not gathered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.dims import Dim, FloorDiv, Shape, product, shape_of, tensor_type
from mlc.dialects.dtypes import BOOL, I64
from mlc.dialects.numerics import numerics_of
from mlc.dialects.tensor.bind import BindOp, symbols_in
from mlc.dialects.tensor.comparison import CompareOp, SelectOp
from mlc.dialects.tensor.control import YieldOp
from mlc.dialects.tensor.create import IotaOp, SizeOp, full
from mlc.dialects.tensor.elementwise import AddOp, Elementwise, MulOp
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.letters import ALPHABET, split
from mlc.dialects.tensor.op import TensorOp, element_dtype, tensor_of
from mlc.dialects.tensor.positions import PositionsOp
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tensor.scatter import ScatterOp
from mlc.dialects.tensor.shape import (
    BroadcastOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
    broadcast_to,
)
from mlc.dialects.tensor.some import SomeOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.remarks import remark
from mlc.passes.tensor.rules import Rewrite

OpT = TypeVar("OpT", bound=TensorOp)
ONE = Dim.const(1)
REDUCED = ("sum", "prod", "max", "min")


@dataclass(frozen=True)
class MaskReductionsPass(ModulePass):
    """
    sum(f(x[positions(mask)]))               ->  sum(select(mask, f(x), 0))
    scatter "set" x[positions(mask)], f(y[positions(mask)])  ->  select(mask, f(y), x)
    size <"k">                               ->  the number that `mlc.bind` gives the symbol

    for elementwise f, sums, products, extrema. What f makes of other elements is not looked at.
    """

    name = "mlc-mask-reductions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        in_turn = numerics_of(op) == "strict"
        for function in op.body.block.ops:
            for region in function.regions:
                for block in region.blocks:
                    mask_reductions(block, in_turn=in_turn)


def with_masks(block: Block, ends: Sequence[SSAValue]) -> list[SSAValue]:
    """
    Reductions of a block that is being traced as masked ones; what it ends with, as it is called
    then.
    """
    last = YieldOp.create(operands=ends)
    block.add_op(last)
    mask_reductions(block, written=False)
    found = list(last.operands)
    _drop_unused(block)
    block.erase_op(last)
    return found


def _drop_unused(block: Block) -> None:
    """Erases what mentions symbols that nobody needs, and what binds them."""
    said: set[str] = set()
    for op in reversed(list(block.ops)):
        if isinstance(op, BindOp) and op.symbol.data not in said:
            block.erase_op(op)
            continue
        own = symbols_in(op)
        unused = isinstance(op, TensorOp) and op.results[0].first_use is None
        if own and unused:
            block.erase_op(op)
            continue
        said |= own
        for inner in op.walk() if op.regions else ():
            said |= symbols_in(inner)


def mask_reductions(block: Block, *, written: bool = True, in_turn: bool = False) -> None:
    """
    Rewrites the ops of a block and of the blocks inside it, in place: `written` what is written by
    masks too, `in_turn` no sums of floats, whose order would be another one.
    """
    masks = _Masks()
    for op in list(block.walk()):
        match op:
            case BindOp():
                masks.binds[op.symbol.data] = op
            case PositionsOp():
                masks.add(op)
            case SizeOp() if masks.binds:
                masks.rewrite(op, masks.size)
            case ReduceOp() | ContractOp() if in_turn and op.order() != "any":
                pass
            case ReduceOp() if masks.positions:
                masks.rewrite(op, masks.reduced)
            case ContractOp() if masks.positions:
                masks.rewrite(op, masks.contracted)
            case ScatterOp() if masks.positions and written:
                masks.rewrite(op, masks.written)
            case _:
                pass


class _Masks:
    """The masks met so far, by the symbol of how many of their elements are true."""

    def __init__(self) -> None:
        self.binds: dict[str, BindOp] = {}
        self.positions: dict[Dim, PositionsOp] = {}
        self.b = Rewrite()
        self._known: dict[tuple[SSAValue, int], SSAValue | None] = {}

    def add(self, op: PositionsOp) -> None:
        """Where a mask is true has a symbol of its own."""
        if (name := op.shape[0].single_symbol) is not None and name in self.binds:
            self.positions[op.shape[0]] = op

    def rewrite(self, op: OpT, rule: Callable[[OpT], SSAValue | None]) -> None:
        """Puts what a rule makes of an op in its place."""
        self.b.anchor, self.b.built = op, []
        self._known.clear()
        found = rule(op)
        if found is None:
            for made in reversed(self.b.built):
                made.detach()
                made.erase()
            return
        found.name_hint = found.name_hint or op.results[0].name_hint
        op.results[0].replace_all_uses_with(found)
        op.detach()
        op.erase()

    # rules --------------------------------------------------------------------------------------

    def size(self, op: SizeOp) -> SSAValue | None:
        """A size as a number."""
        if not op.dim.symbols() & self.binds.keys():
            return None
        total: SSAValue | None = None
        for monomial, coefficient in op.dim.terms:
            term: SSAValue | None = None
            for atom in monomial:
                if isinstance(atom, FloorDiv):
                    return None
                bind = self.binds.get(atom)
                factor = self.b(SizeOp, dims=(Dim.symbol(atom),)) if bind is None else bind.x
                term = factor if term is None else self.b(MulOp, term, factor)
            if term is None or coefficient != 1:
                number = full(self.b, coefficient, I64, ())
                term = number if term is None else self.b(MulOp, term, number)
            total = term if total is None else self.b(AddOp, total, term)
        return total

    def reduced(self, op: ReduceOp) -> SSAValue | None:
        """A reduction over what a mask picks."""
        axis = self._picked(shape_of(op.x.type))
        if axis is None or axis not in op.axes() or op.monoid.data not in REDUCED:
            return None
        dim, monoid = shape_of(op.x.type)[axis], op.combiner()
        if monoid.needs_element and any(d.constant is None for d in op.shape):
            return None  # whether there must be one is known when it runs
        whole = self.whole(op.x, axis)
        if whole is None:
            return None
        start = monoid.identity(element_dtype(op.x))[0]
        kept = self._kept(self.positions[dim], whole, axis, start)
        found = self.b(ReduceOp, kept, monoid=op.monoid, letters=op.letters)
        if monoid.needs_element and product(op.shape).constant != 0:
            found = self._of_some(op, dim, found, start)
        _say(op, "masks what it reduces")
        return found

    def _of_some(self, op: ReduceOp, dim: Dim, found: SSAValue, start: float) -> SSAValue:
        """The result, for which there must be an element."""
        (name,) = dim.symbols()
        count = self.b(SomeOp, self.binds[name].x, reduction=op.monoid)
        some = self.b(CompareOp, count, full(self.b, 0, I64, ()), predicate="gt")
        none = full(self.b, start, op.dtype, op.shape)
        return self.b(SelectOp, broadcast_to(self.b, some, op.shape), found, none)

    def contracted(self, op: ContractOp) -> SSAValue | None:
        """A product of two vectors that a mask picks."""
        words, result, _ = op.words()
        if result or words[0] != words[1] or len(words[0]) != 1:
            return None
        if self._picked(shape_of(op.operands[0].type)) is None:
            return None
        parts: list[SSAValue] = []
        for x in op.operands:
            if (whole := self.whole(x, 0)) is None:
                return None
            parts.append(self._kept(self.positions[shape_of(x.type)[0]], whole, 0, 0))
        _say(op, "masks its factors")
        return self.b(ContractOp, *parts, letters=op.properties["letters"])

    def written(self, op: ScatterOp) -> SSAValue | None:
        """Elements that a mask picks, written where it picks them."""
        words, result = split(op.letters.data)
        if op.mode.data != "set" or len(op.indices) != 1 or len(words[1]) != 1:
            return None
        owner, axis = op.indices[0].owner, result.index(words[1])
        if not isinstance(owner, PositionsOp) or self.positions.get(owner.shape[0]) is not owner:
            return None
        whole = self.whole(op.update, axis)
        if whole is None:
            return None
        source = words[0].replace("0", words[1])
        if source != result:
            whole = self.b(TransposeOp, whole, letters=f"{result}->{source}")
        place = words[0].index("0")
        mask = self._spread(owner, shape_of(op.x.type), place)
        _say(op, "writes by the mask")
        return self.b(SelectOp, mask, whole, op.x)

    # values -------------------------------------------------------------------------------------

    def _picked(self, shape: Shape) -> int | None:
        """The axis along which a mask picked elements, if there is one."""
        found = [k for k, dim in enumerate(shape) if dim in self.positions]
        return found[0] if len(found) == 1 else None

    def _spread(self, op: PositionsOp, shape: Shape, axis: int) -> SSAValue:
        letters = ALPHABET[: len(shape)]
        if len(shape) == 1:
            return op.mask
        declared = tensor_type(BOOL.ir, shape)
        text = f"{letters[axis]}->{letters}"
        return self.b(BroadcastOp, op.mask, letters=text, declared=declared)

    def _kept(self, op: PositionsOp, x: SSAValue, axis: int, other: float) -> SSAValue:
        """`x` where the mask is true, another number elsewhere."""
        shape = shape_of(x.type)
        dtype = element_dtype(x)
        return self.b(SelectOp, self._spread(op, shape, axis), x, full(self.b, other, dtype, shape))

    def whole(self, x: SSAValue, axis: int) -> SSAValue | None:
        """
        A value of which `x` holds the elements along an axis that the mask picks; None where there
        is none that is as cheap.
        """
        key = (x, axis)
        if key not in self._known:
            self._known[key] = self._whole(x, axis)
        return self._known[key]

    def _whole(self, x: SSAValue, axis: int) -> SSAValue | None:
        op = x.owner
        if not isinstance(op, TensorOp) or self._picked(op.shape) != axis:
            return None
        size = shape_of(self.positions[op.shape[axis]].mask.type)[0]
        declared = tensor_type(
            tensor_of(x).element_type, (*op.shape[:axis], size, *op.shape[axis + 1 :])
        )
        match op:
            case PositionsOp():
                return self.b(IotaOp, axis=0, declared=declared)
            case GatherOp():
                return self._source(op, axis)
            case Elementwise() if not op.CHECKS:
                parts = self._parts(op.operands, axis)
                return None if parts is None else self._again(op, parts, declared)
            case BroadcastOp():
                return self._broadcast(op, axis, declared)
            case TransposeOp():
                ((word,), result) = split(op.letters.data)
                whole = self.whole(op.operands[0], word.index(result[axis]))
                return None if whole is None else self._again(op, [whole], declared)
            case ReduceOp():
                ((word,), result, _) = op.words()
                whole = self.whole(op.x, word.index(result[axis]))
                return None if whole is None else self._again(op, [whole], declared)
            case ReshapeOp():
                return self._reshaped(op, axis, declared)
            case SliceOp() if op.offsets.data[axis] == Dim.const(0):
                same = shape_of(op.x.type)[axis] == op.shape[axis]
                whole = self.whole(op.x, axis) if same and op.steps.data[axis] == ONE else None
                return None if whole is None else self._again(op, [whole], declared)
            case _:
                return None

    def _again(self, op: TensorOp, operands: Sequence[SSAValue], kind: object) -> SSAValue:
        """The op on whole operands."""
        new = op.on(operands, kind)  # pyright: ignore[reportArgumentType]
        self.b.insert(new)
        return new.results[0]

    def _parts(self, operands: Sequence[SSAValue], axis: int) -> list[SSAValue] | None:
        found: list[SSAValue] = []
        for x in operands:
            whole = self.whole(x, axis)
            if whole is None:
                return None
            found.append(whole)
        return found

    def _source(self, op: GatherOp, axis: int) -> SSAValue | None:
        """What a gather by a mask's positions reads, its axes in the result's order."""
        words, result = split(op.letters.data)
        index = op.indices[0].owner
        alone = len(op.indices) == 1 and words[1] == result[axis]
        if not alone or not isinstance(index, PositionsOp):
            return None
        if self.positions.get(index.shape[0]) is not index:
            return None
        source = words[0].replace("0", words[1])
        if source == result:
            return op.source
        if sorted(source) != sorted(result):
            return None
        return self.b(TransposeOp, op.source, letters=f"{source}->{result}")

    def _broadcast(self, op: BroadcastOp, axis: int, kind: object) -> SSAValue | None:
        ((word,), result) = split(op.letters.data)
        if result[axis] not in word:
            return self._again(op, [op.x], kind)
        whole = self.whole(op.x, word.index(result[axis]))
        return None if whole is None else self._again(op, [whole], kind)

    def _reshaped(self, op: ReshapeOp, axis: int, kind: object) -> SSAValue | None:
        """A reshape that leaves the axis as it is."""
        before = shape_of(op.x.type)
        place = self._picked(before)
        if place is None or product(before[:place]) != product(op.shape[:axis]):
            return None
        whole = self.whole(op.x, place)
        return None if whole is None else self._again(op, [whole], kind)


def _say(op: ReduceOp | ContractOp | ScatterOp, what: str) -> None:
    exact = isinstance(op, ScatterOp) or op.order() == "any"
    kind = "exact" if exact else "reassociating"
    remark(op, f"{what}: the elements that a mask picks are not gathered ({kind})")
