# pyright: basic
"""A model, traced: what is known while tracing is computed by NumPy, all else is recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from mlc.frontend.errors import NotSupportedError
from mlc.frontend.importers.onnx.graph import Body, Graph, Model, Node, Reader, Ref
from mlc.frontend.trace.constant import written
from mlc.frontend.trace.tracer import Tracer

Array = Any
Row = Callable[..., Any]

ROWS: dict[str, Row] = {}
"""Op -> function of its node and inputs; of ONNX's own domain."""


def row(*names: str) -> Callable[[Row], Row]:
    """A function that is the op of these names."""

    def register(function: Row) -> Row:
        for name in names:
            ROWS[name] = function
        return function

    return register


class At:
    """A node with the run that meets it: what rows ask."""

    def __init__(self, run: Run, node: Node, around: Mapping[str, Array]) -> None:
        self.run, self.node, self.around = run, node, around
        self.version = node.version

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.node.get(name, default)

    def known(self, value: Array, what: str) -> np.ndarray[Any, Any]:
        """An array that must be known while tracing."""
        if isinstance(value, np.ndarray | np.generic | int | float):
            return np.asarray(value)
        raise NotSupportedError(
            f"{self.node.said}: {what} is computed by the model; expected one that is known, such"
            " as an initializer"
        )

    def ints(self, value: Array, what: str) -> list[int]:
        """Integers that must be known."""
        return [int(x) for x in np.ravel(self.known(value, what))]

    def number(self, value: Array, what: str) -> int:
        """An integer that must be known."""
        return int(np.ravel(self.known(value, what))[0])

    def inner(self, graph: Graph, arguments: Sequence[Array] = ()) -> tuple[Array, ...]:
        """A graph of the node's."""
        return self.run.graph(graph, arguments, self.around)

    def refuse(self, why: str) -> NotSupportedError:
        """An error that names the node."""
        return NotSupportedError(f"{self.node.said}: {why}")


class Run:
    """One walk over a model."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def graph(
        self, graph: Graph, arguments: Sequence[Array], around: Mapping[str, Array]
    ) -> tuple[Array, ...]:
        """A graph's outputs. `around`: values that it may use by name."""
        values = {**around, **graph.weights}
        values |= {port.name: x for port, x in zip(graph.inputs, arguments, strict=False)}
        self.nodes(graph.nodes, values)
        return tuple(values[port.name] for port in graph.outputs)

    def nodes(self, nodes: Sequence[Node], values: dict[str, Array]) -> None:
        """Nodes in order."""
        for node in nodes:
            inputs = [values[name] if name else None for name in node.inputs]
            while inputs and inputs[-1] is None:
                inputs.pop()
            outputs = self.node(node, inputs, values)
            values |= {k: x for k, x in zip(node.outputs, outputs, strict=False) if k}

    def node(self, node: Node, inputs: list[Array], values: Mapping[str, Array]) -> Sequence[Array]:
        """The outputs of one node."""
        body = self.body_of(node)
        if body is not None:
            return self.called(node, body, inputs)
        function = ROWS.get(node.op) if node.domain == "" else None
        if function is None:
            body = self.schema_of(node, inputs)
            if body is None:
                raise NotSupportedError(f"{node.said} is not supported")
            return self.called(node, body, inputs)
        with np.errstate(all="ignore"):
            found = function(At(self, node, values), *inputs)
        return found if isinstance(found, tuple) else (found,)

    def body_of(self, node: Node) -> Body | None:
        """The model's own function that a node calls."""
        key = (node.domain, node.op, getattr(node.proto, "overload", ""))
        return self.model.functions.get(key)

    def called(self, node: Node, body: Body, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """A function's outputs, for a node's attributes."""
        said = {**body.defaults, **node.attributes}
        values = dict(zip(body.inputs, [*inputs, *[None] * len(body.inputs)], strict=False))
        self.nodes([_bound(inner, said) for inner in body.nodes], values)
        return tuple(values.get(name) for name in body.outputs)

    def schema_of(self, node: Node, inputs: Sequence[Array]) -> Body | None:
        """The body that ONNX's own definition of an op has."""
        onnx = import_module("onnx")
        try:
            schema = onnx.defs.get_schema(node.op, node.version, node.domain)
        except onnx.defs.SchemaError:
            return None
        reader = Reader(None)
        versions = {**self.model.versions, node.domain: node.version}
        if schema.has_function:
            return reader.body(schema.function_body, versions)
        if not schema.has_context_dependent_function:
            return None
        types = [
            b"" if x is None else onnx.helper.make_tensor_type_proto(
                onnx.helper.np_dtype_to_tensor_dtype(np.dtype(x.dtype)), tuple(x.shape)
            ).SerializeToString()
            for x in inputs
        ]  # fmt: skip
        made = schema.get_context_dependent_function(node.proto.SerializeToString(), types)
        proto = onnx.FunctionProto()
        proto.ParseFromString(made)
        return reader.body(proto, versions)


def _bound(node: Node, said: Mapping[str, Any]) -> Node:
    """A node of a function, with what the caller says in the place of references."""
    if not any(isinstance(value, Ref) for value in node.attributes.values()):
        return node
    attributes = {
        name: said[value.name] if isinstance(value, Ref) else value
        for name, value in node.attributes.items()
        if not isinstance(value, Ref) or value.name in said
    }
    return Node(
        node.op, node.domain, node.name, node.inputs, node.outputs, attributes, node.version,
        node.proto,
    )  # fmt: skip


def traced(value: Array) -> Any:
    """A known array as part of the program."""
    return value if isinstance(value, Tracer) else written(np.asarray(value))


def is_known(*values: Array) -> bool:
    """Whether all are known while tracing."""
    return all(not isinstance(x, Tracer) for x in values)
