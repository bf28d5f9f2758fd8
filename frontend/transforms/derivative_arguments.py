"""What functions that give derivatives ask of their arguments, and of what the function returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from xdsl.ir import SSAValue

from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.letters import spell
from mlc.frontend.errors import located
from mlc.frontend.numpy.values import convert
from mlc.frontend.trace.containers import Leaf, leaf_count, unflatten
from mlc.frontend.trace.regions import Carry
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

Argnums = int | Sequence[int]


def check_callable(name: str, f: object) -> None:
    """TypeError for anything but a function."""
    if not callable(f):
        raise TypeError(f"mlc.{name}: the first argument is {f!r}; expected a function")


def checked_argnums(name: str, argnums: Argnums) -> tuple[bool, tuple[int, ...]]:
    """Whether it is one argument, and all their numbers; TypeError for anything else."""
    numbers: tuple[Any, ...] = tuple(argnums) if isinstance(argnums, tuple | list) else (argnums,)
    if not all(type(k) is int for k in numbers):
        raise TypeError(
            f"mlc.{name}: argnums is {argnums!r}; expected an int or several in a tuple"
        )
    return isinstance(argnums, int), numbers


def places_of(
    name: str, args: Sequence[Any], numbers: Sequence[int], option: str = "argnums"
) -> list[int]:
    """The arguments that an option names, counted from the first one."""
    found: list[int] = []
    for number in numbers:
        place = number % len(args) if -len(args) <= number < len(args) else None
        if place is None or place in found:
            count = f"{len(args)} positional argument{'s' * (len(args) != 1)}"
            problem = f"; found {count}." if place is None else " twice."
            message = f"{name}: {option} names argument {number}{problem}"
            remedy = "Expected the numbers of positional arguments, each once."
            raise located(DTypeError, message, remedy=remedy)
        found.append(place)
    return found


def chosen(
    name: str, args: Sequence[Any], positions: Sequence[int], *, integers: bool = False
) -> Carry:
    """The arguments at `positions`, lifted; DTypeError for arrays that have no derivative."""
    found = Carry.of(name, tuple(args[p] for p in positions), "args")
    names = [
        x.replace(f"args[{k}]", f"argument {p}", 1)
        for x in found.names
        for k, p in enumerate(positions)
        if x.startswith(f"args[{k}]")
    ]
    found = replace(found, names=tuple(names))
    for text, x in zip(found.array_names, found.arrays, strict=True):
        if not x.row.is_inexact and not integers:
            message = (
                f"{name}: {text} is {x.row.numpy}, which has no derivative; expected floating"
                " or complex numbers."
            )
            remedy = "Convert it to a floating dtype, or leave it out of argnums."
            raise located(DTypeError, message, remedy=remedy)
    return found


def main_part(outcome: Carry, has_aux: bool) -> Carry:
    """The result without what else a function returns with `has_aux`."""
    if not has_aux:
        return outcome
    structure = outcome.structure
    if isinstance(structure, Leaf) or structure.kind is not tuple or len(structure.children) != 2:
        message = (
            f"{outcome.function}: the function returns {described(outcome)}; with has_aux=True"
            " expected a tuple (result, anything else)."
        )
        raise located(DTypeError, message)
    first = structure.children[0]
    count = leaf_count(first)
    return replace(
        outcome, structure=first, names=outcome.names[:count], leaves=outcome.leaves[:count]
    )


def described(outcome: Carry) -> str:
    """How messages call a result that is no array."""
    if isinstance(outcome.structure, Leaf):
        leaf = outcome.leaves[0]
        return f"an array {spell(leaf.dims)}" if isinstance(leaf, Tracer) else repr(leaf)
    kind = outcome.structure.kind.__name__
    count = len(outcome.leaves)
    return f"a {kind} of {count} value{'s' * (count != 1)}"


def like(name: str, given: Carry, value: Any) -> list[SSAValue]:
    """
    The arrays of a container that must be like `given` in structure, shapes and dtypes; zeros
    where it has None.
    """
    kind = "a cotangent" if name == "vjp" else "a tangent"
    found = Carry.of(name, value, kind)
    if found.structure != given.structure:
        message = f"{name}: {kind} is {outline(found)}; what it belongs to is {outline(given)}."
        remedy = "Expected the same containers, with an array (or None: zeros) for each array."
        raise located(ShapeError, message, remedy=remedy)
    values: list[SSAValue] = []
    for text, x, wanted in zip(given.names, found.leaves, given.leaves, strict=True):
        if not isinstance(wanted, Tracer):
            continue
        if x is None:
            values.append(full(here().b, 0, wanted.row, wanted.dims))
            continue
        described = f"{kind} for {text}, {wanted.row.numpy} {spell(wanted.dims)}, is"
        if not isinstance(x, Tracer):
            message = f"{name}: {described} {x!r}; expected an array."
            raise located(DTypeError, message)
        if x.dims != wanted.dims:
            message = f"{name}: {described} {spell(x.dims)}; expected its shape."
            raise located(ShapeError, message)
        if x.row is not wanted.row and not x.weak:
            message = f"{name}: {described} {x.row.numpy}; expected its dtype."
            remedy = f"Convert it: .astype(np.{wanted.row.numpy})."
            raise located(DTypeError, message, remedy=remedy)
        values.append(convert(x.value, wanted.row))
    return values


def outline(carry: Carry) -> str:
    """A container with dots for its leaves: {'w': ., 'b': [., .]}."""
    return repr(unflatten(carry.structure, [_Dot()] * len(carry.leaves)))


class _Dot:
    """Stands for a leaf."""

    def __repr__(self) -> str:
        return "·"
