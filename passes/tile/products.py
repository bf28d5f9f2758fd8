"""
Which contractions are cut by words, and by which: the best schedule of `choose.py` that the passes
of tile programs apply. Of f32 and f64, and of narrow factors with wider sums: bf16 and f16 in f32,
bytes and pairs of bytes in i32, also where the program widens them before it multiplies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from itertools import takewhile
from typing import TypeGuard

from xdsl.ir import BlockArgument, SSAValue

from mlc.cached_property import cached_property
from mlc.dialects.analysis.in_place import reads_where_it_writes
from mlc.dialects.analysis.layouts import layouts_of
from mlc.dialects.analysis.matmul_axes import contraction_roles
from mlc.dialects.dims import Dim, highest, product
from mlc.dialects.dtypes import named_dtype
from mlc.dialects.errors import MlcError
from mlc.dialects.numerics import is_strict
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.intrinsics import Intrinsic
from mlc.dialects.tensor.tiles import bounds_of, is_phase
from mlc.dialects.tile.compute import DotOp
from mlc.dialects.tile.element import MapOp
from mlc.dialects.tile.expression import letter, letters_in
from mlc.dialects.tile.memory import StoreOp
from mlc.dialects.tile.types import frag_of, view_of
from mlc.dialects.tile.words import (
    Block,
    Case,
    Edge,
    Epilogue,
    Grain,
    Pack,
    Register,
    Split,
    Sums,
    Via,
    Word,
    Words,
    is_shared,
    words_at,
)  # fmt: skip
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.sizes import typical
from mlc.passes.tile.apply_words import APPLIED
from mlc.passes.tile.canonical import canonical, product_of
from mlc.passes.tile.cases import sizes_of
from mlc.passes.tile.choose import (
    FEW_ROWS,
    TAKE_S,
    Candidate,
    choose_schedule,
    dynamic_schedules,
    split_schedule,
)
from mlc.passes.tile.cut import dot_of, tile_of
from mlc.passes.tile.panels import as_given, dtype_given, source_of
from mlc.passes.tile.predict import Prediction, Problem, predict, row_of, usable_rows

MOST_AFTER = 8
"""Ops from which what follows a product is a loop of its own; its code stands there once."""
MANY: Mapping[str, int] = {"g": 64, "m": 1023, "n": 1023, "k": 2047}
"""Of an axis whose size is known only when the program runs: so many that blocks pay, and a number
that no instruction's shape divides."""
FEW = 63
"""Likewise of a product that is small."""
FEWEST, FEWER = 3, 6
"""Rows of a product with fewer than a register tile has, and of one with one or two of these: by
the last one 4 to 12 rows take half the time (docs/measurements.md, Models)."""
ALIKE = 1.01
"""Times the fastest schedule of one worker: what all workers decide."""


def words_of_product(kernel: KernelOp, target: CpuTarget, grain_s: float) -> Words | None:
    """The words for a contraction; None where none cut it. `grain_s`: a worker's least."""
    if refusal(kernel) is not None:
        return None
    found = WordsOf(kernel, target)
    if not usable_rows(found.problem.dtypes, target):
        return None
    words = found.best()
    if words is None:
        return None
    applied = many = found.applied(words)
    row = row_of(found.problem, words, target)
    for case, assumed in found.cases():
        few = WordsOf(kernel, target, assumed)
        own = few.best(row.dtypes)  # elements are converted before all cases, or in none
        if own is not None and (fewer := few.applied(own)) != many:
            applied = (*applied, case, *fewer)
    return (*applied, grain_of(row, target, grain_s))


def grain_of(row: Intrinsic, target: CpuTarget, grain_s: float) -> Grain:
    """What a worker multiplies at least, to be busy for so many seconds."""
    return Grain(int(row.macs_per_cycle(target) * target.clock_hz * grain_s))


def refusal(kernel: KernelOp) -> str | None:
    """Why a contraction is a reduction like others; None where words may cut it."""
    op = product_of(kernel)
    if op is None:
        return "it is no contraction"
    sizes, roles = op.sizes(), contraction_roles(op)
    if any(size.constant == 0 for size in sizes.values()):
        return "nothing is there"
    if roles is None:
        return "it is no product of matrices"
    try:
        _canonical(kernel)
    except MlcError as error:
        return str(error)
    return None


@lru_cache(maxsize=64)
def _canonical(kernel: KernelOp) -> DotOp:
    """The product of a kernel's program before any word."""
    return dot_of(canonical(kernel, "", (), layouts_of(kernel)))


@dataclass(frozen=True)
class WordsOf:
    """A contraction of a plan, and what words may cut of it."""

    kernel: KernelOp
    target: CpuTarget
    assumed: Mapping[str, int] = field(default_factory=lambda: MANY)

    def best(self, dtypes: tuple[str, ...] | None = None) -> Words | None:
        """
        The fastest schedule that passes apply: of one worker; of all, where some are alike.
        `dtypes`: of its instruction, where they are settled.
        """
        alike: list[Candidate] = []
        for found in choose_schedule(self.problem, self.target):
            if alike and found.seconds > ALIKE * alike[0].seconds:
                break
            if dtypes not in (None, row_of(self.problem, found.words, self.target).dtypes):
                continue
            if self.unapplied(found.words) is None:
                alike.append(found)
        team = replace(self.problem, threads=self.target.cores)

        def of_team(found: Candidate) -> float:
            words = shared(found.words, self.problem, self.target)
            return predict(team, words, self.target).seconds

        return min(alike, key=of_team).words if alike else None

    def others(self) -> Iterator[Words]:
        """
        Every schedule that passes apply, each once, the fastest of one worker first; none where
        sizes are not known.
        """
        if self.open:
            return
        found: set[Words] = set()
        for offered in choose_schedule(self.problem, self.target):
            if self.unapplied(offered.words) is None:
                words = self.applied(offered.words)
                if words not in found:
                    found.add(words)
                    yield words

    def cases(self) -> Iterator[tuple[Case, Mapping[str, int]]]:
        """What is worth a schedule of its own where sizes are not known, and is assumed for it."""
        if self.is_phase:
            return
        if "m" in self.open:
            yield Case("m", FEWEST + 1), {**self.assumed, "m": FEWEST}
            yield Case("m", 2 * FEWER + 2), {**self.assumed, "m": FEWER}
        if self.open & {"n", "k"}:
            yield Case("mnk", (FEW + 1) ** 3), {"g": FEW, "m": FEW, "n": FEW, "k": FEW}
        if "m" in self.open:
            usual = typical(self.sizes["m"]) or FEW_ROWS
            rows = usual if 2 * FEWER + 2 <= usual < FEW_ROWS else FEW_ROWS - 1
            yield Case("m", FEW_ROWS), {**self.assumed, "m": rows}

    @cached_property
    def dot(self) -> DotOp:
        """The product, in canonical form."""
        return _canonical(self.kernel)

    @cached_property
    def factors(self) -> tuple[SSAValue, SSAValue]:
        """What is multiplied, before a conversion that keeps all values."""
        return as_given(self.dot.lhs), as_given(self.dot.rhs)

    @cached_property
    def problem(self) -> Problem:
        """The product by values alone, for one worker."""
        return self._problem({})

    def predicted(self, words: Words, sizes: Mapping[str, int]) -> Prediction:
        """What words that have been applied take, where symbols have these sizes."""
        problem = self._problem(sizes)
        own = words_at(words, {"m": problem.m, "n": problem.n, "k": problem.k})
        whole = (
            replace(x, step=x.step * self.inner) if isinstance(x, Block) and x.axis == "k" else x
            for x in own
        )
        return predict(problem, tuple(whole), self.target)

    def _problem(self, sizes: Mapping[str, int]) -> Problem:
        dot = self.dot
        size = {axis: self._assumed(axis, sizes) for axis in "gmnk"}
        in_rows = _moves_with(*source_of(dot.lhs, dot.lhs_at.data), [*dot.summed][-1])
        in_columns = _moves_with(*source_of(dot.rhs, dot.rhs_at.data), "n")
        return Problem(
            m=size["m"], n=size["n"], k=size["k"], batch=size["g"],
            dtypes=(
                dtype_given(dot.lhs).name, dtype_given(dot.rhs).name,
                frag_of(dot.result).dtype.name,
            ),
            result=self.stored, apart=not self.waits_in_result,
            a_unit="k" if in_rows else "m",
            a_rows=_follow(source_of(dot.lhs, dot.lhs_at.data)[1], "m"),
            b_unit="n" if in_columns else "k",
        )  # fmt: skip

    @cached_property
    def is_phase(self) -> bool:
        """Whether the kernel runs on one worker, of those that share the trips of a tile loop."""
        return is_phase(self.kernel)

    @cached_property
    def sizes(self) -> Mapping[str, Dim]:
        """Of batches, rows, columns, and all that is summed."""
        return sizes_of(self.dot)

    @cached_property
    def open(self) -> frozenset[str]:
        """The axes whose size is known only when the program runs."""
        return frozenset(axis for axis, size in self.sizes.items() if size.constant is None)

    def _assumed(self, axis: str, sizes: Mapping[str, int]) -> int:
        """
        A size, or what stands for one that is not known: of a tile at most as many as it has.
        Batches are several then, since words that leave them whole are for one.
        """
        size = self.sizes[axis].substitute({name: Dim.const(n) for name, n in sizes.items()})
        if size.constant is not None:
            return size.constant
        most = highest(size, bounds_of(self.kernel)).constant
        least = 2 if axis == "g" else 1
        return self.assumed[axis] if most is None else max(least, most - 1 | 1)

    @cached_property
    def inner(self) -> int:
        """Elements of the summed axes behind the first."""
        _, *others = self.dot.summed.values()
        found = product(size for dims in others for size in dims.data).constant
        return MANY["g"] if found is None else max(found, 1)

    @cached_property
    def stores(self) -> Sequence[StoreOp]:
        """Of what becomes of the sums."""
        return [op for op in tile_of(self.dot) if isinstance(op, StoreOp)]

    @cached_property
    def waits_in_result(self) -> bool:
        """
        Whether the one result can hold sums between blocks of the summed axis: where vectors of
        them lie side by side. Measured: docs/measurements.md, Models.
        """
        if any(not _moves_with(op.view, op.at.data, "n") for op in self.stores):
            return False
        if [op.value for op in self.stores] == [self.dot.result]:
            return True
        inputs = range(len(self.kernel.inputs))
        return (
            len(self.stores) == 1
            and view_of(self.stores[0].view).element == frag_of(self.dot.result).element
            and not any(reads_where_it_writes(self.kernel, k) for k in inputs)
        )

    @cached_property
    def stored(self) -> str:
        """The dtype of what becomes of a sum; of several the first."""
        found = [view_of(op.view).dtype.name for op in self.stores]
        return found[0] if found and frag_of(self.dot.result).dtype.name not in found else ""

    @cached_property
    def after(self) -> Words:
        """What says how code behind the sums is written."""
        return words_after(self.dot)

    def unapplied(self, words: Words) -> str | None:
        """
        The first cut that passes do not make, and why. A factor that is computed is so once: where
        it is packed.
        """
        for word in words:
            if type(word) not in APPLIED:
                return f"{word}: no pass applies it yet"
        packed = {word.operand for word in words if isinstance(word, Pack)}
        for x, factor in zip("ab", self.factors, strict=True):
            if x not in packed and not isinstance(factor, BlockArgument):
                return f"{x} is computed where it is read; expected pack({x}, …)"
        applied = self.applied(words)
        before = takewhile(lambda x: not (isinstance(x, Pack) and x.operand == "a"), applied)
        if "a" in packed and "m" in self.open and not _cuts(list(before), "m"):
            return "pack(a, …): how many rows it copies is known only when the program runs"
        if is_strict(self.kernel) and row_of(self.problem, words, self.target).group > 1:
            return "numerics are strict: an instruction adds several products at once"
        worker, team = _scratch(applied, self.problem, self.inner)
        if worker > self.target.l2_bytes:
            return f"level 2 has {self.target.l2_bytes} bytes for what a worker copies"
        if team > (self.target.l3_bytes or self.target.l2_bytes):
            return f"level 3 has {self.target.l3_bytes} bytes for what all workers share"
        return None

    def applied(self, words: Words) -> Words:
        """A schedule as the program has it: for any team, and with all that it needs."""
        row = row_of(self.problem, words, self.target)
        cuts = words if self.is_phase else self.shared(words)
        found = [self._of_axis(self._in_dtype(word, row)) for word in cuts]
        split = any(isinstance(word, Split) for word in cuts)
        place = Sums("out" if self.waits_in_result else "scratch", init=row.in_tiles)
        if _cuts(cuts, "k") and not split and place != Sums("out"):
            first = next(k for k, x in enumerate(found) if isinstance(x, Block) and x.axis == "k")
            found.insert(first, place)
        if "n" in self.open:
            found = self._with_columns(found)
        for axis, how in (("m", "clamp"), ("n", "mask")):
            if axis in self.open and not any(isinstance(x, Edge) and x.axis == axis for x in found):
                found.append(Edge(axis, "pack" if row.in_tiles else how))
        if is_strict(self.kernel):
            found = [Via("mul_add") if word == Via("fma") else word for word in found]
        return (*found, *self.after)

    def shared(self, words: Words) -> Words:
        """Words for a team of any size, so that bits do not depend on it (D1)."""
        if is_shared(words):
            return words
        split = split_schedule(self.problem, words, self.target)
        if split is not None and self.unapplied(split) is None and not self.open:
            return split
        static = shared(words, self.problem, self.target)
        offers = dynamic_schedules(self.problem, static, self.target)
        return next((x for x in offers if self.unapplied(x) is None), static)

    def _with_columns(self, words: list[Word]) -> list[Word]:
        """A copy of columns has a size that is known: of so many of them at a time."""
        copy = next((k for k, x in enumerate(words) if isinstance(x, Pack) and x.operand == "b"), 0)
        if not isinstance(words[copy], Pack) or _cuts(words[:copy], "n"):
            return words
        tile = next(word.n for word in words if isinstance(word, Register))
        batches = isinstance(words[0], Block) and words[0].axis == "g"
        block = Block("n", -(-self.problem.n // tile) * tile)
        return [*words[:batches], block, *words[batches:]]

    def _of_axis(self, word: Word) -> Word:
        """Blocks of the summed axes cut the first of them."""
        if self.inner == 1 or not (isinstance(word, Block) and word.axis == "k"):
            return word
        return replace(word, step=max(1, word.step // self.inner))

    def _in_dtype(self, word: Word, row: Intrinsic) -> Word:
        """Panels are in the instruction's dtype, whatever the program has widened before."""
        if not isinstance(word, Pack):
            return word
        which = "ab".index(word.operand)
        have = view_of((self.dot.lhs, self.dot.rhs)[which]).dtype.name
        return replace(word, dtype="" if row.dtypes[which] == have else row.dtypes[which])


def words_after(dot: DotOp) -> Words:
    """What says how code that follows a product's sums is written."""
    ops = sum(len(op.body.block.ops) for op in tile_of(dot) if isinstance(op, MapOp))
    return (Epilogue("loop"),) if ops > MOST_AFTER else ()


def _moves_with(view: SSAValue, at: Sequence[Dim], axis: str) -> bool:
    """Whether elements lie side by side along an axis, which the last subscript is."""
    if not at or view_of(view).layout.data == "strided":  # of one number nothing moves
        return False
    rest = at[-1] - letter(axis)
    return axis in letters_in(at[-1:]) and axis not in letters_in([rest])


def _follow(at: Sequence[Dim], axis: str) -> bool:
    """Whether places along an axis are those along one subscript."""
    moved = [dim for dim in at if axis in letters_in([dim])]
    return len(moved) == 1 and axis not in letters_in([moved[0] - letter(axis)])


def _cuts(words: Sequence[Word], axis: str) -> bool:
    """Whether there is a loop over blocks of an axis."""
    return any(isinstance(word, Block) and word.axis == axis for word in words)


def shared(words: Words, problem: Problem, target: CpuTarget) -> Words:
    """
    Words for a team whose workers have parts of one size: they share batches where copies of one
    fit their caches and all cores have some to do, columns of few rows, else rows and what is
    packed for all.
    """
    first = words[0] if words else None
    if isinstance(first, Block) and first.axis == "g":
        within = (first, *shared(words[1:], problem, target))
        if _scratch(words, problem)[0] > target.l2_bytes:
            return within
        trip = predict(problem, words, target).seconds / problem.batch
        whole = (replace(first, team=True, dynamic=trip >= TAKE_S), *words[1:])
        team = replace(problem, threads=target.cores)
        return min((whole, within), key=lambda x: predict(team, x, target).seconds)
    if isinstance(first, Block) and first.axis == "n" and problem.m <= FEW_ROWS:
        return (replace(first, team=True), *words[1:])
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


def _scratch(words: Words, problem: Problem, inner: int = 1) -> tuple[int, int]:
    """
    Bytes of panels and of sums that wait, of each worker and of the team; `inner`: summed elements
    in a step of a block's.
    """
    left = {"m": problem.m, "n": problem.n, "k": problem.k}
    worker = team = 0
    shared = False  # whether what stands here is a worker's
    for word in words:
        if isinstance(word, Block) and word.axis in left:
            step = word.step * inner if word.axis == "k" else word.step
            left[word.axis] = min(left[word.axis], step)
            shared = shared or word.team
            continue
        shared = shared or isinstance(word, Split) or (isinstance(word, Block) and word.team)
        size = 0
        if isinstance(word, Pack):
            across = left["m" if word.operand == "a" else "n"]
            whole = -(-across // word.panels) * word.panels
            item = named_dtype(word.dtype or problem.dtypes["ab".index(word.operand)]).bytes
            size = whole * (left["k"] + word.depth + word.group) * item
        elif isinstance(word, Sums) and word.place == "scratch":
            size = left["m"] * left["n"] * named_dtype(problem.dtypes[2]).bytes
        if shared or (isinstance(word, Pack) and not word.team):
            worker += size
        else:
            team += size
    return worker, team
