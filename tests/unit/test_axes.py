"""How ops move along axes."""

from __future__ import annotations

from typing import Any

import numpy as np

import mlc
from mlc.dialects.analysis.access import reads_of
from mlc.dialects.analysis.axes import AxisMaps
from mlc.dialects.tensor.elementwise import Elementwise


def test_what_is_said_of_elementwise_ops_is_what_one_element_reads() -> None:
    def run(x: Any, y: Any) -> Any:
        larger: Any = np.maximum(np.minimum(x, -y), np.sqrt(x) * y)
        return (np.exp(larger / y**2) > 2).astype(np.float64) + np.tanh(y)

    x = np.ones((3, 1, 4), np.float32)
    module = mlc.compile(run).lower(x, x).module
    ops = [op for op in module.walk() if isinstance(op, Elementwise)]
    assert len(ops) > 8
    for op in ops:
        points = reads_of(op).points
        for axis, moves in enumerate(AxisMaps().moves_of(op)):
            for k, move in enumerate(moves):
                assert {point[axis].is_axis for point in points[k]} == {move}
