# pyright: basic
"""Models of ONNX, made of nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlc

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
helper, numpy_helper = onnx.helper, onnx.numpy_helper

rng = np.random.default_rng(0)


def f32(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def model(
    nodes: list[Any],
    inputs: dict[str, Any],
    outputs: list[str],
    weights: dict[str, Any] | None = None,
    opset: int = 21,
    functions: list[Any] | None = None,
) -> Any:
    """A model of nodes, for inputs like these arrays, or of an element type and sizes or names."""
    ports = [
        helper.make_tensor_value_info(name, *(x if isinstance(x, tuple) else _kind(x)))
        for name, x in inputs.items()
    ]
    ends = [onnx.ValueInfoProto(name=name) for name in outputs]
    initial = [numpy_helper.from_array(np.asarray(w), name) for name, w in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", ports, ends, initial)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=functions or [])


def _kind(x: Any) -> tuple[int, tuple[int, ...]]:
    return helper.np_dtype_to_tensor_dtype(np.asarray(x).dtype), np.shape(x)


def body(nodes: list[Any], inputs: list[str], outputs: list[str]) -> Any:
    """A graph of a node's."""
    ports = [[onnx.ValueInfoProto(name=n) for n in names] for names in (inputs, outputs)]
    return helper.make_graph(nodes, "body", *ports)


def ran(nodes: list[Any], inputs: dict[str, Any], outputs: list[str], **more: Any) -> Any:
    return mlc.onnx.load(model(nodes, inputs, outputs, **more))(*inputs.values())


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    names = [[n if n != "-" else "" for n in text.split()] for text in (inputs, outputs)]
    return helper.make_node(op, *names, **attributes)
