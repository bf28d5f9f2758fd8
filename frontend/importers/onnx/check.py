# pyright: basic
"""Whether a model fits together: names that are there before they are used, versions, ops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mlc.frontend.errors import NotSupportedError
from mlc.frontend.importers.onnx.graph import DOMAINS, Graph, Model, Node, OnnxError
from mlc.frontend.importers.onnx.run import ROWS


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
    missing = list(dict.fromkeys(_missing(model.graph.nodes, model, onnx, set())))
    if missing:
        raise NotSupportedError("not supported:\n  " + "\n  ".join(missing))


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
    for node in nodes:
        body = model.body_of(node)
        if body is not None and id(body) not in met:
            met.add(id(body))
            yield from _missing(body.nodes, model, onnx, met)
        if body is None and not _is_known(node, onnx):
            yield node.said
        for graph in node.graphs:
            yield from _missing(graph.nodes, model, onnx, met)


def _is_known(node: Node, onnx: Any) -> bool:
    if node.kind in ROWS:
        return True
    try:
        schema = onnx.defs.get_schema(node.op, node.version, node.domain)
    except onnx.defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)
