"""
All derivatives of a function: `mlc.jacfwd`, `jacrev`, `hessian`; arguments and results are those of
the functions of these names in JAX.

A column of the Jacobian is one push forward, a row one pull back; `mlc.vmap` does all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlc.dialects.dims import Dim, product
from mlc.dialects.errors import DTypeError
from mlc.dialects.tensor.create import full
from mlc.frontend.errors import located
from mlc.frontend.numpy.values import is_operand, lift
from mlc.frontend.trace.containers import Structure, flatten, unflatten
from mlc.frontend.trace.subprogram import Transformed, traced, transformed_once
from mlc.frontend.trace.symbolic import as_size
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer
from mlc.frontend.transforms.derivative_arguments import (
    Argnums,
    check_callable,
    checked_argnums,
    chosen,
    places_of,
)
from mlc.frontend.transforms.derivatives import linearize, vjp
from mlc.frontend.transforms.vmap import vmap
from mlc.lazy_dataclass import dataclass


def jacfwd(f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Transformed:
    """
    The Jacobian by forward mode, one pass for each element of the argument: for many results of few
    arguments.

    A container like the function's result, in which each array of shape S is a container like the
    argument with an array of shape (*S, *A) for each array of shape A. With `has_aux` the function
    returns (result, anything else), and this one (Jacobian, anything else). Raises DTypeError for
    integers.
    """
    return _jacobian("jacfwd", f, argnums, has_aux, _columns)


def jacrev(f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Transformed:
    """
    The Jacobian by reverse mode, one pass for each element of the result: for few results of many
    arguments. What it gives is that of `jacfwd`.
    """
    return _jacobian("jacrev", f, argnums, has_aux, _rows)


def jacobian(f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Transformed:
    """
    The Jacobian by the mode of fewer passes: `jacfwd` where the arguments have fewer elements than
    the result, else `jacrev`, and that where sizes are symbols.
    """
    return _jacobian("jacobian", f, argnums, has_aux, _fewer)


def hessian(f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Transformed:
    """
    The second derivatives: ``jacfwd(jacrev(f))``, one pass forward over one pass back for each
    element of the argument.
    """
    return jacfwd(jacrev(f, argnums, has_aux), argnums, has_aux)


@dataclass(frozen=True)
class _Blocks:
    """For each leaf of the result one for each leaf of the argument; what else was returned."""

    found: list[list[Any]]
    structure: Structure
    rest: Any


Way = Callable[[str, Callable[..., Any], Sequence[Any], bool], _Blocks]
"""Of a function of leaves (name, function, leaves, has_aux); what is no array stays itself."""


def _jacobian(
    name: str, f: Callable[..., Any], argnums: Argnums, has_aux: bool, way: Way
) -> Transformed:
    check_callable(name, f)
    one, numbers = checked_argnums(name, argnums)

    def run(*args: Any, **kwargs: Any) -> Any:
        positions = places_of(name, args, numbers)
        inputs = chosen(name, args, positions)

        def of_leaves(*leaves: Any) -> Any:
            every = list(args)
            for position, value in zip(positions, unflatten(inputs.structure, leaves), strict=True):
                every[position] = value
            return traced(f, *every, **kwargs)

        blocks = way(name, of_leaves, inputs.leaves, has_aux)
        parts = [unflatten(inputs.structure, row) for row in blocks.found]
        outcome = unflatten(blocks.structure, [x[0] for x in parts] if one else parts)
        return (outcome, blocks.rest) if has_aux else outcome

    return transformed_once(f, (name, numbers, one, has_aux), lambda: Transformed(f, run))


def _fewer(name: str, f: Callable[..., Any], leaves: Sequence[Any], has_aux: bool) -> _Blocks:
    outcome = f(*leaves)  # for its sizes; nothing reads the values
    results = flatten(outcome[0] if has_aux else outcome)[0]
    more = Dim.const(0)
    for x in results:
        more = more + (product(lift(x).dims) if is_operand(x) else 0)
    for x in leaves:
        more = more - (product(x.dims) if isinstance(x, Tracer) else 0)
    forward = more.constant is not None and more.constant > 0
    return (_columns if forward else _rows)(name, f, leaves, has_aux)


def _columns(name: str, f: Callable[..., Any], leaves: Sequence[Any], has_aux: bool) -> _Blocks:
    """Each array of the argument on its own: no zeros of the others are pushed forward."""
    found: list[list[Any]] = []
    structure, rest = flatten(())[1], None
    for k, leaf in enumerate(leaves):
        if not isinstance(leaf, Tracer):
            for row in found:
                row.append(leaf)
            continue

        def of_one(x: Any, k: int = k) -> Any:
            return f(*leaves[:k], x, *leaves[k + 1 :])

        outcome, push, *others = linearize(of_one, leaf, has_aux=has_aux)
        rest = others[0] if others else None
        results, structure = flatten(outcome)
        found = found or [list(leaves[:k]) for _ in results]
        # the new axis last: a column for each element of the argument
        every = flatten(_each(push, leaf, -1))[0]
        for row, result, part in zip(found, results, every, strict=True):
            x = _floating(name, result)
            row.append(part.reshape((*x.shape, *leaf.shape)))
    return _Blocks(found, structure, rest)


def _rows(name: str, f: Callable[..., Any], leaves: Sequence[Any], has_aux: bool) -> _Blocks:
    """Each array of the result on its own: no zeros of the others are pulled back."""
    found: list[list[Any]] = []
    outcome, pull, *others = vjp(f, *leaves, has_aux=has_aux)
    results, structure = flatten(outcome)
    for k, result in enumerate(results):
        x = _floating(name, result)

        def row(direction: Any, k: int = k) -> Any:
            def of_one(*values: Any) -> Any:
                again = f(*values)
                return flatten(again[0] if has_aux else again)[0][k]

            if len(results) == 1:
                return pull(unflatten(structure, [direction]))
            return vjp(of_one, *leaves)[1](direction)

        every = _each(row, x, 0)
        pairs = zip(every, leaves, strict=True)
        found.append(
            [
                part.reshape((*x.shape, *leaf.shape)) if isinstance(leaf, Tracer) else leaf
                for part, leaf in pairs
            ]
        )
    return _Blocks(found, structure, others[0] if others else None)


def _each(run: Callable[[Any], Any], value: Tracer, axis: int) -> Any:
    """A linear function of arrays like `value` for each direction: an axis of what it gives."""
    if not value.dims:
        return run(Tracer(here(), full(here().b, 1.0, value.row, ())))
    return vmap(run, out_axes=axis)(_directions(value))


def _floating(name: str, result: Any) -> Tracer:
    x = lift(result, name)
    if not x.row.is_inexact:
        message = (
            f"{name}: the function returns {x.row.numpy}, which has no derivative; expected"
            " floating or complex numbers."
        )
        remedy = "Convert it, or return it beside the result with has_aux=True."
        raise located(DTypeError, message, remedy=remedy)
    return x


def _directions(value: Any) -> Tracer:
    """For an array of n elements, the n arrays of its shape in which one element is one."""
    from mlc.frontend.numpy import eye

    x = lift(value)
    count = as_size(product(x.dims))
    return eye(count, dtype=x.row.numpy).reshape((count, *x.shape))
