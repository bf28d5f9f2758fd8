"""The ways to what a call gives a traced function: objects, containers and functions."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from types import MethodType
from typing import Any

from mlc.frontend.call.arguments import Call, Parameters
from mlc.frontend.trace.captures import (
    Paths,
    captured,
    is_constant,
    is_iterator,
    is_users_function,
    used_up,
)
from mlc.frontend.trace.containers import children_of
from mlc.frontend.trace.kinds import is_class, is_tuple
from mlc.frontend.trace.paths import Path, object_path
from mlc.frontend.trace.trace import Trace
from mlc.frontend.trace.tracer import Tracer


def remember_objects(
    trace: Trace, call: Call, parameters: Parameters, values: Sequence[Any], function: Any
) -> None:
    """Objects and containers among the arguments are ways to arrays, and not the function's own."""
    memory = Paths()
    trace.staging = memory
    receiver = getattr(function, "__self__", None) if isinstance(function, MethodType) else None
    if receiver is not None and not is_class(receiver):
        trace.receiver = receiver
        memory.remember(receiver, object_path(receiver, "self"))
    numbers = {leaf.name: leaf.value for leaf in call.leaves if leaf.kind == "int"}
    for k, (name, value) in enumerate(zip(parameters.names, values, strict=True)):
        starred = parameters.parameters[k].kind is inspect.Parameter.VAR_KEYWORD
        _remember(memory, value, Path("argument", k, (), name), numbers, own=starred)


def _remember(
    memory: Paths, value: Any, path: Path, numbers: Mapping[str, int], *, own: bool = False
) -> None:
    """`own`: the function gets a container of its own, as `**kwargs` is."""
    parts = children_of(value)
    if parts is None:
        if isinstance(value, Tracer) and value.origins & numbers.keys():
            (name,) = value.origins
            value.owner.integers[name] = path, numbers[name]
        if is_iterator(value):
            raise used_up(path.text)
        if is_users_function(value):
            captured(value, path)
        elif not (isinstance(value, Tracer) or is_constant(value)):
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
        _remember(memory, child, inner, numbers)
