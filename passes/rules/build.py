"""Values made of the terms of a rule: what a match writes, and what tests of a rule begin with."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from mlc.dialects.dims import DimsAttr, Shape, shape_of, tensor_type
from mlc.dialects.dtypes import BOOL, DType, dtype_of
from mlc.dialects.tensor.op import OpBuilder, Tensor, tensor_of
from mlc.dialects.tensor.shape import BroadcastOp
from mlc.dialects.tensor.window import ConvOp
from mlc.passes.rules.environment import (
    Env,
    dims,
    evaluate,
    integer,
    meet,
    sizes_of_word,
    word_text,
)
from mlc.passes.rules.rule import Constant, Node, Rule, Term, Variable, terms
from mlc.passes.rules.vocabulary import FORMS, PROPERTY
from mlc.passes.tensor.constants import splat_constant

if TYPE_CHECKING:
    from fractions import Fraction  # only where rules are tried: a first call does without


class Built:
    """
    Builds terms of a rule in front of an op. ShapeError and DTypeError, where they have no type;
    ArithmeticError, where a size is no whole number. `exact` gets the numbers of constants.
    """

    def __init__(
        self, env: Env, b: OpBuilder, exact: dict[SSAValue, Fraction] | None = None
    ) -> None:
        self.env, self.b, self.exact = env, b, exact

    def value(self, term: Term, kind: Tensor) -> SSAValue:
        """A term's value; `kind` is that of constants whose op does not say it."""
        if isinstance(term, Variable):
            return self.env[term.name]
        if term.name in self.env:
            return self.env[term.name]
        found = self.constant(term, kind) if isinstance(term, Constant) else self.node(term, kind)
        if term.name is not None:
            self.env[term.name] = found
        return found

    def constant(self, term: Constant, kind: Tensor) -> SSAValue:
        """A constant of a type."""
        dtype = dtype_of(kind.element_type)
        number = self.number(term, dtype)
        value = splat_constant(self.b, number, dtype, shape_of(kind))
        if self.exact is not None and (fraction := self.fraction(term)) is not None:
            self.exact[value] = fraction
        return value

    def number(self, term: Constant, dtype: DType) -> Any:
        """A constant's number: reckoned in its dtype, where integers wrap around."""
        with np.errstate(all="ignore"):
            return evaluate(term.value, self.env, partial(_in_dtype, dtype))

    def fraction(self, term: Constant) -> Fraction | None:
        """A constant's number as it would be without rounding; None where it is no such number."""
        from fractions import Fraction

        known = {name: x for name, x in self.env.items() if hasattr(x, "item")}
        try:
            numbers: Env = {name: Fraction(x.item()) for name, x in known.items()}
            return evaluate(term.value, numbers, _as_fraction)
        except (ArithmeticError, TypeError, ValueError):
            return None

    def node(self, term: Node, kind: Tensor) -> SSAValue:
        """An op, its operands first, and of these those that are constants last."""
        op = self.env[term.op] if term.op in self.env else FORMS[term.op].op
        form = next(f for f in FORMS.values() if f.op is op)
        made: dict[int, SSAValue] = {}
        plain = [k for k, x in enumerate(term.operands) if not isinstance(x, Constant)]
        for k in plain:
            made[k] = self.value(term.operands[k], kind)
        known = [k for k in plain if not (form.op.name == "mlc.select" and k == 0)]
        like = tensor_of(made[known[-1]]) if known else kind
        for k, operand in enumerate(term.operands):
            if k not in made:
                made[k] = self.value(operand, _kind_of_constant(op, k, like))
        operands = [made[k] for k in range(len(term.operands))]
        properties: dict[str, object] = {}
        declared: Tensor | None = None
        if form.string is not None:
            name = term.names[0]
            text = name if isinstance(name, str) else evaluate(name, self.env, int)
            properties[form.string[0]] = text
        if term.letters is not None:
            if all(x.name.islower() for w in term.letters.words() for x in w.letters()):
                for word, operand in zip(term.letters.operands, operands, strict=True):
                    meet(word, shape_of(operand.type), self.env)
                if (size := term.field("size")) is not None:
                    meet(term.letters.result, dims(size, self.env), self.env)
            words = [word_text(w, self.env) for w in term.letters.words()]
            properties["letters"] = f"{','.join(words[:-1])}->{words[-1]}"
            if op is BroadcastOp or op is ConvOp:
                shape = sizes_of_word(term.letters.result, self.env)
                declared = tensor_type(tensor_of(operands[0]).element_type, shape)
        for field, expression in term.fields:
            if field == "axis":
                properties["axis"] = integer(expression, self.env)
            elif field == "size":
                shape: Shape = dims(expression, self.env)
                declared = tensor_type(tensor_of(operands[0]).element_type, shape)
            else:
                properties[PROPERTY[field]] = DimsAttr(dims(expression, self.env))
        return self.b(op, *operands, declared=declared, **properties)


def _as_fraction(number: float) -> Fraction:
    from fractions import Fraction

    return Fraction(str(number))


def _in_dtype(dtype: DType, number: float) -> Any:
    return np.asarray(number).astype(dtype.numpy)


def _kind_of_constant(op: type[Operation], k: int, like: Tensor) -> Tensor:
    """The type of a constant operand, by the op and the type of another operand."""
    if op.name == "mlc.select" and k == 0:
        return tensor_type(BOOL.ir, shape_of(like))
    if op.name == "mlc.pad":
        return tensor_type(like.element_type, ())
    return like


def free(rule: Rule) -> set[str]:
    """The values that the right side reads, by name."""
    named = {t.name for root in rule.right for t in terms(root) if not isinstance(t, Variable)}
    names = {t.name for root in rule.right for t in terms(root) if isinstance(t, Variable)}
    return {n for n in names if n not in named}
