# pyright: basic
"""`mlc.onnx.load`: models of ONNX as functions that compile, differentiate and batch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from mlc.frontend.call.compile import compile as compile_function
from mlc.frontend.errors import NotSupportedError
from mlc.frontend.importers.onnx import (
    control,
    elementwise,
    norms,
    quantised,
    reduce,
    resize,
    shape,
    windows,
)
from mlc.frontend.importers.onnx.graph import Graph, Model, Node, Port, Reader
from mlc.frontend.importers.onnx.run import ROWS, Run
from mlc.frontend.trace.trace import current
from mlc.frontend.trace.tracer import Tracer

__all__ = ["Imported", "load"]

_FAMILIES = (control, elementwise, norms, quantised, reduce, resize, shape, windows)
"""Whose import fills `ROWS`."""

PLACES: Mapping[str, Sequence[int]] = {
    "Reshape": (1,), "Expand": (1,), "Tile": (1,), "Slice": (1, 2, 3, 4), "Pad": (1, 3),
    "Squeeze": (1,), "Unsqueeze": (1,), "Split": (1,), "CumSum": (1,), "CumProd": (1,),
    "TopK": (1,), "OneHot": (1,), "ConstantOfShape": (0,), "Range": (0, 1, 2), "Trilu": (1,),
    "CenterCropPad": (1,), "Resize": (1, 2, 3), "Upsample": (1,), "Dropout": (1, 2),
    "Loop": (0,), "DFT": (1, 2), "Col2Im": (1, 2), "Unique": (0,), "MaxUnpool": (2,),
    "HannWindow": (0,), "HammingWindow": (0,), "BlackmanWindow": (0,), "SplitToSequence": (1,),
    "SequenceAt": (1,), "SequenceInsert": (2,), "SequenceErase": (1,), "Compress": (1,),
    **{f"Reduce{name}": (1,) for name in reduce.FOLDS},
}  # fmt: skip
"""Inputs of ops whose numbers must be known while tracing."""


class Imported:
    """
    A model as a function of its inputs, in their order or by name. Inputs that decide on shapes
    are part of the program: another number is another program.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self.__name__ = model.graph.name or "model"
        self.inputs: tuple[Port, ...] = model.graph.inputs
        self.outputs: tuple[Port, ...] = model.graph.outputs
        self._fixed = _fixed(model)
        self._compiled: dict[tuple[bytes, ...], Any] = {}

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """The output, or a tuple of several."""
        given = self._given(arguments, named)
        if current() is not None:
            return self._traced(given)
        fixed = {k: np.asarray(given[k]) for k in self._fixed if k in given}
        key = tuple(
            name.encode() + str((x.dtype, x.shape)).encode() + x.tobytes()
            for name, x in fixed.items()
        )
        if key not in self._compiled:

            def run(values: dict[str, Any]) -> Any:
                return self._traced({**fixed, **values})

            self._compiled[key] = compile_function(run)
        return self._compiled[key]({k: x for k, x in given.items() if k not in fixed})

    def _given(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        names = [port.name for port in self.inputs]
        if len(arguments) > len(names):
            raise TypeError(f"{self.__name__} takes {len(names)} inputs, found {len(arguments)}")
        given = {**dict(zip(names, arguments, strict=False)), **named}
        if unknown := sorted(set(given) - set(names)):
            raise TypeError(
                f"{self.__name__} has no input {unknown[0]!r}; expected {', '.join(names)}"
            )
        return {k: x for k, x in given.items() if x is not None}

    def _traced(self, given: Mapping[str, Any]) -> Any:
        from mlc.frontend.numpy.values import lift

        values = [
            x
            if x is None or isinstance(x, Tracer | list) or name in self._fixed
            else lift(x, self.__name__)
            for name, x in ((port.name, given.get(port.name)) for port in self.inputs)
        ]
        found = Run(self._model).graph(self._model.graph, values, {})
        return found[0] if len(found) == 1 else found

    def __repr__(self) -> str:
        return f"<onnx model {self.__name__}>"


def _fixed(model: Model) -> tuple[str, ...]:
    """Inputs of the graph that lead to numbers which must be known."""
    wanted: set[str] = set()
    for node in reversed(model.graph.nodes):
        wanted |= {node.inputs[k] for k in PLACES.get(node.op, ()) if k < len(node.inputs)}
        if node.op == "If":
            continue
        if wanted & set(node.outputs) and node.op not in ("Shape", "Size"):
            wanted |= set(node.inputs)
    return tuple(port.name for port in model.graph.inputs if port.name in wanted)


def load(model: str | os.PathLike[str] | Any) -> Imported:
    """
    A model, from its file or as a `ModelProto`, as a function of its inputs.

    Weights that lie beside the file are mapped. ModuleNotFoundError where `onnx` is not installed
    (the extra `onnx`), NotSupportedError, which lists every node that is not supported, MlcError
    for weights outside of the model's folder.
    """
    onnx = import_module("onnx")
    folder = None
    if isinstance(model, str | os.PathLike):
        path = Path(model)
        folder = path.parent
        model = onnx.load(os.fspath(path), load_external_data=False)
    read = Reader(folder).model(model)
    missing = list(dict.fromkeys(_missing(read.graph, read, onnx)))
    if missing:
        raise NotSupportedError("not supported:\n  " + "\n  ".join(missing))
    return Imported(read)


def _missing(graph: Graph, model: Model, onnx: Any) -> list[str]:
    """Nodes that neither we nor ONNX's own definitions can compute."""
    found: list[str] = []
    for node in graph.nodes:
        if not _is_known(node, model, onnx):
            found.append(node.said)
        for value in node.attributes.values():
            if isinstance(value, Graph):
                found += _missing(value, model, onnx)
    return found


def _is_known(node: Node, model: Model, onnx: Any) -> bool:
    if (node.domain == "" and node.op in ROWS) or Run(model).body_of(node) is not None:
        return True
    try:
        schema = onnx.defs.get_schema(node.op, node.version, node.domain)
    except onnx.defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)
