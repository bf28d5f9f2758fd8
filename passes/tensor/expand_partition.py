"""Partitions by sorts, for targets that have a template for these alone."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.dims import Dim, shape_of, tensor_type
from mlc.dialects.dtypes import BOOL, I32, dtype_of
from mlc.dialects.target.attribute import target_of
from mlc.dialects.tensor.comparison import CompareOp, ConvertOp, MaxOp, MinOp
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.elementwise import AddOp
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.letters import ALPHABET
from mlc.dialects.tensor.op import OpBuilder, element_dtype, tensor_of, text_property
from mlc.dialects.tensor.partition import PARTITION, Partitioned, PartitionOp
from mlc.dialects.tensor.placing import PadOp
from mlc.dialects.tensor.shape import BroadcastOp, ReshapeOp, SliceOp
from mlc.dialects.tensor.sort import ArgsortOp, SortOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.rules import Rewrite, Rules

RULES = Rules()


@dataclass(frozen=True)
class ExpandPartitionPass(ModulePass):
    """
    argpartition x  ->  argsort of each element's group, stable: before, at or behind the element
    of the rank, which a sort puts in its place. For targets where only sorts have loops.
    """

    name = "mlc-expand-partition"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not target_of(op).has_partition:
            RULES.sweep(op)


def expanded(op: Partitioned, b: Rewrite) -> SSAValue:
    """The op by sorts."""
    x, order = op.operands[0], op.properties["order"]
    shape = shape_of(x.type)
    element = tensor_of(x).element_type
    word = ALPHABET[: len(shape)]
    one, zero = Dim.const(1), Dim.const(0)
    # of a rank too large the last one: there is none in an array of unknown size
    last = shape[-1].constant
    kth = op.rank if last is None else min(op.rank, max(last - 1, 0))
    in_order = b(SortOp, x, order=order)
    steps = (one,) * len(shape)
    ranked = tensor_type(element, shape[:-1])
    line = tensor_type(element, (*shape[:-1], one))
    offsets = (*(zero for _ in shape[:-1]), Dim.const(kth))
    if last is None or last <= kth:  # an axis without elements has none of this rank
        nothing = (zero,) * len(shape)
        number = full(b, 0, dtype_of(element), ())
        in_order = b(PadOp, in_order, number, low=nothing, high=(*nothing[1:], Dim.const(kth + 1)))
    border = b(SliceOp, in_order, offsets=offsets, steps=steps, declared=line)
    border = b(ReshapeOp, border, declared=ranked)
    border = b(BroadcastOp, border, letters=f"{word[:-1]}->{word}", declared=tensor_of(x))
    if text_property(op.properties, "order") == "descending":
        x_before, behind = _less(b, border, x), _less(b, x, border)
    else:
        x_before, behind = _less(b, x, border), _less(b, border, x)
    not_before = b(CompareOp, x_before, full(b, False, BOOL, shape), predicate="eq")
    numbers = (b(ConvertOp, v, declared=tensor_type(I32.ir, shape)) for v in (not_before, behind))
    places = b(ArgsortOp, b(AddOp, *numbers), order="ascending")
    if op.keeps_first:
        kept = tensor_type(tensor_of(places).element_type, op.shape)
        places = b(SliceOp, places, offsets=(zero,) * len(shape), steps=steps, declared=kept)
    if not isinstance(op, PartitionOp):
        return places
    return b(GatherOp, x, places, letters=f"{word[:-1]}0,{word}->{word}")


for _op in PARTITION:
    RULES.on(_op)(expanded)


def _less(b: OpBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """x < y, with NaN the largest value."""
    less = b(CompareOp, x, y, predicate="lt")
    if element_dtype(x).kind != "float":
        return less
    number, nan = b(CompareOp, x, x, predicate="eq"), b(CompareOp, y, y, predicate="ne")
    return b(MaxOp, less, b(MinOp, number, nan))
