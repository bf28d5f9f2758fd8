"""
Which products of narrow factors are cut by words: bf16 and f16 with sums in f32, bytes and pairs of
bytes with sums in i32, also where the program widens them before it multiplies.
"""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, SSAValue

from mlc.dialects.dtypes import dtype_of
from mlc.dialects.numerics import is_strict
from mlc.dialects.places import root_of
from mlc.dialects.plan import KernelOp
from mlc.dialects.roles import ContractionRoles, contraction_roles
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.intrinsics import Intrinsic
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.op import tensor_of
from mlc.dialects.tensor.reduce import ContractOp
from mlc.dialects.tensor.shape import BroadcastOp, SliceOp, TransposeOp
from mlc.dialects.tile.words import Block, Grain, Pack, Via, Word, Words
from mlc.passes.tensor.constants import repeated_element
from mlc.passes.tile.apply_words import APPLIED
from mlc.passes.tile.choose import choose_schedule
from mlc.passes.tile.panels import holds
from mlc.passes.tile.predict import Problem, row_of

WORKERS = 2
"""For so many schedules are chosen, since bits must not depend on how many there are (D1)."""
MOST_AROUND = 8
"""Ops around a product; of more, what is computed stays in registers no longer."""
NO_LOOPS = ("mmla_bf16", "mmla_s8")
"""Instructions that no lowering of tile programs has yet: their sums are small matrices."""
_NARROW = {"f32": ("bf16", "f16"), "i32": ("i8", "u8", "i16")}
_AROUND = (Elementwise, BroadcastOp, TransposeOp, SliceOp)


def words_of_narrow(kernel: KernelOp, target: CpuTarget, grain_s: float) -> Words | None:
    """The words for a product of narrow factors; None for others. `grain_s`: a worker's least."""
    op = next((x for x in kernel.block.ops if isinstance(x, ContractOp)), None)
    roles = contraction_roles(op) if op is not None else None
    if op is None or roles is None or not _is_plain(kernel, op, roles):
        return None
    problem = _problem(op, roles)
    sums = problem.dtypes[2]
    if any(x not in _NARROW.get(sums, ()) for x in problem.dtypes[:2]):
        return None
    waits = list(kernel.yielded.values) == [op.results[0]] and op.summand() is op.dtype
    lies = _in_memory(op.operands[1 if roles.swapped else 0])
    # whole depths first: narrow panels are small, and no sums wait in memory
    for words in sorted((c.words for c in choose_schedule(problem, target)), key=_cuts_depth):
        packs = any(isinstance(word, Pack) and word.operand == "a" for word in words)
        if (packs or lies) and all(_is_applied(word, waits) for word in words):
            row = row_of(problem, words, target)
            macs = row.macs_per_cycle(target) * target.clock_hz * grain_s
            return (*(_in_dtype(word, row) for word in words), Grain(int(macs)))
    return None


def _cuts_depth(words: Words) -> bool:
    """Whether sums wait for blocks of the summed axis."""
    return any(isinstance(word, Block) and word.axis == "k" for word in words)


def _is_applied(word: Word, waits: bool) -> bool:
    """Whether passes make this cut; `waits`: sums wait in the result, which is nothing but them."""
    if isinstance(word, Block) and word.axis == "k" and not waits:
        return False
    return type(word) in APPLIED and not (isinstance(word, Via) and word.row in NO_LOOPS)


def _in_dtype(word: Word, row: Intrinsic) -> Word:
    """The word; panels are in the instruction's dtype, whatever the program has widened before."""
    if not isinstance(word, Pack):
        return word
    return replace(word, dtype=row.dtypes["ab".index(word.operand)])


def _is_plain(kernel: KernelOp, op: ContractOp, roles: ContractionRoles) -> bool:
    """A product of matrices of known sizes, with few elementwise ops around it, in no loop."""
    one = len(roles.m) == len(roles.n) == len(roles.k) == 1 >= len(roles.batch)
    known = all(size.constant for size in op.sizes().values())
    apart = any(word[-1] in roles.batch for word in op.words()[0])
    others = [x for x in kernel.block.ops if x not in (op, kernel.yielded)]
    return (
        one
        and known
        and not apart
        and isinstance(kernel.parent_op(), FuncOp)
        and not is_strict(kernel)
        and not any(map(_has_any_strides, kernel.inputs))
        and len(others) <= MOST_AROUND
        and all(
            isinstance(x, _AROUND)
            or (isinstance(x, ConstantOp) and repeated_element(x) is not None)
            for x in others
        )
    )


def _has_any_strides(value: SSAValue) -> bool:
    root = root_of(value)
    function = root.owner.parent_op() if isinstance(root, BlockArgument) else None
    if not isinstance(function, FuncOp) or function.arg_attrs is None:
        return False
    assert isinstance(root, BlockArgument)
    return function.arg_attrs.data[root.index].data.get("mlc.layout") == StringAttr("general")


def _problem(op: ContractOp, roles: ContractionRoles) -> Problem:
    """The product by values alone."""
    sizes, words = op.sizes(), op.words()[0]
    factors = [*zip(words, op.operands, strict=True)]
    (left, a), (right, b) = factors[::-1] if roles.swapped else factors

    def size(letters: str) -> int:
        return 1 if not letters else sizes[letters].constant or 0

    return Problem(
        m=size(roles.m),
        n=size(roles.n),
        k=size(roles.k),
        batch=size(roles.batch),
        dtypes=(_narrowest(a), _narrowest(b), op.summand().name),
        a_unit="k" if left[-1] in roles.k else "m",
        b_unit="n" if right[-1] in roles.n else "k",
        threads=WORKERS,
    )


def _in_memory(factor: SSAValue) -> bool:
    """Whether a factor is an argument, or one widened."""
    return isinstance(_as_made(factor), BlockArgument)


def _narrowest(factor: SSAValue) -> str:
    """The dtype of a factor's elements before a conversion that keeps all values."""
    return dtype_of(tensor_of(_as_made(factor)).element_type).name


def _as_made(factor: SSAValue) -> SSAValue:
    """A factor before a conversion that keeps all values."""
    op = factor.owner
    return op.x if isinstance(op, ConvertOp) and holds(op.dtype, op.source) else factor
