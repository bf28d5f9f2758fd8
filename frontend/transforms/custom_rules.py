"""
Derivatives as the user wants them: `mlc.custom_vjp`, `custom_jvp`, `checkpoint`, `stop_gradient`.

Each puts an `mlc.rule` into the program, whose regions are traced at the call. Arguments are those
of the functions of these names in JAX. Outside a compiled function the function simply runs.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from xdsl.ir import Block, Region, SSAValue

from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.control import YieldOp
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.letters import spell
from mlc.dialects.tensor.markers import StopGradientOp
from mlc.dialects.tensor.rule import RuleOp
from mlc.frontend.errors import located
from mlc.frontend.numpy.values import convert, is_operand, lift
from mlc.frontend.trace.containers import flatten, leaf_names, unflatten
from mlc.frontend.trace.kinds import is_tuple
from mlc.frontend.trace.regions import Carry
from mlc.frontend.trace.subprogram import Subprogram, subprogram, traced
from mlc.frontend.trace.trace import Trace, current, here
from mlc.frontend.trace.tracer import Tracer
from mlc.frontend.transforms.derivative_arguments import (
    check_callable,
    checked_argnums,
    described,
    outline,
    places_of,
)

POLICIES = {
    "nothing": "",
    "contractions": "mlc.contract,mlc.conv",
}
"""What a checkpoint keeps beside its arguments: names of ops."""


def stop_gradient(x: Any) -> Any:
    """`x`, an array or a container of arrays, as a constant for derivatives."""
    if current() is None:
        return x
    leaves, structure = flatten(x)
    found = [_stopped(leaf) if is_operand(leaf) else leaf for leaf in leaves]
    return unflatten(structure, found)


def _stopped(leaf: Any) -> Any:
    x = lift(leaf, "stop_gradient")
    if not x.row.is_inexact:
        return x
    return Tracer(here(), here().emit(StopGradientOp, x.value), weak=x.weak)


def checkpoint(f: Callable[..., Any] | None = None, *, policy: str = "nothing") -> Any:
    """
    `f`, of which reverse mode keeps only the arguments, and computes the rest again on the way
    back. `policy`: "nothing" else is kept, or the results of "contractions" are.
    """
    if f is None:
        return functools.partial(checkpoint, policy=policy)
    if policy not in POLICIES:
        known = ", ".join(map(repr, POLICIES))
        raise ValueError(f"mlc.checkpoint: policy {policy!r}; expected one of {known}")
    function = f

    @functools.wraps(function)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        if current() is None:
            return function(*args, **kwargs)
        inputs = Carry.of("checkpoint", (args, kwargs), "args")
        body = subprogram("checkpoint", inputs, lambda c: traced(function, *c[0], **c[1]))
        return _placed("checkpoint", inputs, body, [], POLICIES[policy])

    return checkpointed


@contextmanager
def _rules_of(trace: Trace) -> Generator[bool, None, None]:
    """
    Whether a call states its rule. A rule may call its own function, whose rule counts for the next
    higher derivative: it is traced as often as derivatives are being taken, and at least once.
    """
    wanted = max(trace.derivatives, 1) > trace.rules
    trace.rules += wanted
    try:
        yield wanted
    finally:
        trace.rules -= wanted


class _Custom:
    """A function with a rule of its own."""

    def __init__(self, f: Callable[..., Any], nondiff_argnums: Sequence[int] = ()) -> None:
        check_callable(self.NAME, f)
        self.nondiff = checked_argnums(self.NAME, tuple(nondiff_argnums))[1]
        wrapped: Any = self
        functools.update_wrapper(wrapped, f)
        self.f = f

    NAME: ClassVar[str] = "custom"

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """A method's first argument is the instance."""
        method: Any = self
        return self if instance is None else functools.partial(method, instance)

    def positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments as the rules get them: by position, defaults filled in."""
        if isinstance(self.f, np.ufunc):
            return args
        bound = inspect.signature(self.f).bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            names = ", ".join(bound.kwargs)
            message = (
                f"{self.NAME}: {_name(self.f)} has arguments that go by keyword only ({names});"
                " expected positional ones, which its rule gets."
            )
            raise located(DTypeError, message)
        places_of(self.NAME, bound.args, self.nondiff, "nondiff_argnums")
        return bound.args

    def split(self, args: tuple[Any, ...]) -> tuple[list[Any], tuple[Any, ...]]:
        """The arguments that are constants for the rule, and the others."""
        places = [k % len(args) for k in self.nondiff]
        return [args[k] for k in places], tuple(x for k, x in enumerate(args) if k not in places)

    def joined(self, constants: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        """All arguments in their order."""
        count = len(constants) + len(values)
        places = [k % count for k in self.nondiff]
        rest, fixed = iter(values), dict(zip(places, constants, strict=True))
        return [fixed[k] if k in fixed else next(rest) for k in range(count)]


class custom_vjp(_Custom):  # noqa: N801 - a decorator
    """
    A function with its own reverse mode: ``f.defvjp(forward, backward)``, forward(*args) ->
    (result, residuals), backward(residuals, cotangent) -> a tuple with a cotangent (or None: zero)
    for each argument. Forward mode transposes `backward`. `nondiff_argnums`: arguments that are
    constants; `backward` gets them first.
    """

    NAME: ClassVar[str] = "custom_vjp"
    _rules: tuple[Callable[..., Any], Callable[..., Any]] | None = None

    def defvjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> None:
        """States the rule."""
        check_callable("custom_vjp.defvjp", forward)
        check_callable("custom_vjp.defvjp", backward)
        self._rules = (forward, backward)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if current() is None:
            return self.f(*args, **kwargs)
        if self._rules is None:
            message = f"custom_vjp: {_name(self.f)} has no rule; expected one before a call."
            remedy = f"State it: {_name(self.f)}.defvjp(forward, backward)."
            raise located(DTypeError, message, remedy=remedy)
        args = self.positional(args, kwargs)
        constants, values = self.split(args)
        with _rules_of(here()) as wanted:
            if not wanted:
                return traced(self.f, *args)
            return self._stated(*self._rules, constants, values)

    def _stated(
        self,
        forward: Callable[..., Any],
        backward: Callable[..., Any],
        constants: list[Any],
        values: tuple[Any, ...],
    ) -> Any:
        inputs = Carry.of("custom_vjp", values, "args")

        def run(function: Callable[..., Any]) -> Callable[[Any], Any]:
            return lambda c: traced(function, *self.joined(constants, c))

        body = subprogram("custom_vjp", inputs, run(self.f))
        first = subprogram("custom_vjp", inputs, run(forward))
        result, residuals = _pair(first, "custom_vjp: forward", "(result, residuals)")
        _same(body.outcome, result, "custom_vjp: forward's result")
        given = _carry((residuals.container(), result.container()))

        def pull(c: Any) -> Any:
            return _cotangents(inputs, values, traced(backward, *constants, *c))

        back = subprogram("custom_vjp", given, pull)
        _finish(first, [*result.arrays, *residuals.arrays])
        return _placed("vjp", inputs, body, [first, back])


class custom_jvp(_Custom):  # noqa: N801 - a decorator
    """
    A function with its own forward mode: ``f.defjvp(rule)``, rule(primals, tangents) -> (result,
    tangent of the result), linear in the tangents: reverse mode transposes it. `nondiff_argnums`:
    arguments that are constants; the rule gets them first.
    """

    NAME: ClassVar[str] = "custom_jvp"
    _rule: Callable[..., Any] | None = None

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """States the rule; gives it back, so that it may stand as a decorator."""
        check_callable("custom_jvp.defjvp", rule)
        self._rule = rule
        return rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if current() is None:
            return self.f(*args, **kwargs)
        rule = self._rule
        if rule is None:
            message = f"custom_jvp: {_name(self.f)} has no rule; expected one before a call."
            remedy = f"State it: {_name(self.f)}.defjvp(rule)."
            raise located(DTypeError, message, remedy=remedy)
        args = self.positional(args, kwargs)
        constants, values = self.split(args)
        with _rules_of(here()) as wanted:
            return self._stated(rule, constants, values) if wanted else traced(self.f, *args)

    def _stated(
        self, rule: Callable[..., Any], constants: list[Any], values: tuple[Any, ...]
    ) -> Any:
        inputs = Carry.of("custom_jvp", values, "args")
        body = subprogram(
            "custom_jvp", inputs, lambda c: traced(self.f, *self.joined(constants, c))
        )
        both = _carry((values, values), inputs)
        push = subprogram("custom_jvp", both, lambda c: traced(rule, *constants, *c))
        result, tangent = _pair(push, "custom_jvp: the rule", "(result, tangent of the result)")
        _same(body.outcome, result, "custom_jvp: the rule's result")
        _same(body.outcome, tangent, "custom_jvp: the rule's tangent")
        return _placed("jvp", inputs, body, [push])


def _name(f: Callable[..., Any]) -> str:
    return getattr(f, "__name__", repr(f))


def _carry(value: Any, inputs: Carry | None = None) -> Carry:
    """A container whose arrays may be in another block: only their types count."""
    if inputs is not None:
        leaves = (*inputs.leaves, *inputs.leaves)
        return replace(inputs, structure=flatten(value)[1], names=inputs.names * 2, leaves=leaves)
    leaves, structure = flatten(value)
    return Carry("rule", structure, tuple(leaf_names(value, "residuals")), tuple(leaves))


def _pair(sub: Subprogram, what: str, form: str) -> tuple[Carry, Carry]:
    """The two parts of what a rule returned."""
    value = sub.outcome.container()
    if not is_tuple(value) or len(value) != 2:
        message = f"{what} returns {described(sub.outcome)}; expected a pair {form}."
        raise located(DTypeError, message)
    count = len(flatten(value[0])[0])
    whole = sub.outcome
    structures = [flatten(part)[1] for part in value]
    parts = (slice(None, count), slice(count, None))
    first, second = (
        replace(whole, structure=s, names=whole.names[p], leaves=whole.leaves[p])
        for s, p in zip(structures, parts, strict=True)
    )
    return first, second


def _same(wanted: Carry, found: Carry, what: str) -> None:
    """Raises unless two results have one structure, the same shapes and dtypes."""
    if found.structure != wanted.structure:
        message = (
            f"{what} is {outline(found)}; expected what the function returns: {outline(wanted)}."
        )
        raise located(ShapeError, message)
    for name, x, y in zip(wanted.array_names, wanted.arrays, found.arrays, strict=True):
        if x.type != y.type:
            message = (
                f"{what} has {y.row.numpy} {spell(y.dims)} for {name}; expected {x.row.numpy}"
                f" {spell(x.dims)}, as the function returns."
            )
            raise located(ShapeError, message)


def _cotangents(inputs: Carry, values: tuple[Any, ...], found: Any) -> list[Any]:
    """One array for each of the inputs' arrays; raises where the user's tuple does not fit."""
    if not is_tuple(found) or len(found) != len(values):
        kind = described(Carry.of("custom_vjp", found, "result"))
        message = (
            f"custom_vjp: backward returns {kind}; expected a tuple of {len(values)}: a cotangent,"
            " or None for zero, for each argument."
        )
        raise located(ShapeError, message)
    leaves: list[Any] = []
    for k, (value, part) in enumerate(zip(values, found, strict=True)):
        wanted, given = (Carry.of("custom_vjp", x, "") for x in (value, part))
        if part is not None and given.structure != wanted.structure:
            message = (
                f"custom_vjp: backward returns {outline(given)} for argument {k}, which is"
                f" {outline(wanted)}; expected the same containers."
            )
            raise located(ShapeError, message)
        leaves += [None] * len(wanted.leaves) if part is None else given.leaves
    arrays: list[Any] = []
    for name, x, leaf in zip(inputs.names, inputs.leaves, leaves, strict=True):
        if not isinstance(x, Tracer):
            continue
        if leaf is None or not x.row.is_inexact:
            arrays.append(Tracer(here(), full(here().b, 0, x.row, x.dims)))
            continue
        given = lift(leaf, "custom_vjp")
        place = name.replace("args[", "argument ", 1).replace("]", "", 1)
        what = f"custom_vjp: backward returns {given.row.numpy} {spell(given.dims)} for {place},"
        wanted = f"which is {x.row.numpy} {spell(x.dims)}"
        if given.dims != x.dims:
            raise located(ShapeError, f"{what} {wanted}; expected its shape.")
        if given.row.kind == "complex" != x.row.kind:
            remedy = "Take the real part (.real)."
            raise located(DTypeError, f"{what} {wanted}; expected real numbers.", remedy=remedy)
        arrays.append(Tracer(here(), convert(given.value, x.row)))
    return arrays


def _finish(sub: Subprogram, arrays: Sequence[Tracer]) -> Region:
    """The block as a region that yields these values."""
    if not isinstance(sub.block.last_op, YieldOp):
        with here().inside(sub.block):
            values = [x.value for x in arrays]
        sub.block.add_op(YieldOp.create(operands=values))
    return _region(sub.block)


def _region(block: Block) -> Region:
    return block.parent or Region(block)


def _placed(
    kind: str, inputs: Carry, body: Subprogram, rules: Sequence[Subprogram], saved: str = ""
) -> Any:
    """The op in the program, and its results in the function's container."""
    regions = [_finish(sub, sub.outcome.arrays) for sub in (body, *rules)]
    values: list[SSAValue] = inputs.values
    op = RuleOp.of(kind, values, regions, saved)
    here().b.insert(op)
    return body.outcome.results(op.outs)
