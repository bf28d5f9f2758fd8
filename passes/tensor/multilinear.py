"""
Whether a function is multilinear in some of its arguments: f(a x + b y, w) = a f(x, w) + b f(y, w).

A value gets a *form*: its degree in each group of arguments, as monomials have one. Ops say in
which operands they are linear, each alone (`linear_operands`: degrees add up, so a product of a
value with itself is quadratic) or only together (`jointly_linear`: a sum is linear in the pair of
its operands, and affine in one of them while the other is fixed). What else reads an argument has
no form. The answer holds in exact arithmetic; rounding is left aside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Literal

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.control import ControlOp, ForOp, IfOp, WhileOp, YieldOp
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.op import TensorOp, element_dtype
from mlc.lazy_dataclass import dataclass
from mlc.passes.remarks import place
from mlc.passes.tensor.constants import splat

Degrees = tuple[int, ...]
"""By group of arguments; all zero: the value does not depend on them."""


@dataclass(frozen=True)
class Fault:
    """The first op on the way that keeps a value from having a form."""

    text: str


ZERO: Literal["zero"] = "zero"
"""Zero everywhere: of every degree at once."""

Form = Degrees | Fault | Literal["zero"]


@dataclass(frozen=True)
class Multilinearity:
    """The answer; `why` says what is in the way where it is no."""

    why: str = ""

    def __bool__(self) -> bool:
        return not self.why


def multilinearity(
    function: FuncOp, groups: Sequence[Sequence[int]], names: Sequence[str] | None = None
) -> Multilinearity:
    """
    Whether every result is linear in each group of arguments while everything else is fixed.

    A group is one argument, or several that vary together: x + y is multilinear in ((0, 1),), not
    in ((0,), (1,)). `names` are the arguments' in messages. ValueError where a group is empty or an
    argument is in two.
    """
    block = function.body.block
    listed = [k for group in groups for k in group]
    if not all(groups) or len(set(listed)) != len(listed):
        raise ValueError(f"groups {groups!r}: expected each argument once, and no empty group")
    names = names or [f"argument {k}" for k in range(len(block.args))]
    labels = [" and ".join(names[k] for k in group) for group in groups]
    member = {k: g for g, group in enumerate(groups) for k in group}
    analysis = _Analysis(labels)
    arguments: list[Form] = [
        tuple(int(member.get(k) == g) for g in range(len(groups))) for k in range(len(block.args))
    ]
    for k, form in enumerate(analysis.run(block, arguments)):
        if isinstance(form, Fault):
            return Multilinearity(form.text)
        if form != ZERO and (missing := [g for g, degree in enumerate(form) if degree != 1]):
            return Multilinearity(f"result {k} does not depend on {labels[missing[0]]}")
    return Multilinearity()


def is_multilinear(op: TensorOp) -> bool | None:
    """
    Whether an op is linear in each of its operands while the others are fixed, or in some of them
    together (a sum), whatever made them. Not a product of a value with itself; of constants a
    quotient may be. None: it reads nothing that varies.
    """
    alone, together = op.linear_operands(), op.jointly_linear()
    varying = [k for k, x in enumerate(op.operands) if not _is_constant(x)]
    if not varying:
        return None
    kinds = {element_dtype(x).kind for x in (*op.operands, *op.results)}
    if kinds & {"bool", "int", "uint"} and not op.MOVES:
        return False
    factors = [op.operands[k] for k in varying if k in alone]
    return all(k in together for k in varying) and len(set(factors)) == len(factors)


@dataclass
class _Analysis:
    """The forms of one function's values. `labels` name the groups."""

    labels: Sequence[str]
    forms: dict[SSAValue, Form] = field(default_factory=dict[SSAValue, Form])

    @property
    def constant(self) -> Degrees:
        """The form of what does not depend on the arguments."""
        return (0,) * len(self.labels)

    def varies(self, form: Form) -> bool:
        """Whether a value may depend on the arguments."""
        return form not in (ZERO, self.constant)

    def run(self, block: Block, arguments: Sequence[Form]) -> list[Form]:
        """The forms of what the block ends with."""
        self.forms.update(zip(block.args, arguments, strict=True))
        for op in block.ops:
            operands: list[Form] = [self.forms[x] for x in op.operands]
            if isinstance(op, YieldOp | ReturnOp):
                return operands
            if isinstance(op, TensorOp):
                self.forms[op.results[0]] = self.of(op, operands)
            elif isinstance(op, ControlOp):
                self.forms.update(zip(op.results, self.control(op, operands), strict=True))
            else:
                unknown = _fault(op, "nothing is known about it")
                self.forms.update(dict.fromkeys(op.results, unknown))
        raise ValueError("a block ends without mlc.yield or func.return")

    def of(self, op: TensorOp, operands: Sequence[Form]) -> Form:
        """The form of an op's result."""
        if not any(map(self.varies, operands)) and ZERO not in operands:
            value = splat(op.results[0])
            return ZERO if value is not None and value == 0 else self.constant
        for form in operands:
            if isinstance(form, Fault):
                return form
        alone = op.linear_operands()
        together = tuple(k for k in op.jointly_linear() if k not in alone)
        for k, form in enumerate(operands):
            if self.varies(form) and k not in (*alone, *together):
                return _fault(op, f"is not linear in its operand {k}")
        if not alone and not together:  # of zeros
            return ZERO if isinstance(op, ConvertOp) else self.constant
        if fault := self.scalars(op, operands):
            return fault
        total = self.sum_of([operands[k] for k in together], op) if together else self.constant
        for k in alone:
            total = self.product_of(total, operands[k], op)
        return total

    def scalars(self, op: TensorOp, operands: Sequence[Form]) -> Fault | None:
        """Linear means nothing for bool; the real part is linear over the reals alone."""
        result = element_dtype(op.results[0])
        for form, x in zip(operands, op.operands, strict=True):
            kind = element_dtype(x).kind
            if not self.varies(form):
                continue
            if "bool" in (kind, result.kind):
                return _fault(op, "works on bool, where nothing is linear")
            if kind == "complex" and result.kind != "complex":
                return _fault(op, "is not linear for complex factors")
        return None

    def sum_of(self, forms: Sequence[Form], op: Operation) -> Form:
        """Of operands that the result is linear in together: all of one form."""
        found: Form = ZERO
        for form in forms:
            found = self.joined(found, form, op)
        return found

    def product_of(self, left: Form, right: Form, op: Operation) -> Form:
        """Of factors: degrees add up."""
        if isinstance(left, Fault):
            return left
        if isinstance(right, Fault):
            return right
        if left == ZERO or right == ZERO:
            return ZERO
        degrees = tuple(a + b for a, b in zip(left, right, strict=True))
        for label, degree in zip(self.labels, degrees, strict=True):
            if degree > 1:
                return _fault(op, f"multiplies two values that depend on {label}")
        return degrees

    def joined(self, left: Form, right: Form, op: Operation) -> Form:
        """What is one or the other, or the sum of both."""
        if left == ZERO or isinstance(right, Fault):
            return right
        if right == ZERO or isinstance(left, Fault) or left == right:
            return left
        g = next(g for g in range(len(left)) if left[g] != right[g])
        return _fault(
            op, f"puts together a value that depends on {self.labels[g]} and one that does not"
        )

    # Regions ------------------------------------------------------------------------------------

    def control(self, op: ControlOp, operands: Sequence[Form]) -> Sequence[Form]:
        """The forms of the results."""
        if isinstance(op, IfOp):
            branches = [self.run(block, ()) for block in op.blocks]
            pairs = zip(*branches, strict=True)
            results: list[Form] = [self.joined(a, b, op) for a, b in pairs]
            return self.decided(op, operands[0], results)
        first = len(op.operands) - len(op.starts)
        carried: list[Form] = list(operands[first:])
        while True:
            decision, after = self.trip(op, operands, carried)
            pairs = zip(carried, after, strict=True)
            new: list[Form] = [self.joined(a, b, op) for a, b in pairs]
            if [_comparable(f) for f in new] == [_comparable(f) for f in carried]:
                return self.decided(op, decision, new)
            carried = new

    def trip(
        self, op: ControlOp, operands: Sequence[Form], carried: Sequence[Form]
    ) -> tuple[Form, list[Form]]:
        """What decides whether there is another trip, and the carried values after this one."""
        if isinstance(op, ForOp):
            return operands[0], self.run(op.body.block, [self.constant, *carried])
        if isinstance(op, WhileOp):
            (test,) = self.run(op.condition.block, carried)
            return test, self.run(op.body.block, carried)
        fault = _fault(op, "nothing is known about it")
        return fault, [fault] * len(carried)

    def decided(self, op: ControlOp, decision: Form, results: Sequence[Form]) -> Sequence[Form]:
        """The results, unless the arguments decide which way is taken."""
        if isinstance(decision, Fault) or self.varies(decision):
            return [_fault(op, "what is done depends on the arguments")] * len(results)
        return results


def _is_constant(value: SSAValue) -> bool:
    """Whether a value is a constant, or a view of one."""
    owner = value.owner
    while isinstance(owner, TensorOp) and owner.MOVES and len(owner.operands) == 1:
        owner = owner.operands[0].owner
    return isinstance(owner, ConstantOp)


def _comparable(form: Form) -> object:
    return Fault if isinstance(form, Fault) else form


def _fault(op: Operation, text: str) -> Fault:
    where = place(op)
    return Fault(f"{where}: {op.name} {text}" if where else f"{op.name} {text}")
