"""
Programs beside a convolution that give a result of its shape: what may be right at most positions.

A mutant reads an axis of the image in another form, all of its windowed axes or one of them: with
another stride or dilation, in phases that a reshape makes axes of their own, together with the
batch, or without the zeros around it. What is too long is cut off, what is missing is zero.
Whether it is right, and where, `compare` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from mlc.dialects.dims import Dim, tensor_type
from mlc.dialects.errors import MlcError
from mlc.dialects.tensor.letters import fresh
from mlc.dialects.tensor.op import OpBuilder, tensor_of
from mlc.dialects.tensor.placing import PadOp
from mlc.dialects.tensor.shape import ReshapeOp, TransposeOp
from mlc.dialects.tensor.window import ConvOp
from mlc.dialects.tensor.window_letters import Axis, flat_word, spell_axes
from mlc.lazy_dataclass import dataclass
from mlc.passes.partial.regions import Run
from mlc.passes.partial.restrict import sizes_of, slice_of, whole, zeros_like
from mlc.passes.tensor.constants import is_splat_of

PHASES = (2, 3, 4)


@dataclass(frozen=True)
class Form:
    """How a windowed axis is read. `phases` > 1: after a reshape that splits it."""

    stride: int
    dilation: int
    phases: int = 1
    summed: bool = False  # the phases, which the window is split into as well
    apart: bool = False  # the phases, as images of their own
    with_batch: bool = False
    without_zeros: bool = False

    def __str__(self) -> str:
        said = [f"stride {self.stride}, dilation {self.dilation}"]
        how = " that are summed" if self.summed else " as images" if self.apart else ""
        said += [f"in {self.phases} phases{how}"] * (self.phases > 1)
        said += ["as one axis with the batch"] * self.with_batch
        said += ["without its zeros"] * self.without_zeros
        return ", ".join(said)


@dataclass(frozen=True)
class Mutant:
    """A program, and what was done to make it."""

    says: str
    function: FuncOp


def mutants(original: FuncOp) -> Iterator[Mutant]:
    """All that there are of each convolution of a program, in the same order in every run."""
    for number, op in enumerate(original.body.block.ops):
        if isinstance(op, ConvOp):
            windowed = [k for k, axis in enumerate(op.axes[0]) if len(axis) > 1]
            groups = [windowed, *([k] for k in windowed if len(windowed) > 1)]
            for axes in groups:
                for form in _forms(op, axes):
                    if (found := _mutant(original, number, axes, form)) is not None:
                        listed = " and ".join(map(str, axes))
                        yield Mutant(f"{op.letters.data}: axis {listed} with {form}", found)


def _forms(op: ConvOp, axes: Sequence[int]) -> Iterator[Form]:
    pairs = {_coefficients(op, k) for k in axes}
    if len(pairs) != 1:
        return
    ((stride, dilation),) = pairs
    strides = sorted({1, stride})
    dilations = range(1, dilation + 1)
    phases = [1, *sorted({*PHASES, stride, dilation} - {1})]
    if stride > 1 and dilation == 1:
        yield Form(1, 1, stride, summed=True)
    padded = isinstance(op.lhs.owner, PadOp) and is_splat_of(op.lhs.owner.value, 0)
    for count in phases:
        for s in strides:
            for d in dilations:
                for with_batch in (False, True) if count == 1 else (False,):
                    for without_zeros in (False, True) if padded and count == 1 else (False,):
                        form = Form(s, d, count, with_batch=with_batch, without_zeros=without_zeros)
                        if form != Form(stride, dilation):
                            yield form
                if count > 1:
                    yield Form(s, d, count, apart=True)


def _coefficients(op: ConvOp, axis: int) -> tuple[int, int]:
    """Stride and dilation."""
    result = op.words()[1]
    (a, first), (c, _) = op.axes[0][axis]
    return (a, c) if first in result else (c, a)


def _mutant(original: FuncOp, number: int, axes: Sequence[int], form: Form) -> FuncOp | None:
    """The program with one op in other forms; None where these have no type."""
    function = original.clone()
    op = list(function.body.block.ops)[number]
    assert isinstance(op, ConvOp)

    def insert(new: Operation) -> None:
        new.location = op.location
        assert op.parent is not None
        op.parent.insert_op_before(new, op)

    try:
        found = _Rewritten(OpBuilder(insert), op, axes, form).value()
    except (MlcError, ArithmeticError):
        return None
    if found is None:
        return None
    op.result.replace_all_uses_with(found)
    assert op.parent is not None
    op.parent.erase_op(op)
    return function


class _Rewritten:
    """One convolution in another form. `after` undoes on the result what was done to the image."""

    def __init__(self, b: OpBuilder, op: ConvOp, axes: Sequence[int], form: Form) -> None:
        self.b, self.op, self.form = b, op, form
        self.x: SSAValue = op.lhs
        self.weights: SSAValue = op.rhs
        self.axes: list[Axis] = list(op.axes[0])
        self.word = flat_word(op.axes[1])
        self.wanted = op.words()[1]
        self.result = self.wanted
        self.sizes = {c: n.evaluate({}) for c, n in op.sizes().items()}
        self.letters = [self._outer(k) for k in axes]
        self.phase = ""
        """The letter of the phases of the axis that was split last."""
        self.after: list[Callable[[SSAValue], SSAValue]] = []

    def _outer(self, axis: int) -> str:
        return next(c for _, c in self.op.axes[0][axis] if c in self.wanted)

    def value(self) -> SSAValue | None:
        """The new result, of the old one's type; None where the form does not apply."""
        for letter in self.letters:
            if not self.changed(letter):
                return None
        words = f"{spell_axes(self.axes)},{self.word}->{self.result}"
        shape = tuple(Dim.const(self.sizes[c]) for c in self.result)
        declared = tensor_type(self.op.dtype.ir, shape)
        found = self.b(
            ConvOp, self.x, self.weights, letters=words, declared=declared, **self.op.rounding
        )
        for undo in reversed(self.after):
            found = undo(found)
        return found if found.type == self.op.result.type else None

    def place(self, letter: str) -> int:
        """The axis of the image that is read with a letter of the result."""
        return next(k for k, axis in enumerate(self.axes) if letter in [c for _, c in axis])

    def changed(self, letter: str) -> bool:
        """The axis in its new form; False where it does not apply."""
        form, axis = self.form, self.place(letter)
        count = self.sizes[letter]
        if form.without_zeros and not self.bare(axis):
            return False
        if form.with_batch and not self.joined(letter):
            return False
        axis = self.place(letter)
        inner = next(c for _, c in self.axes[axis] if c != letter)
        self.axes[axis] = ((form.stride, letter), (form.dilation, inner))
        size = sizes_of(self.x)[axis]
        if form.phases > 1:
            if size < form.phases:
                return False
            size //= form.phases
            self.in_phases(axis, letter, size, count)
            if form.summed:
                self.split_window(inner)
        elif not form.with_batch:
            self.after.append(lambda y: self.fitted(y, letter, count))
        reach = (self.sizes[inner] - 1) * form.dilation + 1
        self.sizes[letter] = (size - reach) // form.stride + 1
        return self.sizes[letter] > 0

    def bare(self, axis: int) -> bool:
        """The image without the zeros around an axis."""
        pad = self.x.owner
        if not isinstance(pad, PadOp):
            return False
        low, high = [*pad.low.data], [*pad.high.data]
        low[axis] = high[axis] = Dim.const(0)
        self.x = self.b(PadOp, pad.x, pad.value, low=tuple(low), high=tuple(high))
        return True

    def split_window(self, inner: str) -> None:
        """The window's letter and that of the phases, by which the weights are read as well."""
        phases, k, weights = self.form.phases, self.word.index(inner), self.weights
        sizes = sizes_of(weights)
        count = -(-sizes[k] // phases)
        if missing := count * phases - sizes[k]:
            high = [Dim.const(missing if j == k else 0) for j in range(len(sizes))]
            none = (Dim.const(0),) * len(sizes)
            zero = zeros_like(self.b, weights)
            weights = self.b(PadOp, weights, zero, low=none, high=tuple(high))
        self.weights = self.shaped(weights, [*sizes[:k], count, phases, *sizes[k + 1 :]])
        self.word = f"{self.word[: k + 1]}{self.phase}{self.word[k + 1 :]}"
        self.sizes[inner] = count

    def in_phases(self, axis: int, letter: str, size: int, count: int) -> None:
        """The axis cut to a multiple of the phases, and split."""
        phases = self.form.phases
        cut = list(whole(self.x))
        cut[axis] = Run(0, 1, size * phases)
        self.x = slice_of(self.b, self.x, tuple(cut))
        sizes = sizes_of(self.x)
        self.x = self.shaped(self.x, [*sizes[:axis], size, phases, *sizes[axis + 1 :]])
        phase = self.phase = fresh(self.sizes)
        self.sizes[phase] = phases
        self.axes.insert(axis + 1, ((1, phase),))
        if self.form.summed:
            self.after.append(lambda y: self.fitted(y, letter, count))
            return
        before, place = self.result, self.result.index(letter)
        within = f"{before[: place + 1]}{phase}{before[place + 1 :]}"
        self.result = f"{phase}{before}" if self.form.apart else within
        if self.form.apart:
            k, rank = axis + 1, len(self.axes)
            self.x = self.moved(self.x, [k, *(j for j in range(rank) if j != k)])
            self.axes.insert(0, self.axes.pop(k))

        def undo(y: SSAValue) -> SSAValue:
            y = self.moved(y, [self.result.index(c) for c in within])
            sizes = sizes_of(y)
            y = self.shaped(y, [*sizes[:place], sizes[place] * phases, *sizes[place + 2 :]])
            self.result = before
            return self.fitted(y, letter, count)

        self.after.append(undo)

    def joined(self, letter: str) -> bool:
        """The image with its batch and the axis as one; the batch is the first that is whole."""
        axis = self.place(letter)
        plain = [
            k
            for k, ax in enumerate(self.axes)
            if len(ax) == 1 and ax[0][1] in self.result and ax[0][1] not in self.op.words()[0][1]
        ]
        size = sizes_of(self.x)[axis]
        if not plain or size % self.form.stride:
            return False
        batch, count = self.axes[plain[0]][0][1], self.sizes[letter]
        images, places = self.sizes[batch], size // self.form.stride
        rank = len(self.axes)
        order = [k for k in range(rank) if k != plain[0]]
        order.insert(order.index(axis), plain[0])
        self.x = self.moved(self.x, order)
        at = order.index(plain[0])
        sizes = sizes_of(self.x)
        self.x = self.shaped(self.x, [*sizes[:at], sizes[at] * sizes[at + 1], *sizes[at + 2 :]])
        self.axes.pop(plain[0])
        before = self.result
        self.result = before.replace(batch, "")

        def undo(y: SSAValue) -> SSAValue:
            y = self.fitted(y, letter, images * places)
            k, sizes = self.result.index(letter), sizes_of(y)
            y = self.shaped(y, [*sizes[:k], images, places, *sizes[k + 1 :]])
            word = self.result.replace(letter, batch + letter)
            y = self.moved(y, [word.index(c) for c in before])
            self.result = before
            return self.fitted(y, letter, count)

        self.after.append(undo)
        return True

    def fitted(self, y: SSAValue, letter: str, count: int) -> SSAValue:
        """A result whose axis has `count` positions: cut off, or with zeros around it."""
        k, box = self.result.index(letter), list(whole(y))
        missing = count - box[k].count
        if missing <= 0:
            box[k] = Run(0, 1, count)
            return slice_of(self.b, y, tuple(box))
        before = missing // 2 if self.form.without_zeros else 0
        low, high = [Dim.const(0)] * len(box), [Dim.const(0)] * len(box)
        low[k], high[k] = Dim.const(before), Dim.const(missing - before)
        return self.b(PadOp, y, zeros_like(self.b, y), low=tuple(low), high=tuple(high))

    def shaped(self, value: SSAValue, sizes: Sequence[int]) -> SSAValue:
        kind = tensor_type(tensor_of(value).element_type, tuple(map(Dim.const, sizes)))
        return self.b(ReshapeOp, value, declared=kind)

    def moved(self, value: SSAValue, order: Sequence[int]) -> SSAValue:
        """Axes in another order."""
        if list(order) == list(range(len(order))):
            return value
        letters = "abcdefghijklmnop"[: len(order)]
        result = "".join(letters[k] for k in order)
        return self.b(TransposeOp, value, letters=f"{letters}->{result}")
