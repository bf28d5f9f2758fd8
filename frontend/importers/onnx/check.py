# pyright: basic
"""Whether a model fits together: names that are there before they are used, versions, ops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

from mlc.frontend.errors import NotSupportedError
from mlc.frontend.importers.bounds import check_calls
from mlc.frontend.importers.onnx.graph import (
    DOMAINS,
    Graph,
    Model,
    Node,
    OnnxError,
    key_of,
)
from mlc.frontend.importers.onnx.run import ROWS
from mlc.lazy_dataclass import dataclass

NEWEST = (1 << 31) - 1


def check(model: Model, onnx: Any) -> None:
    """
    OnnxError where a value is used that nothing computes before, or a version is unknown;
    NotSupportedError, which lists every node that neither we nor ONNX's definitions can compute.
    """
    newest = onnx.defs.onnx_opset_version()
    for domain, version in model.versions.items():
        known = newest if domain in DOMAINS else 1 << 30
        if not 1 <= version <= known:
            raise OnnxError(
                f"the model wants opset {version} of {domain or 'ai.onnx'}; expected 1 to {known}"
            )
    _check_names(model.graph, set())
    for body in model.functions.values():
        _check_nodes(body.nodes, {*body.inputs}, body.outputs)
    _check_functions(model)
    missing = list(dict.fromkeys(_missing(model.graph.nodes, model, onnx, set())))
    if missing:
        raise NotSupportedError("not supported:\n  " + "\n  ".join(missing))
    for nodes in (model.graph.nodes, *(body.nodes for body in model.functions.values())):
        for node in _all_nodes(nodes):
            if model.body_of(node) is None:
                _check_form(node, onnx)


def _check_functions(model: Model) -> None:
    """OnnxError where the model's functions call themselves, or too many."""
    calls = {_called(key): _calls(body.nodes, model) for key, body in model.functions.items()}
    try:
        check_calls({**calls, "the graph": _calls(model.graph.nodes, model)})
    except ValueError as error:
        raise OnnxError(f"function {error}") from None


def _called(key: tuple[str, str, str]) -> str:
    return " ".join(filter(None, key))


def _all_nodes(nodes: Sequence[Node]) -> Iterator[Node]:
    """Nodes, with those of their graphs."""
    for node in nodes:
        yield node
        for graph in node.graphs:
            yield from _all_nodes(graph.nodes)


def _calls(nodes: Sequence[Node], model: Model) -> tuple[int, list[str]]:
    """How many nodes there are, and the functions that they call."""
    found, called = list(_all_nodes(nodes)), list[str]()
    for node in found:
        body = model.body_of(node)
        if body is not None:
            called.append(_called(key_of(node)))
            for what, has, most in (
                ("inputs", len(node.inputs), len(body.inputs)),
                ("outputs", len(node.outputs), len(body.outputs)),
            ):
                if has > most:
                    raise OnnxError(f"{node.said} has {has} {what}; its function has {most}")
    return len(found), called


def _check_form(node: Node, onnx: Any) -> None:
    """OnnxError where a node's inputs and attributes are not what ONNX defines for its op."""
    form = _form(node.op, node.version, node.domain)
    if form is None:
        return
    count = len(node.inputs)
    while count and not node.inputs[count - 1]:
        count -= 1
    if not form.least <= count <= form.most:
        some = f"{form.least}" if form.least == form.most else f"{form.least} to {form.most}"
        raise OnnxError(f"{node.said} has {count} inputs; expected {some}")
    for name, at in zip(form.needed, node.inputs, strict=False):
        if name and not at:
            raise OnnxError(f"{node.said} has no input {name}, which it needs")
    kinds = onnx.AttributeProto.AttributeType
    for proto in node.proto.attribute:
        wanted = form.kinds.get(proto.name)
        if wanted is not None and proto.type != wanted and not proto.ref_attr_name:
            raise OnnxError(
                f"{node.said}: its attribute {proto.name} is of the type"
                f" {kinds.Name(proto.type)}; expected {kinds.Name(wanted)}"
            )
    if absent := [name for name in form.required if name not in node.attributes]:
        raise OnnxError(f"{node.said} has no attribute {', '.join(absent)}, which it needs")


@dataclass(frozen=True)
class _Form:
    """What ONNX's definition says about nodes of an op."""

    least: int  # inputs
    most: int
    needed: tuple[str, ...]  # inputs, in their order; empty for one that may be left out
    kinds: dict[str, int]  # attribute -> its type
    required: tuple[str, ...]  # attributes


@lru_cache(maxsize=1024)
def _form(op: str, version: int, domain: str) -> _Form | None:
    """The form of an op; that of the newest opset where this one has none; None of others' ops."""
    defs = import_module("onnx").defs
    try:
        schema = defs.get_schema(op, version if defs.has(op, version, domain) else NEWEST, domain)
    except defs.SchemaError:
        return None
    single = defs.OpSchema.FormalParameterOption.Single
    attributes = dict(schema.attributes)
    return _Form(
        schema.min_input,
        schema.max_input,
        tuple(x.name if x.option == single else "" for x in schema.inputs),
        {name: int(a.type.value) for name, a in attributes.items()},
        tuple(name for name, a in attributes.items() if a.required),
    )


def _check_names(graph: Graph, around: set[str]) -> None:
    known = {*around, *graph.weights, *(port.name for port in graph.inputs)}
    _check_nodes(graph.nodes, known, [port.name for port in graph.outputs])


def _check_nodes(nodes: Sequence[Node], known: set[str], outputs: Sequence[str]) -> None:
    for node in nodes:
        for name in node.inputs:
            if name and name not in known:
                raise OnnxError(f"{node.said} reads {name!r}, which nothing computes before it")
        for graph in node.graphs:
            _check_names(graph, known)
        known |= set(node.outputs)
    for name in outputs:
        if name not in known:
            raise OnnxError(f"the output {name!r} is computed by no node")


def _missing(nodes: Sequence[Node], model: Model, onnx: Any, met: set[int]) -> Iterator[str]:
    """Functions are looked into once."""
    for node in _all_nodes(nodes):
        body = model.body_of(node)
        if body is not None and id(body) not in met:
            met.add(id(body))
            yield from _missing(body.nodes, model, onnx, met)
        if body is None and not _is_known(node, onnx):
            yield node.said


def _is_known(node: Node, onnx: Any) -> bool:
    if node.kind in ROWS:
        return True
    try:
        schema = onnx.defs.get_schema(node.op, node.version, node.domain)
    except onnx.defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)
