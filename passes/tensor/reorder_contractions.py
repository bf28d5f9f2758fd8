"""
Chains of contractions in the order that costs least.

A tree of contractions whose inner results nobody else reads is one sum of products, of which any
order of pairs is a plan. Dynamic programming over the sets of operands finds the cheapest.
SOURCE: Godbole, "On efficient computation of matrix chain products", IEEE Trans. Comput. C-22(9),
1973; over sets rather than intervals, since operands have letters and any two may be next.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.outside import outside_kernels
from mlc.dialects.dims import Dim, product
from mlc.dialects.numerics import is_strict
from mlc.dialects.target import Target
from mlc.dialects.target.attribute import target_of
from mlc.dialects.tensor.comparison import CompareOp
from mlc.dialects.tensor.control import IfOp, YieldOp
from mlc.dialects.tensor.create import SizeOp
from mlc.dialects.tensor.elementwise import MulOp
from mlc.dialects.tensor.letters import ALPHABET
from mlc.dialects.tensor.op import OpBuilder, element_dtype
from mlc.dialects.tensor.reduce import ContractOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.ops import point_cost
from mlc.passes.cost.work import FAR, clock
from mlc.passes.remarks import remark
from mlc.passes.tensor.rules import Rewrite

MOST = 8
"""Operands of a chain that are put in the best order: 3**8 pairs of sets, about 20 ms."""

SAMPLES = (4, 64, 1024, 16384)
"""Sizes at which orders are compared where a size is a symbol."""

GAIN = 0.9
"""A new order must cost less than this share of the old one."""

Tree = int | tuple["Tree", "Tree"]
"""The number of an operand, or two trees whose results are contracted."""


@dataclass(frozen=True)
class ReorderContractionsPass(ModulePass):
    """
    (a @ b) @ v  ->  a @ (b @ v)

    Where sizes are symbols and no order is best for all, `mlc.if` compares the costs at run time.
    Sums are associated anew: numerics "standard".
    """

    name = "mlc-reorder-contractions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if is_strict(op):
            return
        target = target_of(op)
        for inner in list(outside_kernels(op)):
            if isinstance(inner, ContractOp) and inner.parent is not None and _is_root(inner):
                _reorder(inner, _Rates.of(inner, target))


@dataclass(frozen=True)
class _Rates:
    """
    What moving a byte and starting a kernel cost, in the time of a floating-point operation: small
    numbers, as programs compute with them where sizes are symbols.
    """

    bytes: int
    start: int

    @staticmethod
    def of(op: ContractOp, target: Target) -> _Rates:
        point, costs = point_cost(type(op), op.dtype, target), clock(target)
        byte, start = (round(op.FLOPS * x / point) for x in (costs.byte[FAR], costs.start))
        return _Rates(max(1, byte), start)


_FLOPS = _Rates(0, 0)


@dataclass(frozen=True)
class _Chain:
    """Operands with the letters of the whole sum of products, and the letters of its result."""

    values: tuple[SSAValue, ...]
    words: tuple[str, ...]
    result: str
    sizes: Mapping[str, Dim]
    given: Tree  # the order in the program
    item: int  # bytes of an element

    def kept(self, members: frozenset[int]) -> str:
        """The letters of the product of some operands: those that somebody else needs."""
        inside = "".join(dict.fromkeys("".join(self.words[k] for k in sorted(members))))
        if len(members) == len(self.words):
            return self.result
        rest = "".join(w for k, w in enumerate(self.words) if k not in members) + self.result
        return "".join(c for c in inside if c in rest)

    def word(self, tree: Tree) -> str:
        """The letters of a tree's result."""
        return self.words[tree] if isinstance(tree, int) else self.kept(_members(tree))

    def cost(self, tree: Tree, rates: _Rates) -> Dim:
        """In floating-point operations, as a polynomial in the symbols."""
        if isinstance(tree, int):
            return Dim.const(0)
        words = [self.word(part) for part in (*tree, tree)]
        return self.step(words, rates) + self.cost(tree[0], rates) + self.cost(tree[1], rates)

    def step(self, words: Sequence[str], rates: _Rates) -> Dim:
        """Of one contraction, by the letters of its operands and result."""
        points = product(self.sizes[c] for c in dict.fromkeys(words[0] + words[1]))
        moved = sum((product(self.sizes[c] for c in w) for w in words), Dim.const(0))
        return points * 2 + moved * (self.item * rates.bytes) + rates.start


def _members(tree: Tree) -> frozenset[int]:
    return frozenset((tree,)) if isinstance(tree, int) else _members(tree[0]) | _members(tree[1])


def _is_root(op: ContractOp) -> bool:
    """Whether the op is not itself the inner part of a chain."""
    uses = list(op.result.uses)
    if len(uses) != 1:
        return True
    reader = uses[0].operation
    return not isinstance(reader, ContractOp) or reader.parent is not op.parent


def _chain(root: ContractOp) -> _Chain | None:
    """The operands of a whole tree; None where there are too few or too many."""
    letters = iter(ALPHABET)
    values: list[SSAValue] = []
    words: list[str] = []
    sizes: dict[str, Dim] = {}

    def visit(op: ContractOp, result: str) -> Tree:
        inner, own, reduced = op.words()
        names = dict(zip(own, result, strict=True))
        for c in reduced:
            names[c] = next(letters)
        sizes.update({names[c]: size for c, size in op.sizes().items()})
        parts = [
            operand(x, "".join(names[c] for c in word))
            for x, word in zip(op.operands, inner, strict=True)
        ]
        return (parts[0], parts[1])

    def operand(x: SSAValue, word: str) -> Tree:
        owner = x.owner
        alone = x.has_one_use()
        if isinstance(owner, ContractOp) and alone and owner.parent is root.parent:
            return visit(owner, word)
        values.append(x)
        words.append(word)
        return len(values) - 1

    try:
        result = "".join(next(letters) for _ in root.shape)
        given = visit(root, result)
    except StopIteration:  # more letters than there are
        return None
    if not 3 <= len(values) <= MOST:
        return None
    item = element_dtype(root.result).bytes
    return _Chain(tuple(values), tuple(words), result, sizes, given, item)


def _best(chain: _Chain, at: Mapping[str, int], rates: _Rates) -> Tree:
    """The cheapest order for concrete sizes."""
    count = len(chain.values)
    sizes = {c: Dim.const(size.evaluate(at)) for c, size in chain.sizes.items()}
    chain = _Chain(chain.values, chain.words, chain.result, sizes, chain.given, chain.item)
    best: dict[frozenset[int], tuple[int, Tree]] = {frozenset((k,)): (0, k) for k in range(count)}
    for size in range(2, count + 1):
        for combination in itertools.combinations(range(count), size):
            members = frozenset(combination)
            best[members] = min(_ways(chain, members, best, rates), key=lambda x: x[0])
    return best[frozenset(range(count))][1]


def _ways(
    chain: _Chain,
    members: frozenset[int],
    best: Mapping[frozenset[int], tuple[int, Tree]],
    rates: _Rates,
) -> Iterator[tuple[int, Tree]]:
    """Every last contraction of some operands, with the cheapest ways to its two parts."""
    first, *others = sorted(members)
    result = chain.kept(members)
    for count in range(len(others)):
        for rest in itertools.combinations(others, count):
            left = frozenset((first, *rest))
            right = members - left
            words = [_word(chain, left), _word(chain, right), result]
            cost = chain.step(words, rates).evaluate({})
            (a, x), (b, y) = best[left], best[right]
            yield a + b + cost, (x, y)


def _word(chain: _Chain, members: frozenset[int]) -> str:
    return chain.words[min(members)] if len(members) == 1 else chain.kept(members)


def _reorder(root: ContractOp, rates: _Rates) -> None:
    chain = _chain(root)
    if chain is None:
        return
    symbols = sorted({s for size in chain.sizes.values() for s in size.symbols()})
    samples = [
        dict(zip(symbols, sizes, strict=True))
        for sizes in itertools.product(SAMPLES, repeat=min(len(symbols), 3))
        if len(symbols) <= 3
    ]
    given = chain.cost(chain.given, rates)
    found: dict[Tree, None] = {}
    for at in samples:
        tree = _best(chain, at, rates)
        cost = chain.cost(tree, rates)
        better = cost.evaluate(at) < GAIN * given.evaluate(at)
        found[tree if better else chain.given] = None
    if not found or list(found) == [chain.given]:
        return
    b = Rewrite()
    b.anchor = root
    value = _choice(chain, list(found)[:3], rates, b)
    said = " or ".join(_spelled(tree) for tree in list(found)[:3])
    flops = [chain.cost(tree, _FLOPS) for tree in (chain.given, *list(found)[:3])]
    remark(
        root,
        f"contractions in the order {said} instead of {_spelled(chain.given)} (reassociating):"
        f" {' or '.join(map(str, flops[1:]))} operations, not {flops[0]}",
    )
    root.result.replace_all_uses_with(value)
    assert root.parent is not None
    root.parent.erase_op(root)


def _choice(chain: _Chain, trees: Sequence[Tree], rates: _Rates, b: OpBuilder) -> SSAValue:
    """The value by the first of the orders that is not dearer than those after it."""
    if len(trees) == 1:
        return _emit(chain, trees[0], b)
    mine = b(SizeOp, dims=(chain.cost(trees[0], rates),))
    condition: SSAValue | None = None
    for other in trees[1:]:
        theirs = b(SizeOp, dims=(chain.cost(other, rates),))
        wins = b(CompareOp, mine, theirs, predicate="le")
        condition = wins if condition is None else b(MulOp, condition, wins)
    assert condition is not None
    sides: list[Region] = []
    for part in (trees[:1], trees[1:]):
        block = Block()
        inner = OpBuilder(block.add_op)
        value = _choice(chain, part, rates, inner)
        block.add_op(YieldOp.create(operands=[value]))
        sides.append(Region(block))
    op = IfOp(condition, *sides)
    b.insert(op)
    return op.outs[0]


def _emit(chain: _Chain, tree: Tree, b: OpBuilder) -> SSAValue:
    if isinstance(tree, int):
        return chain.values[tree]
    left, right = (_emit(chain, part, b) for part in tree)
    words = [chain.word(part) for part in (*tree, tree)]
    return b(ContractOp, left, right, letters=f"{words[0]},{words[1]}->{words[2]}")


def _spelled(tree: Tree) -> str:
    """``(0 (1 2))``: which operands meet first."""
    return str(tree) if isinstance(tree, int) else f"({_spelled(tree[0])} {_spelled(tree[1])})"
