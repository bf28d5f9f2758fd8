# pyright: basic
"""`mlc.onnx.load`: models of ONNX as functions that compile, differentiate and batch."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from mlc.dialects.errors import MlcError
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
from mlc.frontend.importers.onnx.check import check
from mlc.frontend.importers.onnx.graph import OnnxError, Reader, proto_of
from mlc.frontend.importers.onnx.imported import Imported, Weights

__all__ = ["Imported", "OnnxError", "load"]

_FAMILIES = (
    control, elementwise, learned, norms, quantised, reduce, resize, sampling, shape, signal,
    windows,
)  # fmt: skip
"""Whose import fills `ROWS`."""


def load(model: str | os.PathLike[str] | Any, *, weights: Weights = "constants") -> Imported:
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
    path = Path(model) if isinstance(model, str | os.PathLike) else None
    proto = model if path is None else proto_of(path)
    try:
        read = Reader(path).model(proto)
        check(read, onnx)
    except MlcError:
        raise
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        what = "the model" if path is None else str(path)
        raise OnnxError(f"{what} cannot be read: {type(error).__name__}: {error}") from error
    return Imported(read, weights)
