# pyright: basic
"""Models that PyTorch exports: the numbers are PyTorch's, by one compilation for all sizes."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import numpy as np
import pytest

import mlc

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

from tests.exported_models import MODELS  # noqa: E402 - torch is there


def exported(model: Any, inputs: Any, axes: Any) -> Any:
    """The ModelProto that PyTorch's exporter gives."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own, and those of what it imports
        program = torch.onnx.export(model, inputs, dynamo=True, dynamic_shapes=axes, verbose=False)
    return program.model_proto


@pytest.mark.parametrize("name", MODELS)
def test_an_exported_model(name: str) -> None:
    made, calls, axes = MODELS[name]
    torch.manual_seed(0)
    model = made().eval()
    loaded = mlc.onnx.load(exported(model, calls[0], axes))
    for inputs in calls:
        with torch.no_grad():
            wanted = model(*inputs)
        found = loaded(*(x.numpy() for x in inputs))
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        found = found if isinstance(found, tuple) else (found,)
        for x, y in zip(found, (w.numpy() for w in wanted), strict=True):
            assert x.shape == y.shape
            assert np.abs(x - y).max() <= 1e-4 * np.abs(y).max()
    assert len(loaded.programs()) == 1
