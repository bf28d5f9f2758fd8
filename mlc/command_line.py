"""What command lines say of programs: options of the compiler, ``--spec`` and ``--sizes``."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Callable
from pathlib import Path

from mlc.dialects.errors import MlcError
from mlc.dialects.target.attribute import TargetAttr
from mlc.dialects.target.known import named_target
from mlc.frontend.call.arguments import Parameters
from mlc.frontend.call.compile import settings_of
from mlc.frontend.call.spec import TensorSpec
from mlc.parsers import OPTIONS, OWN_RULES

EXAMPLE = "'f32[64,32],f32[B,16],i64[]'"
_CALLED = "spec"  # what stands before the types, so that Python reads them as arguments


class UsageError(MlcError):
    """The command line is at fault; the message says what was found, what was expected."""


# Options of the compiler


def options_given(args: argparse.Namespace) -> dict[str, object]:
    """The options of `mlc.compile` that the command line says; UsageError where one is wrong."""
    given: dict[str, object] = {
        name: value for name in OPTIONS if (value := getattr(args, name, None)) is not None
    }
    if "target" in given:
        named(str(given["target"]))
    if given.get("discover") == OWN_RULES:
        given["discover"] = True
    try:
        settings_of(given)
    except ValueError as error:
        raise UsageError(f"--{str(error).replace('_', '-')}") from None
    if "schedule" in given:
        from mlc.dialects.tile.words import words_of

        try:
            words_of(str(given["schedule"]))
        except ValueError as error:
            raise UsageError(f"--{error}") from None
    return given


def named(name: str) -> TargetAttr:
    """The target called `name`, as the module's attribute."""
    from mlc.runtime.cuda import described_gpu
    from mlc.runtime.probe import host_target

    try:
        return TargetAttr(named_target(name, host=host_target, cuda=described_gpu))
    except ValueError as error:
        raise UsageError(f"--target {name}: {error}") from None


# Types and sizes


def arguments_of(
    path: Path, function: Callable[..., object], spec: str | None
) -> tuple[list[object], dict[str, object]]:
    """
    What stands for the arguments of a call, by position and by name: from ``--spec``, else from
    annotations and defaults. MlcError where none of these says what a parameter is.
    """
    known = Parameters(function, ())
    name = getattr(function, "__name__", "the function")
    given, named = ([], {}) if spec is None else parse_specs(spec)
    try:
        bound = known.signature.bind_partial(*given, **named)
    except TypeError as error:
        takes = ", ".join(known.names) or "nothing"
        raise UsageError(f"--spec: {spec!r}: {error}; {name} takes {takes}") from None
    for p in known.parameters:
        if isinstance(p.annotation, TensorSpec):
            bound.arguments.setdefault(p.name, p.annotation)
    unknown = [
        p.name
        for p in known.parameters
        if p.name not in bound.arguments
        and p.default is p.empty
        and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if not unknown:
        return [*bound.args], bound.kwargs
    if spec is not None:
        listed = ", ".join(known.names)
        raise UsageError(f"--spec: {spec!r} has no {', '.join(unknown)}; {name} takes {listed}")
    raise MlcError(
        f"{path}:{name}: the types of its arguments are not known; pass --spec"
        f" 'f32[64,32],f32[B,16]', or annotate each: {unknown[0]}: mlc.TensorSpec(64, 32)"
    )


def parse_specs(text: str) -> tuple[list[object], dict[str, object]]:
    """
    ``f32[64,32],f32[B,16],i64[]``: what is passed by position and by name. A type is a
    `TensorSpec`; lists, tuples and dicts may hold types; numbers and strings are values.
    """
    written = re.sub(r"(\w)\s*\[\s*\]", r"\1[()]", text.strip())
    try:
        call = ast.parse(f"{_CALLED}({written})", mode="eval").body
    except SyntaxError:
        raise UsageError(f"--spec: {text!r}; expected types such as {EXAMPLE}") from None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise UsageError(f"--spec: {text!r}; expected types such as {EXAMPLE}")
    if unnamed := [k for k in call.keywords if k.arg is None]:
        raise _refused(unnamed[0].value)
    return [*map(_value, call.args)], {str(k.arg): _value(k.value) for k in call.keywords}


def _value(node: ast.expr) -> object:
    """A type, a container of types, or a Python value."""
    match node:
        case ast.Subscript(value=ast.Name(id=dtype), slice=sizes):
            return _spec(node, dtype, sizes.elts if isinstance(sizes, ast.Tuple) else [sizes])
        case ast.List(elts=parts):
            return [*map(_value, parts)]
        case ast.Tuple(elts=parts):
            return tuple(map(_value, parts))
        case ast.Dict(keys=keys, values=values):
            return {
                _constant(node if key is None else key): _value(value)
                for key, value in zip(keys, values, strict=True)
            }
        case _:
            return _constant(node)


def _constant(node: ast.expr) -> object:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):  # a name, a call; a dict with a list as a key
        raise _refused(node) from None


def _spec(node: ast.expr, dtype: str, sizes: list[ast.expr]) -> TensorSpec:
    try:
        return TensorSpec(*(ast.unparse(size) for size in sizes), dtype=dtype)
    except MlcError as error:
        raise UsageError(f"--spec: {_written(node)!r}: {error}") from None


def _refused(node: ast.expr) -> UsageError:
    return UsageError(f"--spec: {_written(node)!r}; expected types such as {EXAMPLE}")


def _written(node: ast.expr) -> str:
    return ast.unparse(node).replace("[()]", "[]")


def sizes_of(text: str) -> dict[str, int]:
    """``B=64,N=10`` as values of symbols."""
    sizes: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals or not value.strip().isdigit():
            raise UsageError(f"--sizes: {part!r}; expected symbols and sizes such as B=64,N=10")
        sizes[name.strip()] = int(value)
    return sizes
