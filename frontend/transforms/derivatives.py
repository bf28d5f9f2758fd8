"""
Derivatives of Python functions: `mlc.grad`, `value_and_grad`, `vjp`, `jvp`, `linearize`.

Each traces the function into a block of its own, lets `passes/tensor/derivative` write the
derivative as ops, and puts both into the program. Arguments and results are those of the functions
of these names in JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

from xdsl.ir import SSAValue

from mlc.dialects.dtypes import DType
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.calls import CallOp, PullBackOp, PushForwardOp, numbers_attribute
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.letters import spell
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.trace.containers import Leaf, flatten
from mlc.frontend.trace.private import private_function
from mlc.frontend.trace.regions import Carry
from mlc.frontend.trace.subprogram import (
    Subprogram,
    Transformed,
    inline,
    subprogram,
    traced,
    transformed_once,
)
from mlc.frontend.trace.trace import current, here
from mlc.frontend.trace.tracer import Tracer
from mlc.frontend.transforms.derivative_arguments import (
    Argnums,
    check_callable,
    checked_argnums,
    chosen,
    described,
    like,
    main_part,
    places_of,
)
from mlc.frontend.transforms.later import Later, derived, filled

# grad


def grad(f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Transformed:
    """
    The gradient of a function whose result is one real number.

    Gives, for the same arguments, a container like the argument `argnums` (for several: a tuple of
    them) with an array for each of its arrays, of its shape and dtype. With `has_aux` the function
    returns (number, anything else), and this one (gradient, anything else). Raises DTypeError for
    integers and ShapeError for a result that is not one number.
    """
    return _gradient("grad", f, argnums, has_aux)


def value_and_grad(
    f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Transformed:
    """
    As `grad`, but gives (result of the function, gradient); the function is computed once.
    """
    return _gradient("value_and_grad", f, argnums, has_aux)


def _gradient(name: str, f: Callable[..., Any], argnums: Argnums, has_aux: bool) -> Transformed:
    check_callable(name, f)
    one, numbers = checked_argnums(name, argnums)

    def run(*args: Any, **kwargs: Any) -> Any:
        positions = places_of(name, args, numbers)
        inputs = chosen(name, args, positions)
        sub = with_arguments(name, f, inputs, positions, args, kwargs)
        ones = full(here().b, 1.0, loss_of(name, sub, has_aux), ())
        values, found = _pulled_back(f, sub, inputs, ones)
        gradients = filled(inputs, found)
        gradient = gradients[0] if one else gradients
        outcome = results(sub.outcome, values)
        if name == "value_and_grad":
            return outcome, gradient
        return (gradient, outcome[1]) if has_aux else gradient

    return transformed_once(f, (name, numbers, one, has_aux), lambda: Transformed(f, run))


def _pulled_back(
    f: Callable[..., Any], sub: Subprogram, inputs: Carry, seed: SSAValue
) -> tuple[list[SSAValue], Sequence[SSAValue | None]]:
    """What the function gives, and the cotangents of its inputs for that of its first result."""
    if (function := private_function(sub, inputs.values, f, once=True)) is not None:
        wrt = numbers_attribute(range(len(inputs.values)))
        return function.use(PullBackOp, [seed], wrt=wrt, of=numbers_attribute([0]))
    from mlc.frontend.transforms.at_once import place, pulled

    sub, values, into, found = pulled(sub, 1)
    values = inline(sub.block, inputs.values, values)
    sub.settle(values)
    return values, place(into, [seed], found)


def loss_of(name: str, sub: Subprogram, has_aux: bool) -> DType:
    """The dtype of the number that the function returned; raises where it is none."""
    main = main_part(sub.outcome, has_aux)
    first = main.leaves[0] if isinstance(main.structure, Leaf) else None
    if not isinstance(first, Tracer):
        kind = described(main) if first is None else repr(first)
        remedy = "Return one number" + (
            " and anything else, in this order."
            if has_aux
            else ", or (the number, anything else) with has_aux=True."
        )
        message = f"{name}: the function returns {kind}; expected one real number."
        raise located(DTypeError, message, remedy=remedy)
    with here().inside(sub.block):
        dims, row = first.dims, first.row
    if dims:
        message = f"{name}: the function returns an array {spell(dims)}; expected one number."
        remedy = "Reduce it (.sum(), .mean()), or use mlc.jacrev for all its derivatives."
        raise located(ShapeError, message, remedy=remedy)
    if row.kind != "float":
        message = f"{name}: the function returns {row.numpy}; expected a real floating number."
        remedy = "Convert it (.astype(np.float64)): what goes through integers is a constant."
        if row.kind == "complex":
            remedy = "Make it real (abs(z) ** 2, z.real), or use mlc.jvp or mlc.vjp."
        raise located(DTypeError, message, remedy=remedy)
    return row


# vjp, jvp, linearize


Pull = Callable[[Any], tuple[Any, ...]]


@overload
def vjp(
    f: Callable[..., Any], *primals: Any, has_aux: Literal[False] = False
) -> tuple[Any, Pull]: ...


@overload
def vjp(f: Callable[..., Any], *primals: Any, has_aux: Literal[True]) -> tuple[Any, Pull, Any]: ...


@overload
def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool) -> Any: ...


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """
    (result, pull): `pull` takes a cotangent, a container like the result, and gives a tuple of
    cotangents, one for each argument. With `has_aux` the function returns (result, anything else)
    and this gives (result, pull, anything else).

    Outside a compiled function `pull` computes the function again at each call.
    """
    check_callable("vjp", f)
    if current() is None:
        return _vjp_outside(f, primals, has_aux)
    inputs, sub = _argued("vjp", f, primals, has_aux)
    main = main_part(sub.outcome, has_aux)
    if (function := private_function(sub, inputs.values, f, once=True)) is not None:
        outputs = function.use(CallOp)[0]
        pull: Any = Later("vjp", function, PullBackOp, results_carry(main, outputs), inputs)
    else:
        from mlc.frontend.transforms.at_once import LaterAtOnce, pulled

        sub, values, into, found = pulled(sub, len(main.arrays))
        outputs = inline(sub.block, inputs.values, values)
        sub.settle(outputs)
        pull = LaterAtOnce("vjp", into, results_carry(main, outputs), found, inputs)
    outcome = results(sub.outcome, outputs)
    return (outcome[0], pull, outcome[1]) if has_aux else (outcome, pull)


def _vjp_outside(f: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool) -> Any:
    outcome = value_of(f)(*primals)

    def pulled(primals: tuple[Any, ...], cotangent: Any) -> Any:
        return vjp(f, *primals, has_aux=has_aux)[1](cotangent)

    back = transformed_once(f, ("pull", has_aux), lambda: Transformed(pulled, pulled))

    def pull(cotangent: Any) -> Any:
        return back(primals, cotangent)

    return (outcome[0], pull, outcome[1]) if has_aux else (outcome, pull)


def jvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> Any:
    """
    (result, tangent of the result) for arguments and their tangents, two tuples of like containers.
    With `has_aux` the function returns (result, anything else), which is given third.
    """
    check_callable("jvp", f)
    for option, found in (("primals", primals), ("tangents", tangents)):
        if not isinstance(found, tuple | list):
            raise TypeError(
                f"mlc.jvp: {option} is {type(found).__name__}; expected a tuple with one for each"
                " argument"
            )
    if current() is None:

        def run(primals: Any, tangents: Any) -> Any:
            return jvp(f, primals, tangents, has_aux)

        made = transformed_once(f, ("jvp", has_aux), lambda: Transformed(run, run))
        return made(tuple(primals), tuple(tangents))
    inputs, sub = _argued("jvp", f, tuple(primals), has_aux)
    main = main_part(sub.outcome, has_aux)
    given = like("jvp", inputs, tuple(tangents))
    if (function := private_function(sub, inputs.values, f, once=True)) is not None:
        outputs, moved = derived(function, PushForwardOp, given, inputs, main)
    else:
        from mlc.frontend.transforms.at_once import pushed

        sub, _, values, found = pushed(sub)
        outputs = inline(sub.block, [*inputs.values, *given], values)
        sub.settle(outputs)
        arguments = zip(sub.block.args, [*inputs.values, *given], strict=True)
        renamed: dict[SSAValue, SSAValue] = dict(arguments)
        moved = [None if x is None else renamed.get(x, x) for x in found[: len(main.arrays)]]
    outcome = results(sub.outcome, outputs)
    tangent = filled(results_carry(main, outputs), moved)
    return (outcome[0], tangent, outcome[1]) if has_aux else (outcome, tangent)


def linearize(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """
    (result, push): `push` takes a tangent for each argument and gives that of the result. What does
    not depend on the tangents is computed once. With `has_aux` the function returns (result,
    anything else), which is given third.

    Outside a compiled function `push` computes the function again at each call.
    """
    check_callable("linearize", f)
    if current() is None:
        found = value_of(f)(*primals)

        def push(*tangents: Any) -> Any:
            return jvp(f, primals, tangents, has_aux)[1]

        return (found[0], push, found[1]) if has_aux else (found, push)
    inputs, sub = _argued("linearize", f, primals, has_aux)
    main = main_part(sub.outcome, has_aux)
    if (function := private_function(sub, inputs.values, f, once=True)) is not None:
        outputs = function.use(CallOp)[0]
        gives = results_carry(main, outputs)
        later: Any = Later("linearize", function, PushForwardOp, inputs, gives, one=True)
    else:
        from mlc.frontend.transforms.at_once import LaterAtOnce, linear

        sub, values, block, found = linear(sub)
        outputs = inline(sub.block, inputs.values, values)
        sub.settle(outputs)
        gives = results_carry(main, outputs)
        moved = found[: len(gives.arrays)]
        later = LaterAtOnce("linearize", block, inputs, moved, gives, one=True)
    outcome = results(sub.outcome, outputs)
    return (outcome[0], later, outcome[1]) if has_aux else (outcome, later)


def _argued(
    name: str, f: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool
) -> tuple[Carry, Subprogram]:
    """The arguments, and the function traced for them."""
    inputs = chosen(name, primals, range(len(primals)), integers=True)
    sub = with_arguments(name, f, inputs, range(len(primals)), primals, {})
    main_part(sub.outcome, has_aux)
    return inputs, sub


# what these share


def value_of(f: Callable[..., Any]) -> Transformed:
    """`f`, compiled."""
    return transformed_once(f, "value", lambda: Transformed(f, lambda *a, **k: traced(f, *a, **k)))


def with_arguments(
    name: str,
    f: Callable[..., Any],
    inputs: Carry,
    positions: Sequence[int],
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> Subprogram:
    """`f` traced in a block whose arguments are the arrays of the arguments at `positions`."""

    def run(values: tuple[Any, ...]) -> Any:
        every = list(args)
        for position, value in zip(positions, values, strict=True):
            every[position] = value
        trace = here()
        trace.derivatives += 1
        try:
            outcome = traced(f, *every, **kwargs)
        finally:
            trace.derivatives -= 1
        if any(isinstance(x, Tracer) and x.version for x in flatten(values)[0]):
            message = (
                f"{name}: the function writes to an argument; expected results to be returned."
            )
            raise located(NotSupportedError, message, remedy="Write to a copy and return it.")
        return outcome

    return subprogram(name, inputs, run, passes=True)


def results_carry(outcome: Carry, values: Sequence[SSAValue]) -> Carry:
    """A function's result with its values as they are called in the program."""
    pairs = zip(outcome.arrays, values, strict=False)
    return outcome.with_arrays([Tracer(here(), v, weak=x.weak) for x, v in pairs])


def results(outcome: Carry, values: Sequence[SSAValue]) -> Any:
    """What the function returned, with its values as they are called in the program."""
    return results_carry(outcome, values).container()
