# pyright: basic
"""
ONNX models as data: nodes with attributes as Python has them, weights as arrays, graphs in graphs.

Weights outside of the model's file are mapped, not copied, and only from the model's own folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlc.dialects.errors import MlcError
from mlc.lazy_dataclass import dataclass

DEEPEST = 64  # graphs in graphs
DOMAINS = ("", "ai.onnx")
"""Names of ONNX's own domain."""
NARROW = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2, "float4_e2m1fn": 4}
"""Types of which several elements share a byte, and their bits."""


class OnnxError(MlcError, ValueError):
    """What is no ONNX model, or one that does not fit together; the message says where."""


@dataclass(frozen=True)
class Node:
    """One op of a graph."""

    op: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    version: int  # of its domain's ops
    proto: Any = None

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.attributes.get(name, default)

    @property
    def kind(self) -> str:
        """The op, with its domain where that is not ONNX's own."""
        return f"{self.domain}.{self.op}" if self.domain else self.op

    @property
    def graphs(self) -> list[Graph]:
        """The graphs in it."""
        return [value for value in self.attributes.values() if isinstance(value, Graph)]

    @property
    def said(self) -> str:
        """For messages."""
        named = f' "{self.name}"' if self.name else ""
        return f"node{named} ({self.kind}, opset {self.version})"


@dataclass(frozen=True)
class Port:
    """An input or output: name, dtype and sizes; a string is a size that is open, None no size."""

    name: str
    dtype: np.dtype[Any] | None
    shape: tuple[int | str | None, ...] | None


@dataclass(frozen=True)
class Graph:
    """Nodes in an order in which they can run."""

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    weights: Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Body:
    """A function of the model: its parameters are names."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    defaults: Mapping[str, Any]


@dataclass(frozen=True)
class Model:
    """A graph, and the functions that its nodes call."""

    graph: Graph
    functions: Mapping[tuple[str, str, str], Body] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)

    def body_of(self, node: Node) -> Body | None:
        """The model's own function that a node calls."""
        return self.functions.get(key_of(node))


def key_of(node: Node) -> tuple[str, str, str]:
    """What names a function that the node may call."""
    return node.domain, node.op, getattr(node.proto, "overload", "")


def proto_of(path: Path) -> Any:
    """The ModelProto of a file, without what lies outside of it. OnnxError where it is none."""
    onnx = import_module("onnx")
    if not path.is_file():
        raise OnnxError(f"{path}: no such file; expected a model of ONNX")
    try:
        model = onnx.load_model_from_string(path.read_bytes())
    except (ValueError, TypeError, import_module("google.protobuf.message").DecodeError) as error:
        raise OnnxError(f"{path} is no model of ONNX: {error}") from None
    return model


class Reader:
    """Protos to data. `path`: the model's file, in whose folder weights may lie."""

    def __init__(self, path: Path | None) -> None:
        self.onnx = import_module("onnx")
        # a link's own folder too: caches of hubs keep links to a folder of all files
        self.folders = [] if path is None else [path.parent.resolve(), path.resolve().parent]
        self.folder = None if path is None else path.parent

    def model(self, proto: Any) -> Model:
        """A whole model."""
        versions = {entry.domain: entry.version for entry in proto.opset_import}
        functions = {
            (f.domain, f.name, getattr(f, "overload", "")): self.body(f, versions)
            for f in proto.functions
        }
        return Model(self.graph(proto.graph, versions, 0), functions, versions)

    def body(self, proto: Any, versions: Mapping[str, int]) -> Body:
        """A function."""
        own = {**versions, **{entry.domain: entry.version for entry in proto.opset_import}}
        defaults = {
            a.name: self.attribute(a, own, 0) for a in getattr(proto, "attribute_proto", ())
        }
        nodes = tuple(self.node(n, own, 0) for n in proto.node)
        return Body(tuple(proto.input), tuple(proto.output), nodes, defaults)

    def graph(self, proto: Any, versions: Mapping[str, int], depth: int) -> Graph:
        """A graph."""
        if depth > DEEPEST:
            raise OnnxError(
                f"graph {proto.name!r} stands in {depth} others; expected {DEEPEST} at most"
            )
        weights = {w.name: self.array(w) for w in proto.initializer}
        for sparse in proto.sparse_initializer:
            weights[sparse.values.name] = self.sparse(sparse)
        return Graph(
            name=proto.name,
            nodes=tuple(self.node(n, versions, depth) for n in proto.node),
            inputs=tuple(self.port(v) for v in proto.input if v.name not in weights),
            outputs=tuple(self.port(v) for v in proto.output),
            weights=weights,
        )

    def node(self, proto: Any, versions: Mapping[str, int], depth: int) -> Node:
        """A node."""
        for text in (proto.op_type, proto.domain, *proto.input, *proto.output):
            if not isinstance(text, str):
                raise OnnxError(f"node {proto.name!r} says {text!r}, which is no text (UTF-8)")
        domain = "" if proto.domain in DOMAINS else proto.domain
        version = versions.get(domain, versions.get("ai.onnx", 1) if domain == "" else 1)
        return Node(
            op=proto.op_type,
            domain=domain,
            name=proto.name,
            inputs=tuple(proto.input),
            outputs=tuple(proto.output),
            attributes={a.name: self.attribute(a, versions, depth) for a in proto.attribute},
            version=version,
            proto=proto,
        )

    def attribute(self, proto: Any, versions: Mapping[str, int], depth: int) -> Any:
        """Numbers, strings, arrays and graphs; a reference to a function's attribute is a `Ref`."""
        if proto.ref_attr_name:
            return Ref(proto.ref_attr_name)
        kinds = self.onnx.AttributeProto
        if proto.type == kinds.GRAPH:
            return self.graph(proto.g, versions, depth + 1)
        if proto.type == kinds.GRAPHS:
            return [self.graph(g, versions, depth + 1) for g in proto.graphs]
        if proto.type == kinds.TENSOR:
            return self.array(proto.t)
        if proto.type == kinds.SPARSE_TENSOR:
            return self.sparse(proto.sparse_tensor)
        value = self.onnx.helper.get_attribute_value(proto)
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if isinstance(value, list | tuple) and value and isinstance(value[0], bytes):
            return [x.decode("utf-8", "replace") for x in value]
        return list(value) if proto.type in (kinds.INTS, kinds.FLOATS, kinds.STRINGS) else value

    def port(self, proto: Any) -> Port:
        """An input or output."""
        if proto.type.WhichOneof("value") != "tensor_type":
            return Port(proto.name, None, None)
        tensor = proto.type.tensor_type
        shape = None
        if tensor.HasField("shape"):
            shape = tuple(
                d.dim_value if d.HasField("dim_value") else (d.dim_param or None)
                for d in tensor.shape.dim
            )
        return Port(proto.name, dtype_of(tensor.elem_type), shape)

    # weights --------------------------------------------------------------------------------------

    def array(self, proto: Any) -> NDArray[Any]:
        """A tensor's elements."""
        if proto.data_location == self.onnx.TensorProto.EXTERNAL:
            return self._outside(proto)
        try:
            return np.asarray(self.onnx.numpy_helper.to_array(proto))
        except (ValueError, TypeError, KeyError) as error:
            raise OnnxError(f"weight {proto.name!r} {list(proto.dims)}: {error}") from None

    def sparse(self, proto: Any) -> NDArray[Any]:
        """A tensor of which only some elements are there, as a whole one."""
        values, places = self.array(proto.values), self.array(proto.indices)
        whole = np.zeros(tuple(proto.dims), values.dtype)
        if places.ndim == 1:
            whole.reshape(-1)[places] = values
        else:
            whole[tuple(places.T)] = values
        return whole

    def _outside(self, proto: Any) -> NDArray[Any]:
        said = {entry.key: entry.value for entry in proto.external_data}
        location = said.get("location", "")
        what = f"weight {proto.name!r} lies in {location!r}"
        if self.folder is None:
            raise OnnxError(f"{what}: load the model by its path")
        parts = Path(location).parts
        if not location or "\0" in location or Path(location).is_absolute() or ".." in parts:
            raise OnnxError(f"{what}; expected a file in the model's folder")
        try:
            path = (self.folder / location).resolve()
            found = any(path.is_relative_to(f) for f in self.folders) and path.is_file()
        except OSError as error:  # such as a name that is too long
            raise OnnxError(f"{what[:300]}: {error.strerror}") from None
        if not found:
            raise OnnxError(f"{what}, which is no file in the model's folder")
        dtype = dtype_of(proto.data_type)
        if dtype is None:
            raise OnnxError(f"{what}: its dtype {proto.data_type} is not supported there")
        shape, bits = tuple(proto.dims), NARROW.get(dtype.name, 8 * dtype.itemsize)
        size = -(-prod(shape) * bits // 8)
        try:
            offset, length = int(said.get("offset", 0)), int(said.get("length", size))
        except ValueError as error:
            raise OnnxError(f"{what}: {error}") from None
        if min((0, offset, *shape)) < 0:
            raise OnnxError(f"{what} at {offset}, of sizes {shape}; expected none below 0")
        if length != size:
            raise OnnxError(f"{what}: it says another length, {length} bytes; expected {size}")
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
            if offset + size > os.fstat(file.fileno()).st_size:
                raise OnnxError(f"{what} at {offset}, {size} bytes: the file is shorter")
            if not size:
                return np.zeros(shape, dtype)
            if dtype.name in NARROW:
                file.seek(offset)
                packed = self.onnx.TensorProto(
                    data_type=proto.data_type, dims=shape, raw_data=file.read(size)
                )
                return np.asarray(self.onnx.numpy_helper.to_array(packed))
            return np.asarray(np.memmap(file, dtype, "r", offset, shape))


@dataclass(frozen=True)
class Ref:
    """An attribute that whoever calls the function says."""

    name: str


def dtype_of(kind: int) -> np.dtype[Any] | None:
    """NumPy's dtype of an element type; None of text, and of what has no dtype there."""
    helper = import_module("onnx").helper
    try:
        found = np.dtype(helper.tensor_dtype_to_np_dtype(kind))
    except (KeyError, TypeError):
        return None
    return None if found.kind in "OUS" else found
