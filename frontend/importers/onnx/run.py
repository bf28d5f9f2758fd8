# pyright: basic
"""A model, traced: what is known while tracing is computed by NumPy, all else is recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from mlc.dialects.dtypes import is_real
from mlc.dialects.errors import DTypeError, MlcError
from mlc.frontend.errors import NotSupportedError, SpecialiseSignal
from mlc.frontend.importers.onnx.bounds import check_numbers
from mlc.frontend.importers.onnx.graph import Body, Graph, Model, Node, OnnxError, Reader, Ref
from mlc.frontend.importers.onnx.values import (
    ARRANGED,
    ON_SIZES,
    PLACES,
    has_sizes,
    is_known,
    is_large,
    settled,
    size_of,
    traced,
)
from mlc.frontend.trace.tracer import Tracer

__all__ = ["ROWS", "At", "Run", "in_f32", "is_known", "row", "traced"]

Array = Any
Row = Callable[..., Any]

ROWS: dict[str, Row] = {}
"""Op, as `Node.kind` spells it -> function of its node and inputs."""


def row(*names: str, domain: str = "") -> Callable[[Row], Row]:
    """A function that is the op of these names."""

    def register(function: Row) -> Row:
        for name in names:
            ROWS[f"{domain}.{name}" if domain else name] = function
        return function

    return register


def in_f32(function: Row) -> Row:
    """A function that computes floats of 16 bits as f32: squares, sums and counts may be large."""

    def wide(at: At, x: Array, *others: Array) -> Array:
        dtype = x.dtype
        if not is_real(dtype) or dtype.itemsize > 2:
            return function(at, x, *others)
        inner = [y.astype(np.float32) if isinstance(y, Tracer | np.ndarray) else y for y in others]
        found = function(at, x.astype(np.float32), *inner)
        if isinstance(found, tuple):
            return tuple(y.astype(dtype) for y in found)
        return found.astype(dtype)

    return wide


class At:
    """A node with the run that meets it: what rows ask."""

    def __init__(self, run: Run, node: Node, around: dict[str, Array]) -> None:
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

    def ints(self, value: Array, what: str) -> list[Any]:
        """Integers that must be known; sizes that vary are among them."""
        return [size_of(x) for x in self.known(value, what).flat]

    def number(self, value: Array, what: str) -> Any:
        """An integer that must be known, or a size that varies."""
        found = self.ints(value, what)
        if not found:
            raise self.refuse(f"{what} is empty; expected a number")
        return found[0]

    def inner(self, graph: Graph, arguments: Sequence[Array] = ()) -> tuple[Array, ...]:
        """A graph of the node's."""
        return self.run.graph(graph, arguments, self.around)

    def again(self, name: str, given: Mapping[str, Array]) -> Array:
        """The value called `name`, computed by the graph's nodes from other values."""
        values = {**self.around, **given}
        self.run.nodes(_needed(self.run.walked[-1], name, set(given)), values)
        return values[name]

    def refuse(self, why: str) -> NotSupportedError:
        """An error that names the node."""
        return NotSupportedError(f"{self.node.said}: {why}")


class Run:
    """One walk over a model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.walked: list[Sequence[Node]] = []  # the nodes of the graphs around

    def graph(
        self, graph: Graph, arguments: Sequence[Array], around: Mapping[str, Array]
    ) -> tuple[Array, ...]:
        """A graph's outputs. `around`: values that it may use by name."""
        values = {**around, **graph.weights}
        values |= {port.name: x for port, x in zip(graph.inputs, arguments, strict=False)}
        self.nodes(graph.nodes, values)
        return tuple(_value(values, port.name, graph.nodes) for port in graph.outputs)

    def nodes(self, nodes: Sequence[Node], values: dict[str, Array]) -> None:
        """Nodes in order."""
        self.walked.append(nodes)
        for node in nodes:
            inputs = [_value(values, name, nodes) if name else None for name in node.inputs]
            while inputs and inputs[-1] is None:
                inputs.pop()
            outputs = self.node(node, inputs, values)
            values |= {k: x for k, x in zip(node.outputs, outputs, strict=False) if k}
        self.walked.pop()

    def node(self, node: Node, inputs: list[Array], values: dict[str, Array]) -> Sequence[Array]:
        """The outputs of one node."""
        body = self.model.body_of(node)
        if body is not None:
            return self.called(node, body, inputs)
        function = ROWS.get(node.kind)
        try:
            check_numbers(node, inputs)
            if function is None:
                body = self.schema_of(node, inputs)
                if body is None:
                    raise NotSupportedError(f"{node.said} is not supported")
                return self.called(node, body, inputs)
            with np.errstate(all="ignore"):
                found = function(At(self, node, values), *_with_sizes(node, inputs))
        except DTypeError as error:  # of what programs do not have, such as four bits
            said = str(error).partition("\n")[0]
            raise NotSupportedError(f"{node.said}: {said}") from error
        except (MlcError, SpecialiseSignal):
            raise
        except (
            TypeError, ValueError, LookupError, AttributeError, ArithmeticError, MemoryError
        ) as error:  # fmt: skip
            raise OnnxError(f"{node.said}: {type(error).__name__}: {error}") from error
        return tuple(settled(x) for x in (found if isinstance(found, tuple) else (found,)))

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
        types = [b"" if x is None else _type_of(x, onnx.helper).SerializeToString() for x in inputs]
        made = schema.get_context_dependent_function(node.proto.SerializeToString(), types)
        proto = onnx.FunctionProto()
        proto.ParseFromString(made)
        return reader.body(proto, versions)


def _value(values: Mapping[str, Array], name: str, nodes: Sequence[Node]) -> Array:
    """A value by its name; OnnxError where its node names an output that the op does not have."""
    if name not in values:
        said = next((node.said for node in nodes if name in node.outputs), "the graph")
        raise OnnxError(f"{said} has no output {name!r}: it names more than its op computes")
    return values[name]


def _type_of(x: Array, helper: Any) -> Any:
    """A value's type as a proto."""
    if isinstance(x, list):
        return helper.make_sequence_type_proto(_type_of(x[0], helper))
    sizes = [n if isinstance(n, int) else None for n in x.shape]
    kind = np.dtype(np.int64) if x.dtype.kind == "O" else np.dtype(x.dtype)
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(kind), sizes)


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


def _with_sizes(node: Node, inputs: list[Array]) -> list[Array]:
    """
    Arrays of sizes are numbers of the program for all but those that compute with sizes, and large
    arrays its inputs, where they meet what is not known.
    """
    if is_known(*inputs) and (node.kind in ON_SIZES or not any(has_sizes(x) for x in inputs)):
        return inputs
    places = (*PLACES.get(node.kind, ()), *ARRANGED.get(node.kind, ()))
    return [
        traced(x) if k not in places and (has_sizes(x) or is_large(x)) else x
        for k, x in enumerate(inputs)
    ]


def _needed(nodes: Sequence[Node], name: str, given: set[str]) -> list[Node]:
    """Those of the nodes that compute the value called `name` where others are given."""
    wanted, found = {name} - given, []
    for node in reversed(nodes):
        if wanted & set(node.outputs):
            found.append(node)
            wanted |= set(node.inputs) - given
    return found[::-1]
