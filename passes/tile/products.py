"""
Which contractions are cut by words, and by which: the best schedule of `choose.py` that the passes
of tile programs apply. Of f32 and f64, and of narrow factors with wider sums: bf16 and f16 in f32,
bytes and pairs of bytes in i32, also where the program widens them before it multiplies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeGuard

from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, SSAValue

from mlc.dialects.dims import product
from mlc.dialects.dtypes import DType, dtype_of, named_dtype
from mlc.dialects.numerics import is_strict
from mlc.dialects.places import root_of
from mlc.dialects.plan import KernelOp
from mlc.dialects.roles import contraction_roles
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.intrinsics import Intrinsic
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.op import tensor_of
from mlc.dialects.tensor.reduce import ContractOp
from mlc.dialects.tensor.shape import BroadcastOp, SliceOp, TransposeOp
from mlc.dialects.tile.words import Block, Grain, Pack, Register, Via, Word, Words, is_shared
from mlc.passes.tensor.constants import repeated_element
from mlc.passes.tile.apply_words import APPLIED
from mlc.passes.tile.choose import choose_schedule
from mlc.passes.tile.panels import holds
from mlc.passes.tile.predict import Problem, row_of

MOST_AROUND = 8
"""Ops around a product; of more, what is computed stays in registers no longer."""
NO_LOOPS = ("mmla_bf16", "mmla_s8")
"""Instructions that no lowering of tile programs has yet: their sums are small matrices."""
_SUMS = {"f32": ("f32", "bf16", "f16"), "f64": ("f64",), "i32": ("i8", "u8", "i16")}
"""dtype of the sums -> of the factors."""
_AROUND = (Elementwise, BroadcastOp, TransposeOp, SliceOp)


def words_of_product(kernel: KernelOp, target: CpuTarget, grain_s: float) -> Words | None:
    """The words for a contraction; None where it keeps numbers. `grain_s`: a worker's least."""
    op = contraction_of(kernel)
    if op is None or refusal(kernel, op) is not None:
        return None
    problem = problem_of(op)
    found = (c.words for c in choose_schedule(problem, target))
    fitting = (x for x in found if unapplied(kernel, op, x) is None)
    if problem.dtypes[1] != problem.dtypes[2]:
        # whole depths first: narrow panels are small, and no sums wait in memory
        fitting = iter(sorted(fitting, key=_cuts_depth))
    words = next(fitting, None)
    if words is None:
        return None
    macs = row_of(problem, words, target).macs_per_cycle(target) * target.clock_hz * grain_s
    return (*words_for(op, words, target), Grain(int(macs)))


def contraction_of(kernel: KernelOp) -> ContractOp | None:
    """A kernel's product."""
    return next((x for x in kernel.block.ops if isinstance(x, ContractOp)), None)


def words_for(op: ContractOp, words: Words, target: CpuTarget) -> Words:
    """A schedule as a program's product has it: for any team, and with panels' dtypes said."""
    roles = contraction_roles(op)
    assert roles is not None
    problem = problem_of(op)
    row = row_of(problem, words, target)
    factors = op.operands[::-1] if roles.swapped else op.operands
    return tuple(_in_dtype(word, row, factors) for word in shared(words, problem, target))


def _cuts_depth(words: Words) -> bool:
    """Whether sums wait for blocks of the summed axis."""
    return any(isinstance(word, Block) and word.axis == "k" for word in words)


def unapplied(kernel: KernelOp, op: ContractOp, words: Words) -> str | None:
    """
    The first cut that passes do not make, and why. Sums wait in the result, which is nothing but
    them, and a factor that is computed is so once: where it is packed.
    """
    for word in words:
        if type(word) not in APPLIED or (isinstance(word, Via) and word.row in NO_LOOPS):
            return f"{word}: no pass applies it yet"
    alone = list(kernel.yielded.values) == [op.results[0]] and op.summand() is op.dtype
    if _cuts_depth(words) and not alone:
        return "block(k, …): sums wait in the result, which is something else"
    roles = contraction_roles(op)
    assert roles is not None
    packed = {word.operand for word in words if isinstance(word, Pack)}
    for x, factor in zip("ba" if roles.swapped else "ab", op.operands, strict=True):
        if x not in packed and not _in_memory(factor):
            return f"{x} is computed where it is read; expected pack({x}, …)"
    return None


def shared(words: Words, problem: Problem, target: CpuTarget) -> Words:
    """
    The words for a team of any size, so that bits do not depend on it (D1): workers share batches
    where each one's copies fit its caches, else what is packed for all, and rows.
    """
    if is_shared(words):
        return words
    first = words[0] if words else None
    if isinstance(first, Block) and first.axis == "g":
        if _copied(words, problem) <= target.l2_bytes:
            return (replace(first, team=True), *words[1:])
        return (first, *shared(words[1:], problem, target))
    found = [replace(x, team=True) if _is_common(x) else x for x in words]
    if not any(isinstance(word, Block) and word.axis == "m" for word in words):
        tile = next(word for word in words if isinstance(word, Register))
        inner = next(
            k for k, x in enumerate(found) if not isinstance(x, Block) and not _is_common(x)
        )
        found.insert(inner, Block("m", -(-problem.m // tile.m) * tile.m, team=True))
    return tuple(found)


def _is_common(word: Word) -> TypeGuard[Pack | Block]:
    """Whether workers share what a word makes: panels of b, or blocks of rows."""
    if isinstance(word, Pack):
        return word.operand == "b"
    return isinstance(word, Block) and word.axis == "m"


def _copied(words: Words, problem: Problem) -> int:
    """Bytes of all panels."""
    left = {"m": problem.m, "n": problem.n, "k": problem.k}
    total = 0
    for word in words:
        if isinstance(word, Block) and word.axis in left:
            left[word.axis] = min(left[word.axis], word.step)
        elif isinstance(word, Pack):
            across = left["m" if word.operand == "a" else "n"]
            whole = -(-across // word.panels) * word.panels
            item = named_dtype(word.dtype or problem.dtypes["ab".index(word.operand)]).bytes
            total += whole * (left["k"] + word.depth + word.group) * item
    return total


def _in_dtype(word: Word, row: Intrinsic, factors: Sequence[SSAValue]) -> Word:
    """The word; panels are in the instruction's dtype, whatever the program has widened before."""
    if not isinstance(word, Pack):
        return word
    which = "ab".index(word.operand)
    have = dtype_of(tensor_of(factors[which]).element_type).name
    return replace(word, dtype="" if row.dtypes[which] == have else row.dtypes[which])


# which


def refusal(kernel: KernelOp, op: ContractOp) -> str | None:
    """Why a contraction keeps numbers; None where words cut it."""
    return next(_obstacles(kernel, op), None)


def _obstacles(kernel: KernelOp, op: ContractOp) -> Iterator[str]:
    roles = contraction_roles(op)
    if roles is None or len(roles.batch) > 1 or len(roles.m + roles.n + roles.k) != 3:
        yield "a role has no letter, or several"
        return
    if not all(size.constant for size in op.sizes().values()):
        yield "a size is known only when the program runs, or nothing is there"
    if any(word[-1] in roles.batch for word in op.words()[0]):
        yield "elements of a batch lie apart"
    if not isinstance(kernel.parent_op(), FuncOp):
        yield "it stands in a loop"
    if is_strict(kernel):
        yield "numerics are strict: sums have one order"
    if any(map(_has_any_strides, kernel.inputs)):
        yield "an argument may have any strides"
    dtypes = _SUMS.get(op.summand().name, ())
    factors = [_narrowest(factor).name for factor in op.operands]
    if not all(x in dtypes for x in factors):
        yield f"sums of {op.summand().name} and factors of {' and '.join(factors)}"
    around = [x for x in kernel.block.ops if x not in (op, kernel.yielded)]
    if len(around) > MOST_AROUND:
        yield f"{len(around)} ops stand around the product"
    for x in around:
        uniform = isinstance(x, ConstantOp) and repeated_element(x) is not None
        if not (uniform or isinstance(x, _AROUND)):
            yield f"{x.name} stands around the product"


def _has_any_strides(value: SSAValue) -> bool:
    root = root_of(value)
    function = root.owner.parent_op() if isinstance(root, BlockArgument) else None
    if not isinstance(function, FuncOp) or function.arg_attrs is None:
        return False
    assert isinstance(root, BlockArgument)
    return function.arg_attrs.data[root.index].data.get("mlc.layout") == StringAttr("general")


def problem_of(op: ContractOp) -> Problem:
    """The product by values alone, for one worker."""
    sizes, words, roles = op.sizes(), op.words()[0], contraction_roles(op)
    assert roles is not None
    factors = [*zip(words, op.operands, strict=True)]
    (left, a), (right, b) = factors[::-1] if roles.swapped else factors

    def size(letters: str) -> int:
        return product(sizes[c] for c in letters).constant or 0

    return Problem(
        m=size(roles.m),
        n=size(roles.n),
        k=size(roles.k),
        batch=size(roles.batch),
        dtypes=(_narrowest(a).name, _narrowest(b).name, op.summand().name),
        a_unit="k" if left[-1] in roles.k else "m",
        b_unit="n" if right[-1] in roles.n else "k",
    )


def _in_memory(factor: SSAValue) -> bool:
    """Whether a factor is an argument, or one widened."""
    return isinstance(_as_made(factor), BlockArgument)


def _narrowest(factor: SSAValue) -> DType:
    """The dtype of a factor's elements before a conversion that keeps all values."""
    return dtype_of(tensor_of(_as_made(factor)).element_type)


def _as_made(factor: SSAValue) -> SSAValue:
    """A factor before a conversion that keeps all values."""
    op = factor.owner
    return op.x if isinstance(op, ConvertOp) and holds(op.dtype, op.source) else factor
