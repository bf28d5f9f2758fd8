"""What is known of the numbers in a tile program: how large they are at most, what divides them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from xdsl.ir import Block, BlockArgument, OpResult, SSAValue

from mlc.dialects.dims import Dim, FloorDiv
from mlc.dialects.tensor.comparison import MaxOp, MinOp
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tile.control import ForOp
from mlc.dialects.tile.element import ElementsOp, MapOp, PositionOp
from mlc.dialects.tile.expression import Positions, letter, positions_in, renamed
from mlc.dialects.tile.pipeline import RolesOp
from mlc.dialects.tile.types import frag_of, view_of
from mlc.dialects.tile.work import WorkOp

Bounds = Mapping[str, Sequence[Dim]]
"""Of letters, sizes none of which they reach."""
_DEEPEST = 64  # loops


def is_inside(
    at: Dim, values: Sequence[SSAValue], size: Dim, letters: Bounds | None = None
) -> bool:
    """Whether an expression over positions and letters is always from 0 to below a size."""
    named = Positions(values)
    terms = _expanded(at, named, letters or {})
    return terms is not None and _is_below(*terms, named, size, _DEEPEST)


def may_be_below(at: Dim, values: Sequence[SSAValue], letters: Bounds | None = None) -> bool:
    """Whether an expression over positions and letters may be less than 0."""
    named = Positions(values)
    if _expanded(at, named, letters or {}) is None:
        return True
    computed = (named.values[k] for k in positions_in([at]))
    return any(isinstance(x, OpResult) and _clamped(x) is None for x in computed)


def _expanded(
    at: Dim, named: Positions, letters: Bounds
) -> tuple[Dim, dict[str, Sequence[Dim]]] | None:
    """Coordinates of maps as where they begin and letters of their own; None if it may be < 0."""
    found: dict[str, Sequence[Dim]] = {f".{c}": tuple(sizes) for c, sizes in letters.items()}
    for number in range(len(named.values)):
        value = named.values[number]
        owner = value.owner if isinstance(value, BlockArgument) else None
        op = owner.parent_op() if isinstance(owner, Block) else None
        if isinstance(op, MapOp) and isinstance(value, BlockArgument):
            axis = value.index - len(op.inputs)
            if axis < 0:
                return None
            (start,) = named.moved(op.starts.data[axis].data, op.positions) or (Dim.const(0),)
            name = f"x{number}"
            found[f".{name}"] = (frag_of(op.outs[0]).dims.data[axis],)
            at = renamed(at, {f"%{number}": start + letter(name)})
    at = _without_remainders(at, found)
    if any(-1 in _signs(at, s) for s in at.symbols()) or any(c < 0 for _, c in at.terms):
        return None
    return at, found


def _without_remainders(at: Dim, letters: dict[str, Sequence[Dim]]) -> Dim:
    """`x mod n`, which is `x - x // n * n`, as a letter below n."""
    parts = [
        (monomial[0], coefficient)
        for monomial, coefficient in at.terms
        if len(monomial) == 1 and isinstance(monomial[0], FloorDiv)
    ]
    for atom, coefficient in parts:
        for inner in (1, *(other.divisor for other, _ in parts)):
            size = atom.divisor // inner
            if coefficient >= 0 or size < 2 or atom.divisor % inner or coefficient % size:
                continue
            times = -coefficient // size
            whole = Dim((((atom,), size),))
            rest = at - (atom.numerator // inner - whole) * times
            if len(rest.terms) < len(at.terms):
                name = f"r{len(letters)}"
                letters[f".{name}"] = (Dim.const(size),)
                return _without_remainders(rest + letter(name) * times, letters)
    return at


def _is_below(
    at: Dim, letters: Mapping[str, Sequence[Dim]], named: Positions, size: Dim, depth: int
) -> bool:
    """Whether `at` < `size`: what moves is put at its largest, inner loops first."""
    moving = [s for s in at.symbols() if s[0] in "%."]
    if not moving:
        rest = size - at - 1
        return all(c >= 0 for _, c in rest.terms)
    if depth == 0:
        return False
    # letters first; of a loop what is left before where it is, which then cancel each other
    atom = max(moving, key=lambda s: (s[0] == ".", *_rank(named, s), s))
    signs = _signs(at, atom)
    if len(signs) > 1:
        return False
    least = [Dim.const(0)] if signs == {-1} else None
    for most in least or _largest(atom, letters, named):
        if _is_below(_exact(renamed(at, {atom: most}), named), letters, named, size, depth - 1):
            return True
    return False


def _exact(at: Dim, named: Positions) -> Dim:
    """An expression without quotients that come out even and are multiplied by their divisor."""
    total = Dim.const(0)
    for monomial, coefficient in at.terms:
        atom = monomial[0] if len(monomial) == 1 else None
        if isinstance(atom, FloorDiv) and coefficient % atom.divisor == 0:
            part = _whole_part(atom, named)
            if part is not None:
                total = total + part * (coefficient // atom.divisor)
                continue
        total = total + Dim(((monomial, coefficient),))
    return total


def _whole_part(at: FloorDiv, named: Positions) -> Dim | None:
    """What a division rounds down to, times the divisor: where only a number is left over."""
    whole, rest = Dim.const(0), 0
    for monomial, coefficient in at.numerator.terms:
        term = Dim(((monomial, coefficient),))
        if not monomial:
            rest += coefficient
        elif multiple(term, named) % at.divisor:
            return None
        else:
            whole = whole + term
    return whole + rest // at.divisor * at.divisor


def _rank(named: Positions, atom: str) -> tuple[int, int]:
    """How deep the loop of a position is, and which of its arguments that is."""
    value = named.values[int(atom[1:])] if atom[0] == "%" else None
    depth, block = 0, value.owner if value is not None else None
    while isinstance(block, Block) and (op := block.parent_op()) is not None:
        depth, block = depth + 1, op.parent
    return depth, value.index if isinstance(value, BlockArgument) else 0


def _signs(at: Dim, atom: str) -> set[int]:
    """The signs with which an atom stands in an expression."""
    found: set[int] = set()
    for monomial, coefficient in at.terms:
        sign = 1 if coefficient > 0 else -1
        for part in monomial:
            if isinstance(part, FloorDiv):
                found |= {sign * inner for inner in _signs(part.numerator, atom)}
            elif part == atom:
                found.add(sign)
    return found


def _largest(atom: str, letters: Mapping[str, Sequence[Dim]], named: Positions) -> Iterable[Dim]:
    """Expressions over what stands further out that an atom does not exceed."""
    if atom[0] == ".":
        return [size - 1 for size in letters.get(atom, ())]
    value = named.values[int(atom[1:])]
    owner = value.owner
    if isinstance(value, OpResult):
        last = _clamped(value)
        return [] if last is None else named.moved(*last)
    op = owner.parent_op() if isinstance(owner, Block) else None
    if isinstance(op, ElementsOp) and isinstance(value, BlockArgument):
        return [view_of(op.result).shape[value.index] - 1]
    if isinstance(op, RolesOp) and isinstance(owner, Block):
        return [Dim.const(op.copies(_region_of(op, owner)) - 1)]
    if isinstance(op, WorkOp) and value in op.positions:
        assert isinstance(value, BlockArgument)
        step = op.steps.data[value.index].value.data
        extents = op.extents.data[value.index].data
        shared = op.threads is None and value.index == 0  # a cluster has items past the end
        whole = step * (op.blocks if shared else 1)
        return [n + (whole - step - math.gcd(whole, multiple(n, named))) for n in extents]
    if not isinstance(op, ForOp) or not isinstance(value, BlockArgument):
        return []
    for axis, (index, size, loop) in enumerate(zip(op.indices, op.sizes, op.loops, strict=True)):
        extents = named.moved(loop.extent.data, op.positions)
        step = multiple_of(index)
        if index is value:
            return [n - math.gcd(step, multiple(n, named)) for n in extents]
        if size is value:
            beyond = [n - named.of(op.indices[axis]) for n in extents]
            return [Dim.const(loop.step), *beyond]
    return []


def _region_of(op: RolesOp, block: Block) -> int:
    return next(k for k, body in enumerate(op.bodies) if body.block is block)


def _clamped(value: OpResult) -> tuple[tuple[Dim, ...], Sequence[SSAValue]] | None:
    """The largest value of what is computed as `max(min(x, last), 0)`, in positions."""
    least = value.op
    if not isinstance(least, MaxOp) or not isinstance(most := least.lhs.owner, MinOp):
        return None
    zero, last = least.rhs.owner, most.rhs.owner
    if not isinstance(zero, ConstantOp) or zero.array() != 0:
        return None
    if isinstance(last, ConstantOp):
        return (Dim.const(int(last.array())),), ()
    return (last.at.data, last.positions) if isinstance(last, PositionOp) else None


def multiple(dim: Dim, named: Positions) -> int:
    """A number that divides an expression."""
    found = 0
    for monomial, coefficient in dim.terms:
        factor = coefficient
        for atom in monomial:
            if isinstance(atom, str) and atom[0] == "%":
                factor *= multiple_of(named.values[int(atom[1:])])
        found = math.gcd(found, factor)
    return found


def multiple_of(value: SSAValue) -> int:
    """A number that divides a position of a loop, or the size of its trip."""
    owner = value.owner
    op = owner.parent_op() if isinstance(owner, Block) else None
    if isinstance(op, WorkOp) and value in op.positions:
        assert isinstance(value, BlockArgument)
        return op.steps.data[value.index].value.data
    if isinstance(op, WorkOp) and op.part is not None and value in op.part:
        return op.step_size
    if not isinstance(op, ForOp):
        return 1
    unit = op.deal.data.unit if op.deal is not None else None
    for index, size, loop in zip(op.indices, op.sizes, op.loops, strict=True):
        step = unit or loop.step
        if index is value:
            return step
        if size is value:
            return math.gcd(step, *(multiple(n, Positions(op.positions)) for n in loop.extent.data))
    return 1
