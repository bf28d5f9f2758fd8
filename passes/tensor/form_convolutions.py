"""
Sums of products of a tensor's shifted parts are convolutions.

A convolution written by hand is a sum over positions in the window: of the part of x that begins
there, times the weights of that position. Each product reads and writes the whole sum; a
convolution keeps its sums in registers until all windows are summed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.outside import outside_kernels
from mlc.dialects.dims import Dim, DimsAttr, Shape, shape_of, tensor_type
from mlc.dialects.numerics import is_strict
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.elementwise import AddOp
from mlc.dialects.tensor.letters import fresh, split
from mlc.dialects.tensor.op import OpBuilder, bytes_of, tensor_of
from mlc.dialects.tensor.placing import PadOp
from mlc.dialects.tensor.reduce import ContractOp
from mlc.dialects.tensor.shape import ReshapeOp, SliceOp
from mlc.dialects.tensor.window import ConvOp
from mlc.dialects.tensor.window_cotangent import flip
from mlc.dialects.tensor.window_letters import Axis, spell_axes
from mlc.lazy_dataclass import dataclass
from mlc.passes.remarks import remark
from mlc.passes.tensor.constants import splat
from mlc.passes.tensor.rules import Rewrite

ZERO = Dim.const(0)
ONE = Dim.const(1)


@dataclass(frozen=True)
class FormConvolutionsPass(ModulePass):
    """
    x[i : i + n] @ w[i] + x[i + 1 : i + 1 + n] @ w[i + 1] + …  ->  conv(x, w)

    and with the gradients of all w[i] the gradient of w,

    pad(x[i : i + n].T @ y) + pad(x[i + 1 : i + 1 + n].T @ y) + …  ->  conv(x, y)

    for any number of axes, strides and dilations, where the shifts are all of a grid. Terms are
    added in another order: not with numerics "strict", but for integers. For CPUs, which multiply
    windows as they do matrices.
    """

    name = "mlc-form-convolutions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        strict = is_strict(op)
        for inner in list(outside_kernels(op)):
            if isinstance(inner, AddOp) and not (strict and inner.dtype.is_inexact):
                _visit(inner)


@dataclass(frozen=True)
class _Read:
    """A part of a tensor, some of whose axes of size 1 a reshape has left out."""

    base: SSAValue
    offsets: tuple[Dim, ...]
    steps: tuple[int, ...]
    sizes: Shape
    shape: Shape  # behind the reshape

    @staticmethod
    def of(value: SSAValue) -> _Read:
        shape = shape_of(value.type)
        if isinstance(value.owner, ReshapeOp) and isinstance(value.owner.x.owner, SliceOp):
            value = value.owner.x
        op = value.owner
        if not isinstance(op, SliceOp):
            return _Read(value, (ZERO,) * len(shape), (1,) * len(shape), shape, shape)
        return _Read(op.x, op.offsets.data, tuple(step for _, step in op.starts()), op.shape, shape)

    def form(self) -> Hashable:
        """Equal for parts that begin at different places."""
        return self.base, self.steps, self.sizes, self.shape

    def letters(self, word: str, windows: Sequence[int]) -> list[str | None] | None:
        """
        The letter of each axis of the tensor: "" of the axes that positions in the window stand
        on, None of those that are left out; None altogether where the reshape does more.
        """
        return _aligned(word, self.shape, self.sizes, windows)


def _aligned(
    word: str, shape: Shape, sizes: Shape, windows: Sequence[int]
) -> list[str | None] | None:
    """As `_Read.letters`, of a tensor with these letters and sizes that a reshape gave others."""
    found: list[str | None] = []
    rest = list(zip(word, shape, strict=True))
    for axis, size in enumerate(sizes):
        if axis in windows:
            found.append("")
        elif rest and rest[0][1] == size:
            found.append(rest.pop(0)[0])
        elif size == ONE:
            found.append(None)
        else:
            return None
    return None if rest else found


@dataclass(frozen=True)
class _Tap:
    """One product of the sum, and what its factors are parts of."""

    term: SSAValue
    op: ContractOp
    reads: tuple[_Read, _Read]
    low: tuple[Dim, ...] = ()  # where it stands in a tensor of zeros, if it does
    word: tuple[str, ...] = ()  # the letters of that tensor: "" of the axes on which it has a place

    def form(self) -> Hashable:
        """Equal for products that may be of one convolution."""
        parts = (read.form() for read in self.reads)
        return self.op.letters.data, self.word, *parts


@dataclass(frozen=True)
class _Window:
    """One letter of the window: where x is shifted, and on which axis the weights, or sums, lie."""

    x_axis: int
    w_axis: int
    count: int
    first: Dim  # of the shifts
    dilation: int
    weight: int  # the first position's weights
    step: int  # of the weights

    @property
    def least(self) -> int:
        """The first of the weights, in their own order."""
        return min(self.weight, self.weight + (self.count - 1) * self.step)


def _visit(root: AddOp) -> None:
    """Replaces a whole sum, if products in it are convolutions."""
    if root.parent is None or not root.result.uses or _is_inner(root):
        return
    leaves = list(_leaves(root))
    groups: dict[Hashable, list[_Tap]] = {}
    for leaf in leaves:
        if (tap := _tap(leaf, root) or _placed(leaf, root)) is not None:
            groups.setdefault(tap.form(), []).append(tap)
    b = Rewrite()
    b.anchor = root
    made: dict[SSAValue, SSAValue | None] = {}
    for taps in groups.values():
        found = _convolution(b, taps)
        if found is not None:
            made.update(dict.fromkeys((tap.term for tap in taps), None))
            made[taps[0].term] = found
    if not made:
        return
    terms = [made.get(x, x) for x in leaves]
    kept = [x for x in terms if x is not None and splat(x) != 0]
    total = kept[0]
    for x in kept[1:]:
        total = b(AddOp, total, x)
    total.name_hint = root.result.name_hint
    root.result.replace_all_uses_with(total)


def _is_inner(op: AddOp) -> bool:
    """Whether the sum is a term of another one alone."""
    uses = list(op.result.uses)
    return len(uses) == 1 and isinstance((r := uses[0].operation), AddOp) and r.parent is op.parent


def _leaves(root: AddOp) -> Iterator[SSAValue]:
    """The terms of a sum, in their order."""
    pending = [*reversed(root.operands)]
    while pending:
        x = pending.pop()
        op = x.owner
        if isinstance(op, AddOp) and op.parent is root.parent and x.has_one_use():
            pending += reversed(op.operands)
        else:
            yield x


def _tap(x: SSAValue, root: AddOp) -> _Tap | None:
    op = x.owner
    if not isinstance(op, ContractOp) or op.parent is not root.parent or not x.has_one_use():
        return None
    left, right = op.operands
    return _Tap(x, op, (_Read.of(left), _Read.of(right)))


def _placed(x: SSAValue, root: AddOp) -> _Tap | None:
    """A product that is one place of a tensor of zeros: of the gradient to all weights."""
    pad = x.owner
    if not isinstance(pad, PadOp) or not x.has_one_use() or splat(pad.value) != 0:
        return None
    inner, shape = pad.x, shape_of(pad.x.type)
    if isinstance(inner.owner, ReshapeOp) and inner.has_one_use():
        inner = inner.owner.x
    tap = _tap(inner, root)
    ends = zip(pad.low.data, pad.high.data, strict=True)
    places = [k for k, (low, high) in enumerate(ends) if (low, high) != (ZERO, ZERO)]
    if tap is None or any(shape[k] != ONE for k in places):
        return None
    _, result = split(tap.op.letters.data)
    word = _aligned(result, shape_of(inner.type), shape, places)
    if word is None or None in word:
        return None
    return _Tap(x, tap.op, tap.reads, pad.low.data, tuple(c or "" for c in word))


def _convolution(b: Rewrite, taps: Sequence[_Tap]) -> SSAValue | None:
    """The convolution that all the products are; None where they are none."""
    if len(taps) < 2:
        return None
    for x in (0, 1):
        if taps[0].word:
            found = _of_places(b, taps, x)
        else:
            windows = _windows(taps, x)
            found = None if windows is None else _built(b, taps[0], x, windows)
        if found is not None:
            _explain(found, taps)
            return found
    return None


def _explain(found: SSAValue, taps: Sequence[_Tap]) -> None:
    op = found.owner
    assert isinstance(op, Operation)
    less = bytes_of(found.type) * 2 * (len(taps) - 1)
    remark(
        op,
        f"{len(taps)} products of shifted parts are one convolution (reassociating):"
        f" {less} bytes of sums less are read and written",
    )


def _windows(taps: Sequence[_Tap], x: int) -> list[_Window] | None:
    """The grid of all shifts of factor number x, and of the weights that belong to them."""
    shifts, places = (_moves([tap.reads[k].offsets for tap in taps]) for k in (x, 1 - x))
    weights = taps[0].reads[1 - x]
    if places is None or any(weights.sizes[axis] != ONE for axis in places):
        return None
    return _grid(shifts, places, taps[0].reads[x])


def _grid(
    shifts: Mapping[int, list[int]] | None, places: Mapping[int, list[int]], data: _Read
) -> list[_Window] | None:
    """The letters of a window, where shifts are all of a grid, each with a place of its own."""
    if not shifts or len(shifts) != len(places):
        return None
    found: list[_Window] = []
    left = dict(shifts)
    for w_axis, at in places.items():
        for x_axis, shift in left.items():
            window = _paired(x_axis, shift, w_axis, at, data.offsets[x_axis])
            if window is not None:
                found.append(window)
                del left[x_axis]
                break
    count = len(next(iter(shifts.values())))
    whole = len(found) == len(places) and prod(w.count for w in found) == count
    distinct = len(set(zip(*places.values(), strict=True))) == count
    return found if whole and distinct else None


def _moves(offsets: Sequence[Sequence[Dim]]) -> dict[int, list[int]] | None:
    """By each axis on which parts begin at different places, how far from the first one."""
    found: dict[int, list[int]] = {}
    for axis, first in enumerate(offsets[0]):
        moved = [(at[axis] - first).constant for at in offsets]
        known = [m for m in moved if m is not None]
        if len(known) < len(moved):
            return None
        if any(known):
            found[axis] = known
    return found


def _paired(
    x_axis: int, shift: Sequence[int], w_axis: int, at: Sequence[int], first: Dim
) -> _Window | None:
    """A letter of the window, where shifts and weights go evenly and together."""
    by_shift = dict(sorted(zip(shift, at, strict=True)))
    if any(by_shift[s] != a for s, a in zip(shift, at, strict=True)):
        return None
    pairs = list(by_shift.items())
    steps = {(s - r, b - a) for (r, a), (s, b) in pairwise(pairs)}
    if len(steps) != 1 or len(set(at)) != len(pairs):
        return None
    ((dilation, step),) = steps
    start, weight = pairs[0]
    return _Window(x_axis, w_axis, len(pairs), first + start, dilation, weight, step)


def _built(b: OpBuilder, tap: _Tap, x: int, windows: Sequence[_Window]) -> SSAValue | None:
    """The convolution, where its letters are those of one."""
    words, result = split(tap.op.letters.data)
    data, weights = tap.reads[x], tap.reads[1 - x]
    if any(sum(c in word for word in (*words, result)) < 2 for c in "".join(words)):
        return None
    x_letters = data.letters(words[x], ())
    w_letters = weights.letters(words[1 - x], [w.w_axis for w in windows])
    if x_letters is None or w_letters is None:
        return None
    used = [*words, result]
    names: dict[int, str] = {}
    for w in windows:
        c = x_letters[w.x_axis]
        if not c or c not in result or c in words[1 - x] or data.steps[w.x_axis] < 1:
            return None
        names[w.x_axis] = fresh(used)
        used.append(names[w.x_axis])
    left = _data(b, data, windows, x_letters)
    right = _weights(b, weights, windows, w_letters)
    axes = _axes(data, windows, x_letters, names)
    by_w = {w.w_axis: names[w.x_axis] for w in windows}
    word = "".join(by_w.get(axis, c) for axis, c in enumerate(w_letters) if c is not None)
    return b(
        ConvOp,
        left,
        right,
        letters=f"{spell_axes(axes)},{word}->{result}",
        declared=tensor_type(tap.op.dtype.ir, tap.op.shape),
    )


def _of_places(b: OpBuilder, taps: Sequence[_Tap], x: int) -> SSAValue | None:
    """The convolution with its window in the result: of x with a factor that is one for all."""
    first, data, other = taps[0], taps[0].reads[x], taps[0].reads[1 - x]
    if any(tap.reads[1 - x].offsets != other.offsets for tap in taps):
        return None
    places = _moves([tap.low for tap in taps])
    windows = _grid(_moves([tap.reads[x].offsets for tap in taps]), places or {}, data)
    words, result = split(first.op.letters.data)
    letters = data.letters(words[x], ())
    if windows is None or letters is None or any(abs(w.step) != 1 for w in windows):
        return None
    used, names = [*words, result], dict[int, str]()
    for w in windows:
        c = letters[w.x_axis]
        if not c or c in result or c not in words[1 - x] or data.steps[w.x_axis] < 1:
            return None
        names[w.x_axis] = fresh(used)
        used.append(names[w.x_axis])
    at = {w.w_axis: w for w in windows}
    if any(not c and axis not in at for axis, c in enumerate(first.word)):
        return None
    whole = shape_of(first.term.type)
    low = tuple(d + at[k].least if k in at else ZERO for k, d in enumerate(first.low))
    shape = tuple(Dim.const(at[k].count) if k in at else d for k, d in enumerate(whole))
    word = "".join(c or names[at[k].x_axis] for k, c in enumerate(first.word))
    axes = _axes(data, windows, letters, names)
    found = b(
        ConvOp,
        _data(b, data, windows, letters),
        first.op.operands[1 - x],
        letters=f"{spell_axes(axes)},{words[1 - x]}->{word}",
        declared=tensor_type(first.op.dtype.ir, shape),
    )
    found = flip(b, found, [k for k, w in at.items() if w.step < 0])
    if shape == whole:
        return found
    high = tuple(d - a - n for d, a, n in zip(whole, low, shape, strict=True))
    zero = full(b, 0, first.op.dtype, ())
    return b(PadOp, found, zero, low=DimsAttr(low), high=DimsAttr(high))


def _axes(
    data: _Read,
    windows: Sequence[_Window],
    letters: Sequence[str | None],
    names: Mapping[int, str],
) -> list[Axis]:
    """What each axis of the shifted factor is read at."""
    by_axis = {w.x_axis: w for w in windows}
    found: list[Axis] = []
    for axis, c in enumerate(letters):
        if c is not None:
            inner = ((by_axis[axis].dilation, names[axis]),) if axis in by_axis else ()
            found.append(((data.steps[axis] if inner else 1, c), *inner))
    return found


def _data(
    b: OpBuilder, read: _Read, windows: Sequence[_Window], letters: Sequence[str | None]
) -> SSAValue:
    """What the windows reach of x."""
    offsets, steps, sizes = list(read.offsets), list(read.steps), list(read.sizes)
    for w in windows:
        axis = w.x_axis
        reach = (sizes[axis] - 1) * steps[axis] + (w.count - 1) * w.dilation + 1
        offsets[axis], steps[axis], sizes[axis] = w.first, 1, reach
    return _part(b, read.base, (offsets, steps, sizes), letters)


def _weights(
    b: OpBuilder, read: _Read, windows: Sequence[_Window], letters: Sequence[str | None]
) -> SSAValue:
    """The weights, in the order of the shifts."""
    offsets, steps, sizes = list(read.offsets), list(read.steps), list(read.sizes)
    for w in windows:
        axis = w.w_axis
        offsets[axis] = offsets[axis] + w.weight
        steps[axis], sizes[axis] = w.step, Dim.const(w.count)
    return _part(b, read.base, (offsets, steps, sizes), letters)


def _part(
    b: OpBuilder,
    base: SSAValue,
    part: tuple[Sequence[Dim], Sequence[int], Sequence[Dim]],
    letters: Sequence[str | None],
) -> SSAValue:
    """A part of a tensor, without the axes that have no letter."""
    offsets, steps, sizes = part
    element = tensor_of(base).element_type
    whole = shape_of(base.type) == tuple(sizes)
    if not (whole and all(step == 1 for step in steps)):
        base = b(
            SliceOp,
            base,
            offsets=DimsAttr(tuple(offsets)),
            steps=DimsAttr(tuple(map(Dim.const, steps))),
            declared=tensor_type(element, tuple(sizes)),
        )
    kept = tuple(size for size, c in zip(sizes, letters, strict=True) if c is not None)
    return (
        base if len(kept) == len(sizes) else b(ReshapeOp, base, declared=tensor_type(element, kept))
    )
