"""
`mlc.vmap`: a function of one example becomes a function of many, which computes them at once.

The function is traced for one example, into a block of its own; `passes/tensor/batching` writes the
program of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.ir import Attribute, SSAValue

from mlc.dialects.dims import Dim, DimsAttr, shape_of, tensor_type
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.calls import BatchOp, numbers_attribute
from mlc.dialects.tensor.letters import spell
from mlc.dialects.tensor.op import OpBuilder
from mlc.dialects.tensor.shape import broadcast_to
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.values import is_operand, lift
from mlc.frontend.trace.containers import children_of, flatten, leaf_names, unflatten
from mlc.frontend.trace.effects import effects_of
from mlc.frontend.trace.private import private_function
from mlc.frontend.trace.regions import Carry
from mlc.frontend.trace.subprogram import (
    Subprogram,
    Transformed,
    subprogram,
    traced,
    transformed_once,
)
from mlc.frontend.trace.symbolic import as_dim
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer
from mlc.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from mlc.passes.tensor.batching.block import Lane

Axis = int | None


def vmap(
    f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, axis_size: Any = None
) -> Transformed:
    """
    A function that runs `f` for each example along an axis of its arguments, all at once.

    `in_axes`: which axis of each array holds the examples; None: the array is the same for all. One
    for all positional arguments, or a tuple with one for each, which may be containers like the
    arguments. Keyword arguments are mapped over axis 0. Python numbers, and what else is no array,
    are the same for all. `out_axes`: where results get the axis, in the same way; None is for
    results that are the same for all. `axis_size`: the number of examples, where no argument says
    it. Raises ShapeError where sizes or axes do not fit.
    """
    if not callable(f):
        raise TypeError(f"mlc.vmap: the first argument is {f!r}; expected a function")
    for option, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        for axis in flatten(axes)[0]:
            if axis is not None and type(axis) is not int:
                raise TypeError(
                    f"mlc.vmap: {option} holds {axis!r}; expected integers, None, and containers"
                    " of them"
                )

    def run(*args: Any, **kwargs: Any) -> Any:
        mapped = _mapped(args, kwargs, in_axes, axis_size)
        sub = _one_example(f, mapped, args, kwargs)
        return _results(f, mapped, sub, out_axes)

    leaves = [flatten(axes) for axes in (in_axes, out_axes)]
    key = ("vmap", *((tuple(found), structure) for found, structure in leaves), axis_size)
    return transformed_once(f, key, lambda: Transformed(f, run))


@dataclass(frozen=True)
class _Mapped:
    """The arguments that differ between examples: their places among all leaves, and axes."""

    size: Dim
    places: tuple[int, ...]
    arrays: tuple[Tracer, ...]
    axes: tuple[int, ...]


def _mapped(args: tuple[Any, ...], kwargs: dict[str, Any], in_axes: Any, axis_size: Any) -> _Mapped:
    leaves = flatten((args, kwargs))[0]
    names = [_argument_name(x) for x in leaf_names((args, kwargs), "")]
    given = args
    if not (in_axes is None or isinstance(in_axes, int)):
        rest = flatten(args[len(in_axes) :])[0]
        if not any(map(_is_array, rest)):  # default values, which come as arguments
            given = args[: len(in_axes)]
    axes = _axes_of("in_axes", in_axes, given, "the arguments")
    axes += [None] * len(flatten(args[len(given) :])[0])
    axes += [0] * (len(leaves) - len(axes))
    size = None if axis_size is None else as_dim(axis_size)
    if axis_size is not None and size is None:
        raise located(DTypeError, f"vmap: axis_size is {axis_size!r}; expected an integer.")
    said = f"axis_size is {size}"
    places: list[int] = []
    arrays: list[Tracer] = []
    chosen: list[int] = []
    for k, (leaf, name, axis) in enumerate(zip(leaves, names, axes, strict=True)):
        if axis is None or not _is_array(leaf):
            continue
        x = lift(leaf, "vmap")
        if not -x.ndim <= axis < x.ndim:
            message = (
                f"vmap: {name} is an array {spell(x.dims)}, which has no axis {axis}; expected"
                " an axis of it, or None."
            )
            remedy = "Say in_axes=None for arguments that are the same for all examples."
            raise located(ShapeError, message, remedy=remedy)
        found = x.dims[axis]
        if size is not None and found != size:
            message = (
                f"vmap: {said}, and {name} {spell(x.dims)} has {found} along axis {axis};"
                " expected one number of examples."
            )
            raise located(ShapeError, message)
        if size is None:
            size, said = found, f"{name} {spell(x.dims)} has {found} examples along axis {axis}"
        places.append(k)
        arrays.append(x)
        chosen.append(axis % x.ndim)
    if size is None:
        message = "vmap: no argument is mapped, so that the number of examples is unknown."
        raise located(ShapeError, message, remedy="Say in_axes=0 for an array, or axis_size=….")
    return _Mapped(size, tuple(places), tuple(arrays), tuple(chosen))


def _argument_name(path: str) -> str:
    """How messages call a leaf of (args, kwargs)."""
    if path.startswith("[0]["):
        number, _, rest = path[4:].partition("]")
        return f"argument {number}{rest}"
    name, _, rest = path.removeprefix("[1][").partition("]")
    return f"argument {name}{rest}"


def _is_array(leaf: Any) -> bool:
    """Whether there may be one for each example: numbers of Python are the same for all."""
    if isinstance(leaf, Tracer):
        return not (leaf.weak and leaf.ndim == 0)
    number = type(leaf) in (bool, int, float, complex) or as_dim(leaf) is not None
    return is_operand(leaf) and not number


def _axes_of(option: str, axes: Any, value: Any, what: str) -> list[Axis]:
    """An axis for each leaf of the value, from a container that is like it as far as it goes."""
    if axes is None or isinstance(axes, int):
        return [axes] * len(flatten(value)[0])
    mine, theirs = children_of(axes), children_of(value)
    if mine is None or theirs is None or len(mine[2]) != len(theirs[2]):
        raise _unlike(option, axes, what, "of another structure")
    _, keys, parts = mine
    _, names, children = theirs
    if set(keys) != set(names):
        raise _unlike(option, axes, what, f"of parts {', '.join(map(repr, names))}")
    by_name = dict(zip(keys or range(len(parts)), parts, strict=True))
    found: list[Axis] = []
    for k, (name, child) in enumerate(zip(names or range(len(children)), children, strict=True)):
        inner = f"argument {k}" if what == "the arguments" else f"{what}[{name!r}]"
        found += _axes_of(option, by_name[name], child, inner)
    return found


def _unlike(option: str, axes: Any, what: str, found: str) -> ShapeError:
    message = (
        f"vmap: {option} is {axes!r}, and {what} is {found}; expected an integer, None, or a"
        " container like it."
    )
    if what == "the arguments":
        message = (
            f"vmap: {option} is {axes!r}; expected an integer, None, or one for each argument."
        )
    return located(ShapeError, message)


def _one_example(
    f: Callable[..., Any], mapped: _Mapped, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Subprogram:
    """The function traced for one example."""
    leaves, structure = flatten((args, kwargs))
    inputs = Carry.of("vmap", mapped.arrays, "argument")

    def run(values: tuple[Tracer, ...]) -> Any:
        given = list(leaves)
        for place, value in zip(mapped.places, values, strict=True):
            given[place] = value
        positional, named = unflatten(structure, given)
        here().examples += 1
        try:
            outcome = traced(f, *positional, **named)
        finally:
            here().examples -= 1
        if any(x.version for x in values):
            message = "vmap: the function writes to an argument; expected results to be returned."
            raise located(NotSupportedError, message, remedy="Write to a copy and return it.")
        return outcome

    return subprogram(
        "vmap", inputs, run, [_row_type(x, a) for x, a in _pairs(mapped)], passes=True
    )


def _pairs(mapped: _Mapped) -> Sequence[tuple[Tracer, int]]:
    return list(zip(mapped.arrays, mapped.axes, strict=True))


def _row_type(x: Tracer, axis: int) -> Attribute:
    """The type of one example."""
    return tensor_type(x.row.ir, (*x.dims[:axis], *x.dims[axis + 1 :]))


def _results(f: Callable[..., Any], mapped: _Mapped, sub: Subprogram, out_axes: Any) -> Any:
    """What the function gives for all examples."""
    outcome = sub.outcome
    axes = _axes_of("out_axes", out_axes, outcome.container(), "the result")
    leaves = zip(outcome.names, outcome.leaves, axes, strict=True)
    ends = [(name, axis) for name, leaf, axis in leaves if isinstance(leaf, Tracer)]
    pairs = zip(ends, sub.outputs, strict=False)
    places = [_place(*end, len(shape_of(value.type)) + 1) for end, value in pairs]
    values = _later(f, mapped, sub, places)
    if values is None:
        names = [name for name, _ in ends]
        values = _at_once(mapped, sub, list(zip(names, places, strict=True)))
    trace = here()
    made = [
        Tracer(trace, value, weak=x.weak and place is None)
        for value, x, place in zip(values, outcome.arrays, places, strict=True)
    ]
    return outcome.with_arrays(made).container()


def _place(name: str, axis: Axis, rank: int) -> Axis:
    """Where a result of so many axes has the examples."""
    if axis is None:
        return None
    if not -rank <= axis < rank:
        message = (
            f"vmap: {name} has {rank} axes with that of the examples, and out_axes has {axis} for"
            f" it; expected an axis from {-rank} to {rank - 1}."
        )
        raise located(ShapeError, message)
    return axis % rank


def _later(
    f: Callable[..., Any], mapped: _Mapped, sub: Subprogram, places: Sequence[Axis]
) -> Sequence[SSAValue] | None:
    """Its results where the function stays one of the module; None where it does not."""
    if None in places:  # whether such a result differs is known when it is written out
        return None
    function = private_function(sub, [x.value for x in mapped.arrays], f, once=False)
    if function is None:
        return None
    around = [None] * (len(function.arguments) - len(mapped.axes))
    properties: dict[str, Attribute] = {
        "in": numbers_attribute([*mapped.axes, *around]),
        "out": numbers_attribute(places),
        "size": DimsAttr((mapped.size,)),
    }
    return function.use(BatchOp, (), **properties)[0]


def _at_once(
    mapped: _Mapped, sub: Subprogram, ends: Sequence[tuple[str, Axis]]
) -> Sequence[SSAValue]:
    """Its results where its ops are part of the program."""
    from mlc.passes.tensor.batching.block import Lane, batch_block, to_front

    sub = sub.written_out()
    trace = here()
    b = OpBuilder(trace.scopes[-1].add_op)  # ops keep the lines of the user's function
    lanes = [Lane(to_front(b, x.value, axis), batched=True) for x, axis in _pairs(mapped)]
    found = iter(batch_block(sub.block, sub.outputs, lanes, mapped.size, b))
    made = [_placed(b, next(found), axis, mapped.size, name) for name, axis in ends]
    if sub.effects and (beside := effects_of(trace)) is not None:
        pairs = [(x, Tracer(trace, next(found).value)) for x, _ in sub.effects]
        sub.settle(beside.examples(pairs))
    return made


def _placed(b: OpBuilder, lane: Lane, axis: Axis, size: Dim, name: str) -> SSAValue:
    """A result with the examples along `axis`."""
    from mlc.passes.tensor.batching.block import from_front

    value = lane.value
    if axis is None:
        if lane.batched:
            message = f"vmap: {name} differs between examples, and out_axes has None for it;"
            raise located(ShapeError, f"{message} expected an axis.")
        return value
    if not lane.batched:
        value = broadcast_to(b, value, (size, *shape_of(value.type)))
    return from_front(b, value, axis)
