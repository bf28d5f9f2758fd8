"""The ways to what a call gives a traced function: objects, containers and functions."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Mapping, Sequence
from types import MethodType
from typing import Any

from mlc.frontend.call.arguments import Call, Leaf, Parameters
from mlc.frontend.trace.captures import (
    Paths,
    captured,
    is_constant,
    is_iterator,
    is_users_function,
    used_up,
)
from mlc.frontend.trace.containers import Made, children_of
from mlc.frontend.trace.kinds import class_of, is_class, is_tuple
from mlc.frontend.trace.paths import Guard, Path, object_path
from mlc.frontend.trace.size_inputs import size_input
from mlc.frontend.trace.stored import belongs
from mlc.frontend.trace.symbolic import SymbolicDim
from mlc.frontend.trace.trace import Trace
from mlc.frontend.trace.tracer import Tracer


def remember_objects(
    trace: Trace,
    call: Call,
    parameters: Parameters,
    values: Sequence[Any],
    function: Any,
    made: Made,
) -> None:
    """
    Objects and containers among the arguments are ways to arrays, and not the function's own.
    `made`: what is made of each container, which is what other ways to it lead to, too.
    """
    memory = Paths()
    trace.staging = memory
    trace.keep.append(made)
    memory.copies.update({key: new for key, (_, new) in made.items()})
    receiver = getattr(function, "__self__", None) if isinstance(function, MethodType) else None
    if receiver is not None and not is_class(receiver):
        trace.receiver = receiver
        memory.remember(receiver, object_path(receiver, "self"))
    numbers = {leaf.name: leaf.value for leaf in call.leaves if leaf.kind == "int"}
    sizes = {x.number.symbol: x for x in call.leaves if x.number is not None}
    for k, (name, value) in enumerate(zip(parameters.names, values, strict=True)):
        starred = parameters.parameters[k].kind is inspect.Parameter.VAR_KEYWORD
        _remember(memory, value, Path("argument", k, (), name), numbers, sizes, own=starred)


def _remember(
    memory: Paths,
    value: Any,
    path: Path,
    numbers: Mapping[str, int],
    sizes: Mapping[str, Leaf],
    *,
    own: bool = False,
) -> None:
    """`own`: the function gets a container of its own, as `**kwargs` is."""
    parts = children_of(value)
    if parts is None:
        if isinstance(value, Tracer) and value.origins & numbers.keys():
            (name,) = value.origins
            value.owner.ints.known[name] = path, numbers[name]
        if isinstance(value, SymbolicDim):
            leaf = sizes[str(value.dim)]
            assert leaf.number is not None
            size_input(path, leaf.value, leaf.number)
        if is_iterator(value):
            raise used_up(path.text)
        if is_users_function(value):
            captured(value, path)
        elif not (isinstance(value, Tracer | SymbolicDim) or is_constant(value)):
            memory.remember(value, path)
        return
    kind, keys, children = parts
    if not own:
        memory.remember(value, path)
    for k, child in enumerate(children):
        if kind is dict:
            inner = path.item(keys[k])
        else:
            inner = path.attr(str(keys[k])) if keys and not is_tuple(value) else path.item(k)
        _remember(memory, child, inner, numbers, sizes)


def guard_apart(trace: Trace) -> None:
    """
    What the function changes is no other thing that it knows: where ways to two of these lead to
    one, it would see the change by both. An array that is written may be in any of them.
    """
    memory = trace.staging
    written = any(x.version for x in (*trace.inputs, *trace.arrays.values()))
    if not isinstance(memory, Paths) or not (trace.stores or written):
        return
    changed = {path.key: path for _, _, _, path in trace.stores.values()}
    kinds = {class_of(obj) for obj, _, _, _ in trace.stores.values()}
    others: dict[Hashable, Path] = {}
    for obj, path in memory.known.values():
        if path.key in changed or is_tuple(obj) or is_users_function(obj):
            continue
        if written and belongs(path):
            changed[path.key] = path
        elif class_of(obj) in kinds or (written and class_of(obj) in (list, dict)):
            others[path.key] = path
    others = {key: path for key, path in others.items() if key not in changed}
    if len(changed) + len(others) > 1 and changed:
        ways = tuple(changed.values())
        guard = Guard("apart", ways[0], (ways, tuple(others.values())))
        trace.guards.setdefault(guard.key, guard)
