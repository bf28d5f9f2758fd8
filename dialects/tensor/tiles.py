"""
The tile loop: a kernel of several phases, as a loop over tiles of its results.

Inside stand ordinary ops, later ordinary kernels: the phases. What they hand to one another are
tiles, small enough to stay in a cache. Made at the end of the tensor level, so nothing
differentiates or batches it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, TensorType, i64
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.irdl import (
    opt_prop_def,
    opt_region_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import RecursiveMemoryEffect, SingleBlockImplicitTerminator
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import Dim, DimsAttr, Shape, as_tensor, shape_of, tensor_type
from mlc.dialects.dtypes import dtype_of
from mlc.dialects.tensor.bind import limits_at, symbols_in
from mlc.dialects.tensor.control import (
    INDEX,
    ControlOp,
    WhileOp,
    YieldOp,
    check_arguments,
    check_carried,
    yield_of,
)
from mlc.dialects.tensor.monoid import MONOIDS
from mlc.dialects.tensor.op import tensor_fault
from mlc.dialects.tensor.tile import TileOp, is_dense, tile_in, tile_size
from mlc.dialects.tensor.tiles_text import parse_tiles, print_tiles

FOLDS = ("sum", "prod", "max", "min")
"""Monoids whose state is one value of the results' dtype, by which trips may be combined."""


@irdl_op_definition
class TilesOp(ControlOp):
    """
    Runs its region once for every tile, with the position of the tile's first element on each loop
    axis: in order, the last axis fastest.

    A loop axis has an extent and a step. Where it names a symbol, the tile's size is that symbol in
    the region: min(step, extent - position). Else the step divides the extent.

    Results that are placed lie side by side: what the region yields for them is a tile, which goes
    to its position on the axes after `at`, one for each loop axis. The others are carried, as by
    `mlc.for`. A carried value with a fold is the monoid's combination of its start and of what each
    trip combines into it; so trips may be combined in chunks, each of which starts from the
    monoid's identity. Trips that carry nothing else are independent.

    Several carried values may be one state of a monoid that a region says: `combine` gives the
    state of the trips of two chunks, the first one's first. The starts are its identity.
    `mlc-split-folds` makes use of it: of a loop with `parts` each chunk of the trips, of equal
    numbers as far as they go, begins with the starts, and a carried result holds the states of all
    chunks along a first axis.

    A placed result with a monoid has no axis (-1) for some loop axes, whose trips meet at its
    tiles: `onto` names what a tile holds when a trip begins, the monoid's identity before all
    trips, and the region yields what it holds from then on. Such a loop carries nothing else. Its
    trips follow one another, but for those along the first axes that all such results have.

    ```mlir
    %rows, %columns = mlc.tiles (%h in 8 step 1, %i in 64 step 16, %j in 96 step 32) onto(%a, %b)
        -> (tensor<8x64xf32> "sum" at (0, 1, -1), tensor<8x96xf32> "sum" at (0, -1, 1)) { ... }
    ```

    ```mlir
    %y, %s = mlc.tiles (%i in 8 step 1, %j in "N" step 64 as "T") iter(%c = %init) fold("sum")
        -> (tensor<8x?xf32, #mlc.dims<8, "N">> at (0, 1), tensor<f32>) {
      %t = mlc.tile %x[%i, %j] at (0, 1)
          : tensor<8x?xf32, #mlc.dims<8, "N">> -> tensor<1x?xf32, #mlc.dims<1, "T">>
      ...
      mlc.yield %tile, %next : tensor<1x?xf32, #mlc.dims<1, "T">>, tensor<f32>
    }
    ```
    """

    name = "mlc.tiles"
    IS_RIGID: ClassVar[bool] = True
    extent = prop_def(DimsAttr)  # of each loop axis
    step = prop_def(ArrayAttr[IntegerAttr])  # of each loop axis
    symbol = prop_def(ArrayAttr[StringAttr])  # of each loop axis, "" for none
    fold = prop_def(ArrayAttr[StringAttr])  # of each carried value, "" for none
    at = prop_def(ArrayAttr[ArrayAttr[IntegerAttr]])  # of each placed result, an axis per loop axis
    monoid = prop_def(ArrayAttr[StringAttr])  # of each placed result, "" where trips do not meet
    parts = opt_prop_def(IntegerAttr)  # chunks whose states are the carried results
    inits = var_operand_def(TensorType)
    outs = var_result_def(TensorType)
    body = region_def("single_block")
    combine = opt_region_def("single_block")
    traits = traits_def(RecursiveMemoryEffect(), SingleBlockImplicitTerminator(YieldOp))

    @classmethod
    def make(
        cls,
        extents: Sequence[int | str | Dim],
        steps: Sequence[int],
        symbols: Sequence[str],
        inits: Sequence[SSAValue],
        folds: Sequence[str],
        placed_types: Sequence[Attribute],
        placed_axes: Sequence[Sequence[int]],
        body: Region,
        combine: Region | None = None,
        parts: int = 0,
        monoids: Sequence[str] = (),
    ) -> TilesOp:
        """
        An op with this body. A symbol or a fold that there is none of is "", no parts are 0; no
        monoids: no trips meet.
        """
        kinds = [_stacked(x.type, parts) for x in inits]
        split = {"parts": IntegerAttr(parts, i64)} if parts else {}
        return cls(
            operands=[inits],
            properties={
                **split,
                "extent": DimsAttr(tuple(Dim.of(n) for n in extents)),
                "step": _integers(steps),
                "symbol": ArrayAttr([StringAttr(s) for s in symbols]),
                "fold": ArrayAttr([StringAttr(f) for f in folds]),
                "at": ArrayAttr([_integers(axes) for axes in placed_axes]),
                "monoid": ArrayAttr([StringAttr(m) for m in monoids or [""] * len(placed_axes)]),
            },
            result_types=[[*placed_types, *kinds]],
            regions=[body, [] if combine is None else [combine]],
        )

    # Facts --------------------------------------------------------------------------------------

    @property
    def extents(self) -> Shape:
        """Of each loop axis, how many elements it has."""
        return self.extent.data

    @property
    def steps(self) -> tuple[int, ...]:
        """Of each loop axis, elements from tile to tile."""
        return tuple(n.value.data for n in self.step)

    @property
    def symbols(self) -> tuple[str, ...]:
        """Of each loop axis, the symbol that is the tile's size in the region, or ""."""
        return tuple(s.data for s in self.symbol)

    @property
    def folds(self) -> tuple[str, ...]:
        """Of each carried value, the monoid that combines trips, or ""."""
        return tuple(f.data for f in self.fold)

    @property
    def axes(self) -> tuple[tuple[int, ...], ...]:
        """Of each placed result, its axis for each loop axis; -1: it has none."""
        return tuple(tuple(n.value.data for n in axes) for axes in self.at)

    @property
    def monoids(self) -> tuple[str, ...]:
        """Of each placed result, the monoid of trips that meet at its tiles, or ""."""
        return tuple(m.data for m in self.monoid)

    @property
    def meeting(self) -> tuple[int, ...]:
        """The placed results at whose tiles trips meet."""
        return tuple(k for k, name in enumerate(self.monoids) if name)

    @property
    def so_far(self) -> tuple[BlockArgument, ...]:
        """What tiles at which trips meet hold when a trip begins: arguments after positions."""
        first = len(self.step)
        return tuple(self.body.block.args[first : first + len(self.meeting)])

    @property
    def shared_axes(self) -> int:
        """The first loop axes, along which trips may run at the same time."""
        meeting = [self.axes[k] for k in self.meeting]
        apart = (all(axes[n] >= 0 for axes in meeting) for n in range(len(self.step)))
        return next((n for n, is_apart in enumerate(apart) if not is_apart), len(self.step))

    @property
    def positions(self) -> tuple[BlockArgument, ...]:
        """The region's first arguments: where the tile begins on each loop axis, i64."""
        return tuple(self.body.block.args[: len(self.step)])

    @property
    def carried(self) -> tuple[BlockArgument, ...]:
        """The region's last arguments."""
        return tuple(self.body.block.args[len(self.step) + len(self.meeting) :])

    @property
    def placed(self) -> tuple[OpResult, ...]:
        """The results that consist of tiles."""
        return tuple(self.results[: len(self.at)])

    @property
    def next(self) -> tuple[SSAValue, ...]:
        """What the region ends with for the carried values."""
        return tuple(yield_of(self.body.block).values[len(self.at) :])

    @property
    def is_parallel(self) -> bool:
        """Whether trips, or parts of them, may run at the same time."""
        return self.parts is not None or all(self.folds)

    @property
    def spreads(self) -> bool:
        """Whether threads share the trips: of loops inside others, each runs its own."""
        trips = [n.constant for n in self.extents[: self.shared_axes]]
        once = all(n is not None and n <= s for n, s in zip(trips, self.steps, strict=False))
        return self.is_parallel and not once and next(enclosing_tiles(self), None) is None

    @property
    def sizes(self) -> dict[str, int]:
        """The largest value of each symbol of the region."""
        found: dict[str, int] = {}
        for name, extent, step in zip(self.symbols, self.extents, self.steps, strict=True):
            if name:
                found[name] = step if extent.constant is None else min(step, extent.constant)
        return found

    @property
    def own(self) -> tuple[OpResult, ...]:
        """The results that lie in memory of their own, which nothing else is handed."""
        return tuple(self.results) if self.spreads else self.placed

    def tile_dim(self, k: int) -> Dim:
        """The size of a tile along a loop axis, in the region."""
        return tile_size(self.symbols[k], self.steps[k])

    def is_dense(self, k: int) -> bool:
        """Whether the tiles of a placed result lie in one piece each, row by row."""
        return is_dense(shape_of(self.placed[k].type), shape_of(self.tile_type(k)))

    def tile_type(self, k: int) -> TensorType[Attribute]:
        """The type of what the region yields for a placed result."""
        dims = [self.tile_dim(number) for number in range(len(self.step))]
        return tile_in(self.placed[k].type, self.axes[k], dims)

    # As a region op -----------------------------------------------------------------------------

    @property
    def blocks(self) -> tuple[Block, ...]:
        return (self.body.block,)

    @property
    def first_carried(self) -> int:
        return len(self.at)

    @property
    def starts(self) -> tuple[SSAValue, ...]:
        return tuple(self.inits)

    def carried_in(self, block: Block) -> tuple[BlockArgument, ...]:
        return self.carried

    # Text ---------------------------------------------------------------------------------------

    def verify_(self) -> None:
        for name in (*self.folds, *self.monoids):
            if name and name not in FOLDS:
                raise VerifyException(
                    f'{self.name}: fold "{name}"; expected one of ' + ", ".join(FOLDS)
                )
        self._check_axes()
        kinds = [x.type for x in self.inits]
        held = [self.tile_type(k) for k in self.meeting]
        check_arguments(self.name, self.body.block, [*[INDEX] * len(self.step), *held, *kinds])
        self._check_carried(kinds)
        if len(self.folds) != len(kinds):
            raise VerifyException(
                f"{self.name}: {len(self.folds)} folds for {len(kinds)} carried values"
            )
        for fold, kind in zip(self.folds, kinds, strict=True):
            if fold:
                self._check_fold(fold, kind)
        self._check_yield(kinds)
        if any(isinstance(op, WhileOp) for op in self.walk()):
            raise VerifyException(f"{self.name}: mlc.while does not stand in a tile loop")

    def _check_carried(self, kinds: Sequence[Attribute]) -> None:
        found, count = [x.type for x in self.results[len(self.at) :]], 0
        if self.parts is not None:
            count, inside = self.parts.value.data, any(True for _ in enclosing_tiles(self))
            if count < 1 or any(self.folds) or self.combine is not None or inside:
                text = "expected at least 1, of an outermost loop that combines nothing"
                raise VerifyException(f"{self.name}: {count} parts; {text}")
        if found != [_stacked(kind, count) for kind in kinds]:
            text = "results that are carried have their starts' types"
            text += f", {count} of them along a first axis" if count else ""
            raise VerifyException(f"{self.name}: {text}")
        if self.combine is not None:
            check_arguments(f"{self.name}: combine", self.combine.block, [*kinds, *kinds])
            check_carried(f"{self.name}: combine", self.combine.block, self.inits)
            if any(self.folds):
                raise VerifyException(f"{self.name}: a fold beside a region that combines all")

    def _check_fold(self, fold: str, kind: Attribute) -> None:
        if fault := tensor_fault(kind):
            raise VerifyException(f"{self.name}: {fault}")
        dtype, monoid = dtype_of(as_tensor(kind).element_type), MONOIDS[fold]
        if dtype.kind not in monoid.kinds:
            raise VerifyException(f'{self.name}: fold "{fold}" is not defined for {dtype.name}')

    def _check_axes(self) -> None:
        count = len(self.step)
        if count == 0 or len(self.extents) != count or len(self.symbol) != count:
            raise VerifyException(f"{self.name}: expected an extent and a step for each loop axis")
        named = [s for s in self.symbols if s]
        if wrong := [s for s in named if not s.isidentifier()]:
            raise VerifyException(
                f"{self.name}: a symbol is a name such as 'B', found {wrong[0]!r}"
            )
        outer = {s for op in enclosing_tiles(self) for s in op.symbols}
        if len(set(named)) != len(named) or outer & set(named):
            raise VerifyException(f"{self.name}: each symbol names one loop axis, not again inside")
        seen = {
            s for x in (*self.inits, *self.results) for d in shape_of(x.type) for s in d.symbols()
        }
        seen |= {s for d in self.extents for s in d.symbols()}
        if clash := sorted(seen & set(named)):
            raise VerifyException(f"{self.name}: symbol {clash[0]} has no value outside the region")
        for extent, step, symbol in zip(self.extents, self.steps, self.symbols, strict=True):
            if step < 1:
                raise VerifyException(f"{self.name}: step {step}; expected at least 1")
            whole = extent.constant
            if not symbol and step > 1 and (whole is None or whole % step):
                raise VerifyException(
                    f"{self.name}: step {step} does not divide {extent}; name the tile's size with"
                    " `as`"
                )
        self._check_placed(count)

    def _check_placed(self, count: int) -> None:
        if len(self.monoid) != len(self.at):
            raise VerifyException(
                f"{self.name}: {len(self.monoid)} monoids for {len(self.at)} placed results"
            )
        if self.meeting and (self.inits or self.parts is not None):
            raise VerifyException(
                f"{self.name}: carried values beside results with a monoid; expected either"
            )
        for axes, result, monoid in zip(self.axes, self.placed, self.monoids, strict=True):
            dims, least = shape_of(result.type), -1 if monoid else 0
            given = [a for a in axes if a != -1]
            fits = len(axes) == count and len(given) == len(set(given))
            fits = fits and all(least <= a < len(dims) for a in axes)
            if not fits or any(
                a >= 0 and dims[a] != n for a, n in zip(axes, self.extents, strict=True)
            ):
                raise VerifyException(
                    f"{self.name}: result {result.type} at {axes}; expected one axis of it for"
                    f" each loop axis, of extent {', '.join(map(str, self.extents))}"
                    + (", or -1" if monoid else "")
                )
            if monoid and len(given) == count:
                raise VerifyException(
                    f'{self.name}: result {result.type} "{monoid}" at {axes}; expected -1 for a'
                    " loop axis whose trips meet"
                )
            if monoid:
                self._check_fold(monoid, result.type)

    def _check_yield(self, carried: Sequence[Attribute]) -> None:
        if not isinstance(self.body.block.last_op, YieldOp):
            raise VerifyException(f"{self.name}: the region must end with mlc.yield")
        found = [x.type for x in yield_of(self.body.block).values]
        expected = [*map(self.tile_type, range(len(self.at))), *carried]
        if found != expected:
            raise VerifyException(
                f"{self.name}: the region yields ({', '.join(map(str, found))}); expected"
                f" ({', '.join(map(str, expected))})"
            )

    def print(self, printer: Printer) -> None:
        print_tiles(self, printer)

    @classmethod
    def parse(cls, parser: Parser) -> TilesOp:
        return parse_tiles(parser, cls.make)


def is_position(value: SSAValue) -> bool:
    """Whether a value is the position of a tile."""
    loop = value.owner.parent_op() if isinstance(value, BlockArgument) else None
    return isinstance(loop, TilesOp) and any(value is x for x in loop.positions)


def is_phase(op: Operation) -> bool:
    """Whether an op stands in a tile loop."""
    return next(enclosing_tiles(op), None) is not None


def is_spread(op: Operation) -> bool:
    """Whether an op stands in a tile loop whose trips threads share."""
    return any(loop.spreads for loop in enclosing_tiles(op))


def bounds_of(op: Operation) -> dict[str, Dim]:
    """The largest value of each symbol of an op that tile loops around it give, or `mlc.bind`."""
    found: dict[str, Dim] = {}
    for loop in enclosing_tiles(op):
        found.update({name: Dim.const(n) for name, n in loop.sizes.items()})
    named = {name for inner in op.walk() for name in symbols_in(inner)}
    if named := named - found.keys():
        found.update(limits_at(op, named))
    return found


def enclosing_tiles(op: Operation) -> Iterator[TilesOp]:
    """The tile loops around an op, from the inside out."""
    above = op.parent_op()
    while above is not None:
        if isinstance(above, TilesOp):
            yield above
        above = above.parent_op()


def _stacked(kind: Attribute, parts: int) -> Attribute:
    """The type of so many states side by side; 0: of one."""
    tensor = as_tensor(kind)
    if not parts:
        return kind
    return tensor_type(tensor.element_type, (Dim.const(parts), *shape_of(tensor)))


def _integers(values: Sequence[int]) -> ArrayAttr[IntegerAttr]:
    return ArrayAttr([IntegerAttr(n, i64) for n in values])


TILES = (TilesOp, TileOp)
