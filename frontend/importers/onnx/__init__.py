# pyright: basic
"""`mlc.onnx.load`: models of ONNX as functions that compile, differentiate and batch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from mlc.frontend.errors import NotSupportedError
from mlc.frontend.importers.onnx import (
    control,
    elementwise,
    learned,
    norms,
    quantised,
    reduce,
    resize,
    sampling,
    shape,
    signal,
    windows,
)
from mlc.frontend.importers.onnx.graph import Graph, Model, Node, Reader, proto_of
from mlc.frontend.importers.onnx.imported import Imported, Weights
from mlc.frontend.importers.onnx.run import ROWS

__all__ = ["Imported", "load"]

_FAMILIES = (
    control, elementwise, learned, norms, quantised, reduce, resize, sampling, shape, signal,
    windows,
)  # fmt: skip
"""Whose import fills `ROWS`."""


def load(
    model: str | os.PathLike[str] | Any, *, weights: Weights = "constants"
) -> Imported:
    """
    A model, from its file or as a `ModelProto`, as a function of its inputs.

    `weights`: "constants" of the model, or "arguments" after its inputs, by their names, which
    derivatives can be taken of. Weights that lie beside the file are mapped.

    Raises ModuleNotFoundError where `onnx` is not installed (the extra `onnx`), OnnxError for what
    is no model or for weights outside of the model's folder, NotSupportedError, which lists every
    node that is not supported.
    """
    if weights not in ("constants", "arguments"):
        raise ValueError(f"weights={weights!r}; expected 'constants' or 'arguments'")
    onnx = import_module("onnx")
    folder = None
    if isinstance(model, str | os.PathLike):
        path = Path(model)
        folder = path.parent
        model = proto_of(path)
    read = Reader(folder).model(model)
    missing = list(dict.fromkeys(_missing(read.graph.nodes, read, onnx, set())))
    if missing:
        raise NotSupportedError("not supported:\n  " + "\n  ".join(missing))
    return Imported(read, weights)


def _missing(nodes: Sequence[Node], model: Model, onnx: Any, met: set[int]) -> list[str]:
    """Nodes that neither we nor ONNX's own definitions can compute; functions are looked into."""
    found: list[str] = []
    for node in nodes:
        body = model.body_of(node)
        if body is not None and id(body) not in met:
            met.add(id(body))
            found += _missing(body.nodes, model, onnx, met)
        if not _is_known(node, model, onnx):
            found.append(node.said)
        for value in node.attributes.values():
            if isinstance(value, Graph):
                found += _missing(value.nodes, model, onnx, met)
    return found


def _is_known(node: Node, model: Model, onnx: Any) -> bool:
    if node.kind in ROWS or model.body_of(node) is not None:
        return True
    try:
        schema = onnx.defs.get_schema(node.op, node.version, node.domain)
    except onnx.defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)
