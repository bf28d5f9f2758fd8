"""
The word `strip`: rows of a convolution's positions lie side by side in memory of the worker.

```
strip(b, rows 14, unit 48)
    dot "mkij,kijyn->ymn" … %x[g, k, y + i, n + j] : frag<56x64x56xf32>
    store … %o[g, m, y, n] as "ymn"
->  for %g in 8, %y in 56 step 14 deal(team) {
      copy %x[%g, k, %y + Y, X] -> %s "kYX -> k(YX)" over (Y 16, X 58)
      dot "mkij,kijn->mn" … %s[k, n + 58*i + j] : frag<64x816xf32>
      store … %o[%g, m, %y + n floordiv 58, n mod 58] as "mn" where n mod 58 < 56 and n < 812 }
```

Between the rows stand what windows reach beyond them; those positions are computed and not stored.
So are those behind the last row, which are zeros: sums of what memory held before may be subnormal,
which processors take a hundred times as long for.
With strides, elements that windows of one place read are side by side: `s[k, P, Q, …]` are those
whose rows and columns leave P and Q behind when divided by the strides.
"""

from __future__ import annotations

from math import ceil

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, StringAttr, f64
from xdsl.ir import Block
from xdsl.rewriter import Rewriter

from mlc.dialects.dims import Dim, DimsAttr
from mlc.dialects.errors import MlcError
from mlc.dialects.tile.compute import DotOp
from mlc.dialects.tile.control import Deal, ForOp
from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.element import MapOp
from mlc.dialects.tile.expression import (
    Condition,
    ConditionsAttr,
    ExpressionsAttr,
    Positions,
    letter,
    letters_in,
    position,
    renamed,
)
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.memory import AllocOp, FillOp, LoadOp, StoreOp
from mlc.dialects.tile.over import Over
from mlc.dialects.tile.types import FragType, frag_of, view_of, view_type
from mlc.dialects.tile.words import Strip
from mlc.lazy_dataclass import dataclass
from mlc.passes.tile.cut import Cut, axes_of, bind, cut, dot_of, join, tile_of
from mlc.passes.tile.windows import ROW


@dataclass(frozen=True)
class Slide:
    """A subscript that windows slide along: `stride * place + dilation * window + base`."""

    stride: int
    dilation: int
    window: str  # a summed letter; "" where there is none
    count: int  # of its places
    base: Dim

    @property
    def reach(self) -> int:
        """Places beyond the last one that windows read, of one remainder."""
        return self.dilation * (self.count - 1) // self.stride

    @property
    def remainders(self) -> int:
        """By the stride, of elements that windows read."""
        return self.stride if self.count > 1 else 1

    @property
    def place(self) -> Dim:
        """How far from the window's place an element is, divided by the stride."""
        return letter(self.window) * self.dilation // self.stride if self.window else Dim.const(0)

    @property
    def rest(self) -> Dim:
        """And what is left."""
        at = letter(self.window) * self.dilation if self.window else Dim.const(0)
        return at - self.place * self.stride


def strip(kernel: KernelOp, word: Strip) -> None:
    """Copies what blocks of rows read, and makes their positions one axis."""
    dot = dot_of(kernel)
    axis = "mn"["ab".index(word.operand)]
    if ROW not in axes_of(dot) and "g" not in axes_of(dot):
        raise MlcError(f"tiles: {word}: the product has no batches or rows; expected some to share")
    loop: ForOp | None = None
    for c, step in (("g", 1), (ROW, word.rows)):
        if c in axes_of(dot):
            deal = Deal("dynamic" if word.dynamic else "team") if loop is None else None
            inner, _ = cut(dot, Cut(c, step, deal, drop=c == "g", sized=c == ROW))
            loop = inner if loop is None else join(loop, inner, word)
    assert loop is not None
    _Strip(kernel, dot, loop, word, axis).write()


class _Strip:
    """One strip on its way."""

    def __init__(self, kernel: KernelOp, dot: DotOp, loop: ForOp, word: Strip, axis: str) -> None:
        self.kernel, self.dot, self.loop, self.word, self.axis = kernel, dot, loop, word, axis
        self.which = "ab".index(word.operand)
        self.view, at = ((dot.lhs, dot.lhs_at), (dot.rhs, dot.rhs_at))[self.which]
        self.at = at.data
        sizes = dict(zip(axes_of(dot), frag_of(dot.result).dims.data, strict=True))
        self.has_rows = ROW in sizes
        self.rows = word.rows if self.has_rows else 1
        width = sizes[axis].constant
        if width is None:
            raise MlcError(f"tiles: {word}: rows of {sizes[axis]} positions; expected a number")
        self.width = width
        self.down, self.along = self.slide(ROW), self.slide(axis)
        self.pitch = width + self.along.reach
        span = (self.rows - 1) * self.pitch + width
        self.count = ceil(span / word.unit) * word.unit
        beyond = self.down.reach * self.pitch + self.along.reach
        self.length = max(self.count + beyond, (self.rows + self.down.reach) * self.pitch)

    def slide(self, axis: str) -> Slide:
        """How the factor is read along an axis."""
        found = [dim for dim in self.at if axis in letters_in([dim])]
        if not found:
            return Slide(1, 1, "", 1, Dim.const(0))
        (dim,) = found
        scales = {m[0]: k for m, k in dim.terms if len(m) == 1 and isinstance(m[0], str)}
        stride = scales[f".{axis}"]
        inner = [c for c in letters_in([dim]) if c != axis]
        if len(inner) > 1 or stride < 1:
            raise MlcError(f"tiles: {self.word}: the factor is read at {dim}; expected a window")
        c = inner[0] if inner else ""
        dilation = scales[f".{c}"] if c else 1
        count = self.dot.summed[c].data[0].constant if c else 1
        if count is None:
            raise MlcError(f"tiles: {self.word}: a window of unknown size; expected a number")
        base = renamed(dim, {f".{x}": Dim.const(0) for x in (axis, c) if x})
        return Slide(stride, dilation, c, count, base)

    def write(self) -> None:
        """The copy, and the tile that reads it."""
        dot = self.dot
        self.copy()
        ops = tile_of(dot)
        for op in ops:
            for inner in op.walk():
                if isinstance(inner, StoreOp | LoadOp):
                    self.access(inner)
                elif isinstance(inner, MapOp):
                    self.map(inner)
        for op in ops:
            for x in [x for inner in op.walk() for x in inner.results]:
                if isinstance(x.type, FragType):
                    Rewriter.replace_value_with_new_type(x, self.tile(x.type))
        dot.properties["letters"] = StringAttr(dot.letters.data.replace(ROW, ""))

    def tile(self, kind: FragType) -> FragType:
        """Without rows, and with all positions on their axis."""
        axes = axes_of(self.dot)
        sizes = [
            Dim.const(self.count) if c == self.axis else size
            for c, size in zip(axes, kind.dims.data, strict=True)
            if c != ROW
        ]
        return FragType(DimsAttr(tuple(sizes)), kind.element, kind.layout)

    # the copy -------------------------------------------------------------------------------

    def copy(self) -> None:
        """Of what a block of rows reads; the product then reads that."""
        dot, down, along = self.dot, self.down, self.along
        windows = (down.window, along.window)
        plain = [c for c in dot.summed if c not in windows and c in letters_in(self.at)]
        parts = [(c, x) for c, x in (("P", down), ("Q", along)) if x.remainders > 1]
        named = Positions(dot.positions)
        left = next((x for x in self.loop.sizes if x is not None), None)
        rows = Dim.const(self.rows) if left is None else named.of(left)
        high = (("Y", ExpressionsAttr((rows + down.reach,))),) if self.has_rows else ()
        sizes: Over = (
            *high,
            ("X", ExpressionsAttr((Dim.const(self.pitch),))),
            *((c, ExpressionsAttr((Dim.const(x.remainders),))) for c, x in parts),
            *((c, dot.summed[c]) for c in plain),
        )
        source = tuple(self.from_(dim) for dim in self.at)
        rests, letters = [c for c, _ in parts], "".join(plain)
        around = "".join(rests)
        positions = "YX" if self.has_rows else "X"
        strip = "(YX)" if self.has_rows else "X"
        word = f"{letters}{around}{strip}" if self.which else f"{around}{strip}{letters}"
        extents = [dot.summed[c].data[0] for c in plain]
        outer = [Dim.const(x.remainders) for _, x in parts]
        length = Dim.const(self.length)
        shape = [*extents, *outer, length] if self.which else [*outer, length, *extents]
        kind = view_type(view_of(self.view).element, tuple(shape))
        alloc = AllocOp.of("worker", kind)
        alloc.result.name_hint = "strip"
        copy = CopyOp.of(
            (self.view, ExpressionsAttr(source)), (alloc.result, ExpressionsAttr(())),
            f"{letters}{around}{positions} -> {word}", named.values, over=sizes,
        )  # fmt: skip
        alloc.location = copy.location = dot.location
        first, block = self.kernel.block.first_op, dot.parent
        assert first is not None
        assert block is not None
        self.kernel.block.insert_op_before(alloc, first)
        if left is not None or self.length > (self.rows + down.reach) * self.pitch:
            # what no copy writes is multiplied, too: numbers that cost nothing
            self.kernel.block.insert_op_before(FillOp.of(alloc.result, FloatAttr(0.0, f64)), first)
        block.insert_op_before(copy, dot)
        place = letter(self.axis) + down.place * self.pitch + along.place
        rest = [x.rest for _, x in parts]
        inside = [letter(c) for c in plain]
        packed = [*inside, *rest, place] if self.which else [*rest, place, *inside]
        dot.operands = [alloc.result if k == self.which else x for k, x in enumerate(dot.operands)]
        dot.properties[("lhs_at", "rhs_at")[self.which]] = ExpressionsAttr(tuple(packed))

    def from_(self, dim: Dim) -> Dim:
        """A subscript of what is copied."""
        for axis, x, place, part in (
            (ROW, self.down, "Y", "P"), (self.axis, self.along, "X", "Q"),
        ):  # fmt: skip
            if axis in letters_in([dim]):
                rest = letter(part) if x.remainders > 1 else Dim.const(0)
                return x.base + letter(place) * x.stride + rest
        return dim

    # what follows ---------------------------------------------------------------------------

    def access(self, op: StoreOp | LoadOp) -> None:
        """Where the tile is stored: a position's row and its place in it."""
        if not self.has_rows:
            return
        row = letter(self.axis) // self.pitch
        place = letter(self.axis) - row * self.pitch
        to = {f".{ROW}": row, f".{self.axis}": place}
        op.properties["at"] = ExpressionsAttr(tuple(renamed(dim, to) for dim in op.at.data))
        if op.axes is not None:
            op.properties["axes"] = StringAttr(op.axes.data.replace(ROW, ""))
        if isinstance(op, StoreOp):
            there = [Condition("lt", place, Dim.const(self.width))]
            if self.count > self.rows * self.pitch:
                there.append(Condition("lt", letter(self.axis), Dim.const(self.rows * self.pitch)))
            op.properties["where"] = ConditionsAttr(tuple(there))

    def map(self, op: MapOp) -> None:
        """Coordinates of rows and positions, from the number of a position."""
        starts = list(op.starts.data)
        if not starts or not self.has_rows:
            return
        axes, block = axes_of(self.dot), op.body.block
        known = {c: block.args[len(op.inputs) + k] for k, c in enumerate(axes)}
        along = known[self.axis]
        row = position(0) // self.pitch
        number = axes.index(ROW)
        begin = starts[number].data[0] if starts[number].data else Dim.const(0)
        stand_in = Block(arg_types=[along.type]).args[0]  # for the position until it is bound
        named = Positions([stand_in])
        (start,) = named.moved((begin,), op.positions)
        bind(known[ROW], start + row, named.values)
        bind(along, position(0) - row * self.pitch, [stand_in])
        stand_in.replace_all_uses_with(along)
        block.erase_arg(known[ROW])
        del starts[number]
        op.properties["starts"] = ArrayAttr(starts)
