"""
All derivatives of a function: `mlc.jacfwd`, `jacrev`, `hessian`; arguments and results are those of
the functions of these names in JAX.

A column of the Jacobian is one push forward, a row one pull back; `mlc.vmap` does all at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlc.dialects.dims import product
from mlc.dialects.errors import DTypeError
from mlc.dialects.tensor.create import full
from mlc.frontend.containers import Structure, flatten, unflatten
from mlc.frontend.derivatives import Argnums, check_callable, linearize, vjp
from mlc.frontend.errors import located
from mlc.frontend.numpy.values import lift
from mlc.frontend.subprogram import Transformed, traced, transformed_once
from mlc.frontend.symbolic import as_size
from mlc.frontend.trace import here
from mlc.frontend.tracer import Tracer
from mlc.frontend.vmap import vmap


def jacfwd(f: Callable[..., Any], argnums: Argnums = 0) -> Transformed:
    """
    The Jacobian by forward mode, one pass for each element of the argument: for many results of few
    arguments.

    A container like the function's result, in which each array of shape S is a container like the
    argument with an array of shape (*S, *A) for each array of shape A.
    """
    return _jacobian("jacfwd", f, argnums, _columns)


def jacrev(f: Callable[..., Any], argnums: Argnums = 0) -> Transformed:
    """
    The Jacobian by reverse mode, one pass for each element of the result: for few results of many
    arguments. The result is that of `jacfwd`.
    """
    return _jacobian("jacrev", f, argnums, _rows)


def hessian(f: Callable[..., Any], argnums: Argnums = 0) -> Transformed:
    """
    The second derivatives: ``jacfwd(jacrev(f))``, one pass forward over one pass back for each
    element of the argument.
    """
    return jacfwd(jacrev(f, argnums), argnums)


Way = Callable[[Callable[..., Any], tuple[Any, ...]], tuple[list[tuple[Any, ...]], Structure]]
"""Gives the arguments' container of derivatives for each array of the result."""


def _jacobian(name: str, f: Callable[..., Any], argnums: Argnums, way: Way) -> Transformed:
    check_callable(name, f)
    positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    one = isinstance(argnums, int)

    def run(*args: Any, **kwargs: Any) -> Any:
        def of_chosen(*values: Any) -> Any:
            every = list(args)
            for position, value in zip(positions, values, strict=True):
                every[position] = value
            return traced(f, *every, **kwargs)

        for position in positions:
            if not -len(args) <= position < len(args):
                message = f"{name}: argnums names {position}; found {len(args)} arguments."
                raise located(DTypeError, message)
        chosen = tuple(args[p] for p in positions)
        for leaf in flatten(chosen)[0]:
            if not (x := lift(leaf, name)).row.is_inexact:
                message = f"{name}: an argument is {x.row.numpy}, which has no derivative."
                raise located(DTypeError, message)
        found, structure = way(of_chosen, chosen)
        return unflatten(structure, [x[0] for x in found] if one else found)

    return transformed_once(f, (name, positions, one), lambda: Transformed(f, run))


def _columns(
    f: Callable[..., Any], chosen: tuple[Any, ...]
) -> tuple[list[tuple[Any, ...]], Structure]:
    outcome, push = linearize(f, *chosen)
    results, structure = flatten(outcome)
    leaves, form = flatten(chosen)
    blocks: list[list[Any]] = [[] for _ in results]
    for k, leaf in enumerate(leaves):

        def column(direction: Any, k: int = k) -> Any:
            tangents = [direction if j == k else _zeros(x) for j, x in enumerate(leaves)]
            return push(*unflatten(form, tangents))

        # the new axis last: a column for each element of the argument
        every = flatten(vmap(column, out_axes=-1)(_directions(leaf)))[0]
        for found, result, part in zip(blocks, results, every, strict=True):
            found.append(part.reshape((*lift(result).shape, *lift(leaf).shape)))
    return [unflatten(form, found) for found in blocks], structure


def _rows(
    f: Callable[..., Any], chosen: tuple[Any, ...]
) -> tuple[list[tuple[Any, ...]], Structure]:
    outcome, pull = vjp(f, *chosen)[:2]
    results, structure = flatten(outcome)
    leaves = flatten(chosen)[0]
    blocks: list[tuple[Any, ...]] = []
    for k, result in enumerate(results):

        def row(direction: Any, k: int = k) -> Any:
            cotangents = [direction if j == k else _zeros(x) for j, x in enumerate(results)]
            return pull(unflatten(structure, cotangents))

        every, form = flatten(vmap(row)(_directions(result)))
        shaped = [
            part.reshape((*lift(result).shape, *lift(leaf).shape))
            for part, leaf in zip(every, leaves, strict=True)
        ]
        blocks.append(unflatten(form, shaped))
    return blocks, structure


def _zeros(value: Any) -> Tracer:
    x = lift(value)
    return Tracer(here(), full(here().b, 0, x.row, x.dims), weak=x.weak)


def _directions(value: Any) -> Tracer:
    """For an array of n elements, the n arrays of its shape in which one element is one."""
    from mlc.frontend.numpy import eye

    x = lift(value)
    count = as_size(product(x.dims))
    return eye(count, dtype=x.row.numpy).reshape((count, *x.shape))
