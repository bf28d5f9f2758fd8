"""What lowering a tile program relies on and no op can see alone: `mlc-check-tiles`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.ir import Operation, Region
from xdsl.passes import ModulePass

from mlc.dialects.analysis.layouts import misfits
from mlc.dialects.dims import Dim, FloorDiv
from mlc.dialects.errors import PlanError
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.attribute import cpu_of
from mlc.dialects.target.intrinsics import Intrinsic, row_named
from mlc.dialects.tile.compute import DotOp
from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.kernel import CallOp, CaseOp, KernelOp
from mlc.dialects.tile.memory import AllocOp
from mlc.dialects.tile.types import FragType, ViewType, frag_of, view_of
from mlc.passes.tile.choose import fits_registers
from mlc.passes.tile.races import race_faults
from mlc.passes.tile.stores import store_faults

Fault = tuple[Operation, str]
_MOST_PLACES = 1 << 18  # elements of a copy that are looked at
_MOST_COUNTED = 1 << 24  # places that are counted one by one


class CheckTilesPass(ModulePass):
    """
    PlanError at the first op of a tile program that breaks an invariant: rows, registers and
    scratch of the target, letters of copies, barriers between workers, results stored once, views
    of what lies otherwise.
    """

    name = "mlc-check-tiles"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = cpu_of(op, self.name)
        for found, message in _faults(op, target):
            raise PlanError(f"{_place(found)}{self.name}: {found.name}: {message}")


def _faults(module: ModuleOp, target: CpuTarget) -> Iterator[Fault]:
    for op in module.body.block.ops:
        if isinstance(op, KernelOp):
            yield from tile_faults(op, target)
        else:
            for call in op.walk():
                if isinstance(call, CallOp):
                    yield from ((call, message) for message in misfits(call))


def tile_faults(kernel: KernelOp, target: CpuTarget) -> Iterator[Fault]:
    """Every op of a kernel that breaks an invariant, and the message about it."""
    yield from _machine_faults(kernel, target)
    for op in kernel.walk():
        if isinstance(op, CopyOp) and (message := _overwrites(op)):
            yield op, message
    yield from race_faults(kernel)
    yield from store_faults(kernel)


def _place(op: Operation) -> str:
    at = op.location
    if isinstance(at, FileLineColLoc):
        return f"{at.filename.data}:{at.line.data}:{at.column.data}: error: "
    return ""


# the machine


def _machine_faults(kernel: KernelOp, target: CpuTarget) -> Iterator[Fault]:
    room = {"team": target.l3_bytes or target.l2_bytes, "worker": target.l2_bytes}
    taken: dict[tuple[str, Region | None], int] = {}
    for op in kernel.walk():
        if isinstance(op, DotOp) and op.via is not None:
            if message := _row_fault(op, op.via.data, target):
                yield op, message
        elif isinstance(op, AllocOp):
            kind, scope = view_of(op.result), op.scope.data
            sizes = [dim.constant for dim in kind.shape]
            if any(size is None for size in sizes):
                continue
            where = scope, _case_of(op)
            size = math.prod(size or 0 for size in sizes) * kind.dtype.bytes
            taken[where] = taken.get(where, 0) + size
            # of the cases of a program one runs
            cases = (n for (of, case), n in taken.items() if of == scope and case is not None)
            most = taken.get((scope, None), 0) + max(cases, default=0)
            if most > room[scope]:
                yield (
                    op,
                    f"{most:,} bytes of scratch of a {scope}; {target.name} has"
                    f" {room[scope]:,} in the cache for them",
                )


def _case_of(alloc: AllocOp) -> Region | None:
    """The one case that uses scratch; None where it is used outside of cases, or by several."""
    found: set[Region | None] = set()
    for use in alloc.result.uses:
        op: Operation | None = use.operation
        while op is not None and not isinstance(op.parent_op(), CaseOp):
            op = op.parent_op()
        found.add(None if op is None else op.parent_region())
    return found.pop() if len(found) == 1 else None


def _row_fault(op: DotOp, via: str, target: CpuTarget) -> str | None:
    """Why no instruction of the target makes the tile."""
    kinds = (op.lhs.type, op.rhs.type, op.result.type)
    try:
        row = row_named(via, target, [k.dtype for k in kinds if isinstance(k, ViewType | FragType)])
    except ValueError as error:
        return str(error)
    sizes = dict(zip("".join(op.words.result), frag_of(op.result).shape, strict=True))
    lhs, rhs = ("".join(word) for word in op.words.operands)
    rows = math.prod(n for c, n in sizes.items() if c in lhs)
    columns = math.prod(n for c, n in sizes.items() if c in rhs)
    m, n, _ = row.shape
    if rows % m or columns % n:
        axis, unit = ("n", n) if columns % n else ("m", m)
        return (
            f"a tile of {rows}x{columns} by {via}, which makes {m}x{n} at a time:"
            f" expected a multiple of {unit} along {axis}"
        )
    shifted = op.zero is not None
    if not fits_registers(row, rows // m, columns // n, target, shifted=shifted):
        return (
            f"a tile of {rows}x{columns} by {via} does not fit into the registers;"
            " expected a smaller one, of fewer rows (m) or columns (n)"
        )
    return _group_fault(op, row)


def _group_fault(op: DotOp, row: Intrinsic) -> str | None:
    if row.group == 1:
        return None
    last, bound = op.over.data[-1]
    if bound.data == (Dim.const(row.group),):
        return None
    return (
        f"{row.name} takes summed elements by {row.group}; expected a last letter of that size,"
        f" found {last} of {', '.join(map(str, bound.data))}"
    )


# letters


def _overwrites(op: CopyOp) -> str | None:
    """Two elements of a copy with one place: looked for where sizes are numbers, at 0."""
    sizes = {c: _few(op, c) for c in sorted(op.words.letters)}
    _, target = op.where()
    if _are_digits(target, sizes):
        return None
    while math.prod(sizes.values()) > _MOST_PLACES:
        largest = max(sizes, key=lambda c: sizes[c])
        sizes[largest] //= 2
    grid = np.indices([*sizes.values()]).reshape(len(sizes), -1)
    atoms = {f".{c}": line for c, line in zip(sizes, grid, strict=True)}
    places = np.stack([_values(dim, atoms, grid.shape[1]) for dim in target])
    if _distinct(places) == grid.shape[1]:
        return None
    return f"{op.letters.data!r} puts several elements into one place of {op.target.type}"


def _are_digits(places: Sequence[Dim], sizes: Mapping[str, int]) -> bool:
    """
    Whether places are numbers whose digits are the letters, each in one of them: then no two
    elements have the same. What is no letter is the same for all.
    """
    left = {f".{c}" for c, size in sizes.items() if size > 1}
    for place in places:
        digits: list[tuple[int, int]] = []
        for monomial, coefficient in place.terms:
            if all(isinstance(x, str) and x[0] != "." for x in monomial):
                continue
            (letter, *others) = monomial
            if others or isinstance(letter, FloorDiv):
                return False
            left.discard(letter)
            digits.append((abs(coefficient), sizes[letter[1:]]))
        reached = 0
        for step, size in sorted(digits):
            if step <= reached:
                return False
            reached += step * (size - 1)
    return not left


def _distinct(places: np.ndarray) -> int:
    """How many of the columns differ: counted where they are few numbers, else sorted."""
    places = places - places.min(axis=1, keepdims=True)
    spans = [int(line.max()) + 1 for line in places]
    if math.prod(spans) <= _MOST_COUNTED:
        return int(np.count_nonzero(np.bincount(np.ravel_multi_index(tuple(places), spans))))
    return np.unique(places, axis=1).shape[1]


def _few(op: CopyOp, c: str) -> int:
    numbers = [dim.constant for dim in op.extents[c].data if dim.constant is not None]
    return max(min(numbers, default=5), 1)


def _values(dim: Dim, atoms: dict[str, np.ndarray], count: int) -> np.ndarray:
    total = np.zeros(count, np.int64)
    for monomial, coefficient in dim.terms:
        part = np.full(count, coefficient, np.int64)
        for atom in monomial:
            if isinstance(atom, FloorDiv):
                part = part * (_values(atom.numerator, atoms, count) // atom.divisor)
            else:
                part = part * atoms.get(atom, 0)
        total += part
    return total
