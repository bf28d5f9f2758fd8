"""
Derivatives as the user wants them: `mlc.custom_vjp`, `custom_jvp`, `checkpoint`, `stop_gradient`.

Each puts an `mlc.rule` into the program, whose regions are traced at the call. Arguments are those
of the functions of these names in JAX. Outside a compiled function the function simply runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from xdsl.ir import Block, Region, SSAValue

from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.control import YieldOp
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.letters import spell
from mlc.dialects.tensor.markers import StopGradientOp
from mlc.dialects.tensor.rule import RuleOp
from mlc.frontend.containers import flatten, leaf_names, unflatten
from mlc.frontend.errors import located
from mlc.frontend.kinds import is_tuple
from mlc.frontend.numpy.values import convert, is_operand, lift
from mlc.frontend.regions import Carry
from mlc.frontend.subprogram import Subprogram, subprogram, traced
from mlc.frontend.trace import Trace, current, here
from mlc.frontend.tracer import Tracer

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
        if not callable(f):
            raise TypeError(f"mlc.{self.NAME}: found {f!r}; expected a function")
        functools.update_wrapper(self, f)
        self.f = f
        self.nondiff = tuple(nondiff_argnums)

    NAME = "custom"

    def split(self, args: tuple[Any, ...]) -> tuple[list[Any], tuple[Any, ...]]:
        """The arguments that are constants for the rule, and the others."""
        constants = [args[k] for k in self.nondiff]
        return constants, tuple(x for k, x in enumerate(args) if k not in self.nondiff)

    def joined(self, constants: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        """All arguments in their order."""
        rest, fixed = iter(values), dict(zip(self.nondiff, constants, strict=True))
        count = len(constants) + len(values)
        return [fixed[k] if k in fixed else next(rest) for k in range(count)]


class custom_vjp(_Custom):  # noqa: N801 - a decorator
    """
    A function with its own reverse mode: ``f.defvjp(forward, backward)``, forward(*args) ->
    (result, residuals), backward(residuals, cotangent) -> a tuple with a cotangent (or None: zero)
    for each argument. Forward mode transposes `backward`. `nondiff_argnums`: arguments that are
    constants; `backward` gets them first.
    """

    NAME = "custom_vjp"
    _rules: tuple[Callable[..., Any], Callable[..., Any]] | None = None

    def defvjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> None:
        """States the rule."""
        self._rules = (forward, backward)

    def __call__(self, *args: Any) -> Any:
        if current() is None:
            return self.f(*args)
        if self._rules is None:
            raise located(DTypeError, f"custom_vjp: {_name(self.f)} has no rule; call its defvjp.")
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
        result, residuals = _pair(first, "forward", "(result, residuals)")
        _same(body.outcome, result, "custom_vjp: forward")
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

    NAME = "custom_jvp"
    _rule: Callable[..., Any] | None = None

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """States the rule; gives it back, so that it may stand as a decorator."""
        self._rule = rule
        return rule

    def __call__(self, *args: Any) -> Any:
        if current() is None:
            return self.f(*args)
        rule = self._rule
        if rule is None:
            raise located(DTypeError, f"custom_jvp: {_name(self.f)} has no rule; call its defjvp.")
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
        result, tangent = _pair(push, "the rule", "(result, tangent)")
        _same(body.outcome, result, "custom_jvp: the rule")
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
        raise located(DTypeError, f"{sub.function}: {what} must return a pair {form}.")
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
        raise located(ShapeError, f"{what} returns another structure than the function does.")
    for name, x, y in zip(wanted.array_names, wanted.arrays, found.arrays, strict=True):
        if x.type != y.type:
            message = (
                f"{what} returns {y.row.numpy} {spell(y.dims)} for {name}; the function"
                f" returns {x.row.numpy} {spell(x.dims)}."
            )
            raise located(ShapeError, message)


def _cotangents(inputs: Carry, values: tuple[Any, ...], found: Any) -> list[Any]:
    """One array for each of the inputs' arrays; raises where the user's tuple does not fit."""
    if not is_tuple(found) or len(found) != len(values):
        kind = f"{len(found)} values" if is_tuple(found) else f"a {type(found).__name__}"
        message = f"custom_vjp: backward returns {kind}; expected a tuple of {len(values)}"
        raise located(ShapeError, f"{message}, a cotangent or None for each argument.")
    leaves: list[Any] = []
    for value, part in zip(values, found, strict=True):
        count, structure = len(flatten(value)[0]), flatten(value)[1]
        parts, form = flatten(part)
        if part is not None and form != structure:
            message = "custom_vjp: backward returns another structure than that of the argument."
            raise located(ShapeError, message)
        leaves += [None] * count if part is None else parts
    arrays: list[Any] = []
    for name, x, leaf in zip(inputs.names, inputs.leaves, leaves, strict=True):
        if not isinstance(x, Tracer):
            continue
        if leaf is None or not x.row.is_inexact:
            arrays.append(Tracer(here(), full(here().b, 0, x.row, x.dims)))
            continue
        given = lift(leaf, "custom_vjp")
        if given.dims != x.dims:
            message = (
                f"custom_vjp: backward returns {spell(given.dims)} for {name}, which is"
                f" {spell(x.dims)}."
            )
            raise located(ShapeError, message)
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
