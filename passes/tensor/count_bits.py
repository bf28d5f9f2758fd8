"""Loops that count the bits of a number one after another, as instructions count them."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.tensor.bitwise import AndOp, OrOp, PopcountOp, ShrOp
from mlc.dialects.tensor.comparison import CompareOp, ConvertOp, SelectOp
from mlc.dialects.tensor.control import WhileOp, YieldOp, is_inside, yield_of
from mlc.dialects.tensor.create import ConstantOp, full
from mlc.dialects.tensor.elementwise import AddOp, Binary, MulOp, SubOp
from mlc.dialects.tensor.op import element_dtype, tensor_of
from mlc.lazy_dataclass import dataclass
from mlc.passes.remarks import remark
from mlc.passes.tensor.constants import constant_of, is_splat_of
from mlc.passes.tensor.derivative.emit import Emitter

INTEGERS = ("int", "uint")
PURE = (AddOp, AndOp, CompareOp, ConstantOp, ConvertOp, ShrOp, SubOp, YieldOp)


@dataclass(frozen=True)
class CountBitsPass(ModulePass):
    """
    while v != 0 { v = v & (v - 1); c = c + k }  ->  c + k * popcount(v)

    Three loops have a known number of trips: that one, which clears the lowest bit; `v = v >> 1`,
    whose trips are the places up to the highest bit; and this with `c = c + (v & 1)`, which counts.
    Numbers with a sign may be shifted while they are greater than 0, since -1 never becomes 0.
    Other carried values stay, or grow by the same number in each trip. Exact: sums wrap around
    alike.

    Such a loop has no trips to wait for, so a loop of elements around it may become one op.
    """

    name = "mlc-count-bits"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for loop in [x for x in op.walk() if isinstance(x, WhileOp)]:
            found = _Counting.of(loop)
            if found is not None:
                found.replace()


@dataclass(frozen=True)
class _Counting:
    """The loop, which of its values are the bits, and what each other one grows by."""

    loop: WhileOp
    bits: int
    shifts: bool
    guarded: bool  # runs for numbers above 0 alone
    steps: tuple[_Step, ...]

    @staticmethod
    def of(loop: WhileOp) -> _Counting | None:
        if not all(isinstance(op, PURE) for block in loop.blocks for op in block.ops):
            return None
        test = loop.test.owner
        if not isinstance(test, CompareOp) or not is_splat_of(test.rhs, 0):
            return None
        predicate = test.predicate.data
        arguments: list[SSAValue] = list(loop.condition.block.args)
        if test.lhs not in arguments or predicate not in ("ne", "gt"):
            return None
        k = arguments.index(test.lhs)
        dtype, v = element_dtype(test.lhs), loop.body.block.args[k]
        following = yield_of(loop.body.block).values[k]
        guarded = predicate == "gt" and dtype.kind == "int"
        shifts = _halves(following, v) and (guarded or dtype.kind == "uint")
        if dtype.kind not in INTEGERS or not (shifts or _clears(following, v)):
            return None
        steps = list[_Step]()
        for step in _steps(loop, k, v if shifts else None):
            if step is None:
                return None
            steps.append(step)
        return _Counting(loop, k, shifts, guarded, tuple(steps))

    def replace(self) -> None:
        """What the loop gives, before it and without it."""
        loop = self.loop
        assert loop.parent is not None
        b = Emitter(loop.parent, loop.location, before=loop)
        v = loop.inits[self.bits]
        dtype = element_dtype(v)
        zero = full(b, 0, dtype, ())
        run = b(CompareOp, v, zero, predicate="gt") if self.guarded else None
        bits = b(SelectOp, run, v, zero) if run is not None else v
        left = b(SelectOp, run, zero, v) if run is not None else zero
        counts = dict[bool, SSAValue]()
        values = zip(loop.inits, loop.outs, self.steps, strict=True)
        for k, (init, result, step) in enumerate(values):
            if k == self.bits:
                result.replace_all_uses_with(left)
            elif not step.grows:
                result.replace_all_uses_with(init)
            else:
                trips = self.shifts and not step.of_bit
                if trips not in counts:
                    counts[trips] = b(PopcountOp, _filled(b, bits) if trips else bits)
                result.replace_all_uses_with(step.after(b, init, counts[trips]))
        remark(loop, "counts bits: it has no trips")
        loop.detach()
        loop.erase()


@dataclass(frozen=True)
class _Step:
    """What a trip adds to a carried value: nothing, 1 for each bit, or a number for each trip."""

    number: SSAValue | None = None
    subtracts: bool = False
    of_bit: bool = False

    @property
    def grows(self) -> bool:
        """Whether it adds anything."""
        return self.of_bit or self.number is not None

    def after(self, b: Emitter, start: SSAValue, count: SSAValue) -> SSAValue:
        """The value behind so many trips."""
        kind = tensor_of(start)
        if count.type != kind:
            count = b(ConvertOp, count, declared=kind)
        if self.number is not None:
            known = constant_of(self.number)  # perhaps inside the loop
            number = self.number if known is None else b(ConstantOp, value=known.value)
            count = count if is_splat_of(number, 1) else b(MulOp, count, number)
        return b(SubOp if self.subtracts else AddOp, start, count)


def _steps(loop: WhileOp, bits: int, shifted: SSAValue | None) -> Iterator[_Step | None]:
    """Of every carried value; None where it is none of these."""
    body = loop.body.block
    for k, (old, new) in enumerate(zip(body.args, yield_of(body).values, strict=True)):
        if k == bits or new is old:
            yield _Step()
        elif not isinstance(new.owner, AddOp | SubOp) or element_dtype(new).kind not in INTEGERS:
            yield None
        else:
            yield _step(loop, old, new.owner, shifted)


def _step(loop: WhileOp, old: SSAValue, op: Binary, shifted: SSAValue | None) -> _Step | None:
    added = op.rhs if op.lhs is old else op.lhs
    subtracts = isinstance(op, SubOp)
    if old not in op.operands or added is old or (subtracts and op.lhs is not old):
        return None
    if isinstance(added.owner, ConstantOp) or not is_inside(added, loop):
        return _Step(added, subtracts)
    bit = added.owner.x if isinstance(added.owner, ConvertOp) else added
    of_bit = shifted is not None and _is(bit, AndOp, shifted, 1)
    return _Step(subtracts=subtracts, of_bit=True) if of_bit else None


def _is(value: SSAValue, kind: type[Binary], x: SSAValue, number: int) -> bool:
    """Whether the value is this op of x and a number."""
    op = value.owner
    if not isinstance(op, kind):
        return False
    pairs = [(op.lhs, op.rhs)] if kind in (SubOp, ShrOp) else [(op.lhs, op.rhs), (op.rhs, op.lhs)]
    return any(a is x and is_splat_of(c, number) for a, c in pairs)


def _clears(value: SSAValue, v: SSAValue) -> bool:
    """v & (v - 1)"""
    op = value.owner
    if not isinstance(op, AndOp) or v not in op.operands:
        return False
    less = op.rhs if op.lhs is v else op.lhs
    return _is(less, SubOp, v, 1) or _is(less, AddOp, v, -1)


def _halves(value: SSAValue, v: SSAValue) -> bool:
    """v >> 1"""
    return _is(value, ShrOp, v, 1)


def _filled(b: Emitter, x: SSAValue) -> SSAValue:
    """Every bit below the highest one as well."""
    dtype, places = element_dtype(x), 1
    while places < 8 * dtype.bytes:
        x = b(OrOp, x, b(ShrOp, x, full(b, places, dtype, ())))
        places *= 2
    return x
