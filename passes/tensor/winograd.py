"""
Convolutions with windows of 3 x 3 by fewer multiplications, with numerics "fast".

Four results of a window of 2 x 2 take 16 products of what 16 elements of x add up to and what 9
weights do, instead of 36. Sums of elements cancel, so errors are larger: some units in the last
place of the largest summand.
SOURCE: Lavin and Gray, "Fast algorithms for convolutional neural networks", arXiv 1509.09308, 2015.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.outside import outside_kernels
from mlc.dialects.dims import Dim, DimsAttr, product, shape_of, tensor_type
from mlc.dialects.dtypes import F32
from mlc.dialects.numerics import numerics_of
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.attribute import cpu_of
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.elementwise import AddOp, MulOp, SubOp
from mlc.dialects.tensor.op import element_dtype, tensor_of
from mlc.dialects.tensor.placing import PadOp
from mlc.dialects.tensor.reduce import ContractOp
from mlc.dialects.tensor.shape import ConcatOp, ReshapeOp, SliceOp
from mlc.dialects.tensor.window import ConvOp
from mlc.dialects.tensor.window_letters import split_windows
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.ops import at_peak
from mlc.passes.cost.work import LEVELS, Work, moved, seconds
from mlc.passes.remarks import remark
from mlc.passes.tensor.rules import Rewrite

ZERO, ONE = Dim.const(0), Dim.const(1)
WINDOW, RESULTS, PLACES = 3, 2, 4
MARGIN = 2.0  # of the seconds that moving what is added up takes; measured: docs/measurements.md
LEAST = 32  # tiles of an image: the columns of 16 products that fill register tiles

Grid = list[list[SSAValue]]
Along = Callable[[Rewrite, Sequence[SSAValue]], list[SSAValue]]


@dataclass(frozen=True)
class WinogradPass(ModulePass):
    """
    conv "nc(y+i)(x+j),fcij->nfyx"  ->  16 times contract "ncyx,fc->nfyx", of sums and into sums
    """

    name = "mlc-winograd"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if numerics_of(op) != "fast":
            return
        target = cpu_of(op, self.name)
        for inner in list(outside_kernels(op)):
            if isinstance(inner, ConvOp):
                form = _form(inner)
                if form is not None and _repays(inner, form, target):
                    _rewrite(inner, form)


@dataclass(frozen=True)
class _Form:
    """A convolution of windows of 3 x 3: which axes of each tensor they stand on."""

    words: tuple[str, str, str]  # letters of x by result, of the weights and of the result
    x_axes: tuple[int, int]
    w_axes: tuple[int, int]
    axes: tuple[int, int]  # of the result
    counts: tuple[int, int]

    @property
    def tiles(self) -> tuple[int, int]:
        """Of results, along both."""
        return -(-self.counts[0] // RESULTS), -(-self.counts[1] // RESULTS)


def _form(op: ConvOp) -> _Form | None:
    """None of strides, dilations, other windows, and axes whose size only a call knows."""
    (data, weights), result = split_windows(op.letters.data)
    if op.dtype.kind != "float" or op.summand() is not op.dtype:
        return None
    pairs = [(k, axis) for k, axis in enumerate(data) if len(axis) > 1]
    if len(pairs) != 2 or any(one != 1 for _, axis in pairs for one, _ in axis):
        return None
    placed = [next(c for _, c in axis if c in result) for _, axis in pairs]
    window = [next(c for _, c in axis if c not in result) for _, axis in pairs]
    plain = ["".join(c for _, c in axis) for axis in weights]
    sizes = shape_of(op.rhs.type)
    w_axes = [plain.index(c) for c in window]
    if any(sizes[k] != Dim.const(WINDOW) for k in w_axes):
        return None
    counts = [shape_of(op.result.type)[result.index(c)].constant for c in placed]
    if any(size is None or size < PLACES for size in counts):
        return None
    word = "".join(next((c for _, c in axis if c in result), axis[0][1]) for axis in data)
    kept = "".join(c for c in plain if c not in window)
    first, second = (k for k, _ in pairs)
    return _Form(
        (word, kept, result),
        (first, second),
        (w_axes[0], w_axes[1]),
        (result.index(placed[0]), result.index(placed[1])),
        (counts[0] or 0, counts[1] or 0),
    )


def _repays(op: ConvOp, form: _Form, target: CpuTarget) -> bool:
    """Whether the multiplications that go take longer than the sums that come take to move."""
    tiles = prod(form.tiles)
    sizes = dict(zip(form.words[0], shape_of(op.lhs.type), strict=True))
    sizes |= dict(zip(form.words[2], shape_of(op.result.type), strict=True))
    if tiles < LEAST or any(size.constant is None for size in sizes.values()):
        return False
    for axis, count in zip(form.axes, form.tiles, strict=True):
        sizes[form.words[2][axis]] = Dim.const(count)
    data, weights, result = (product(sizes[c] for c in w).constant or 0 for w in form.words)
    depth = product(sizes[c] for c in form.words[1] if c not in form.words[2]).constant or 0
    whole = WINDOW**2 * result // tiles * prod(form.counts)
    # of f64 both take twice as long
    saved = Work(core=at_peak(2 * depth * (whole - PLACES**2 * result), target))
    bytes_ = PLACES**2 * (data + weights + result) * F32.bytes
    more = Work(read=moved(bytes_, LEVELS - 1))
    return seconds(saved, target) > MARGIN * seconds(more, target)


def _rewrite(op: ConvOp, form: _Form) -> None:
    b = Rewrite()
    b.anchor = op
    x, sizes = op.lhs, list(shape_of(op.lhs.type))
    high = [ZERO] * len(sizes)
    for axis, count, tile in zip(form.x_axes, form.counts, form.tiles, strict=True):
        high[axis] = Dim.const(RESULTS * tile - count)
    if any(d != ZERO for d in high):  # zeros make up the last tile, whose results go again
        low = DimsAttr((ZERO,) * len(sizes))
        x = b(PadOp, x, full(b, 0, op.dtype, ()), low=low, high=DimsAttr(tuple(high)))
    data = [
        [_part(b, x, form.x_axes, (i, j), form.tiles, RESULTS) for j in range(PLACES)]
        for i in range(PLACES)
    ]
    weights = [
        [_weight(b, op.rhs, form.w_axes, (i, j)) for j in range(WINDOW)] for i in range(WINDOW)
    ]
    v, u = _both(b, data, _of_data), _both(b, weights, _of_weights)
    letters = f"{form.words[0]},{form.words[1]}->{form.words[2]}"
    products = [
        [b(ContractOp, v[i][j], u[i][j], letters=letters) for j in range(PLACES)]
        for i in range(PLACES)
    ]
    found = _interleaved(b, _both(b, products, _of_products), form.axes)
    shape = shape_of(op.result.type)
    if shape_of(found.type) != shape:
        offsets, steps = (ZERO,) * len(shape), (ONE,) * len(shape)
        found = b(SliceOp, found, offsets=offsets, steps=steps, declared=tensor_of(op.result))
    remark(op, "windows of 3 x 3 by 16 products for 4 results instead of 36 (fast)")
    found.name_hint = op.result.name_hint
    op.result.replace_all_uses_with(found)
    op.detach()
    op.erase()


def _part(
    b: Rewrite,
    x: SSAValue,
    axes: Sequence[int],
    at: Sequence[int],
    sizes: Sequence[int],
    step: int,
) -> SSAValue:
    """Of some axes so many elements, each `step` behind the one before."""
    shape = list(shape_of(x.type))
    offsets, steps = [ZERO] * len(shape), [ONE] * len(shape)
    for axis, first, size in zip(axes, at, sizes, strict=True):
        offsets[axis], steps[axis], shape[axis] = Dim.const(first), Dim.const(step), Dim.const(size)
    kind = tensor_type(tensor_of(x).element_type, tuple(shape))
    return b(SliceOp, x, offsets=tuple(offsets), steps=tuple(steps), declared=kind)


def _weight(b: Rewrite, w: SSAValue, axes: Sequence[int], at: Sequence[int]) -> SSAValue:
    """The weights of one place in the window."""
    part = _part(b, w, axes, at, (1, 1), 1)
    shape = tuple(d for k, d in enumerate(shape_of(w.type)) if k not in axes)
    return b(ReshapeOp, part, declared=tensor_type(tensor_of(w).element_type, shape))


def _both(b: Rewrite, grid: Grid, along: Along) -> Grid:
    """A transformation of columns, then of rows."""
    columns = [along(b, [row[j] for row in grid]) for j in range(len(grid[0]))]
    return [along(b, [column[i] for column in columns]) for i in range(len(columns[0]))]


def _of_data(b: Rewrite, d: Sequence[SSAValue]) -> list[SSAValue]:
    return [b(SubOp, d[0], d[2]), b(AddOp, d[1], d[2]), b(SubOp, d[2], d[1]), b(SubOp, d[1], d[3])]


def _of_weights(b: Rewrite, g: Sequence[SSAValue]) -> list[SSAValue]:
    ends = b(AddOp, g[0], g[2])
    half = full(b, 0.5, element_dtype(g[0]), shape_of(g[0].type))
    both = (b(MulOp, b(way, ends, g[1]), half) for way in (AddOp, SubOp))
    return [g[0], *both, g[2]]


def _of_products(b: Rewrite, m: Sequence[SSAValue]) -> list[SSAValue]:
    return [
        b(AddOp, b(AddOp, m[0], m[1]), m[2]),
        b(SubOp, b(SubOp, m[1], m[2]), m[3]),
    ]


def _interleaved(b: Rewrite, grid: Grid, axes: tuple[int, int]) -> SSAValue:
    """One tensor of results whose places in a tile are apart."""
    rows = [_merged(b, row, axes[1]) for row in grid]
    return _merged(b, rows, axes[0])


def _merged(b: Rewrite, parts: Sequence[SSAValue], axis: int) -> SSAValue:
    """Tensors whose elements along an axis stand in turn."""
    shape, element = list(shape_of(parts[0].type)), tensor_of(parts[0]).element_type
    apart = tensor_type(element, (*shape[: axis + 1], ONE, *shape[axis + 1 :]))
    whole = b(ConcatOp, *(b(ReshapeOp, x, declared=apart) for x in parts), axis=axis + 1)
    shape[axis] = shape[axis] * len(parts)
    return b(ReshapeOp, whole, declared=tensor_type(element, tuple(shape)))
