"""Attention as one program of blocks, on a GPU: results, with the same bits in every run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlc
from mlc.runtime.cuda import gpu_target
from tests.stream_programs import (
    GRADIENTS,
    PARTS,
    PROGRAMS,
    Attention,
    causal,
    check_gradient,
    cotangent,
    full,
    same,
    with_gradient,
)

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("guarded_memory")]


@pytest.fixture(autouse=True)
def needs_groups() -> None:
    if "wgmma" not in gpu_target().tensor_core_kinds:
        pytest.skip("the GPU has no wgmma")


@pytest.mark.parametrize(
    "program",
    [
        *PROGRAMS,
        *PARTS,
        same(full, 3, 5, 640, 64),
        same(full, 5, 9, 1024, 64),  # four groups
        same(causal, 2, 40, 1000, 128),  # tiles in pairs
        same(causal, 3, 60, 300, 64),
    ],
    ids=str,
)
def test_a_function_attends(program: Attention) -> None:
    arrays = program.arrays()
    compiled: Any = mlc.compile(program.f, target="cuda")
    found = [compiled(*arrays) for _ in range(20)]
    assert all(x.tobytes() == found[0].tobytes() for x in found)
    expected = program.expected(arrays)
    np.testing.assert_allclose(found[0].astype(np.float32), expected, rtol=0.02, atol=0.02)


@pytest.mark.parametrize(
    "program",
    [
        *GRADIENTS,
        *PARTS,
        same(full, 3, 5, 640, 64),
        same(full, 2, 3, 1024, 128),  # three groups whose last rows end early
        same(causal, 2, 40, 1000, 128),  # tiles in pairs
        same(causal, 3, 60, 300, 64),
    ],
    ids=str,
)
def test_a_gradient_attends(program: Attention) -> None:
    arrays = [*program.arrays(), cotangent(program)]
    compiled: Any = mlc.compile(with_gradient(program.f, program.factors), target="cuda")
    found = [[np.asarray(x) for x in compiled(*arrays)] for _ in range(20)]
    first = [x.tobytes() for x in found[0]]
    assert all([x.tobytes() for x in again] == first for again in found)
    check_gradient(program, found[0])
