"""Block kernels in the model of a GPU, against NumPy program by program."""
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlc
from mlc.dialects.dtypes import named_dtype
from tests import block_kernels as kernels
from tests.block_oracle import run
from tests.gpu_model.machine import Model
from tests.sweeps import covering
from tests.test_block_kernels import CASES, normal

ALL: dict[str, tuple[Any, tuple[int, ...], tuple[Any, ...], dict[str, Any]]] = {
    **CASES,
    "softmax": (
        kernels.softmax, (3,), (np.zeros((3, 100), np.float32), normal(3, 100), 100, 100),
        {"BLOCK": 128},
    ),
    "addition": (kernels.add_v2, (2,), (normal(1100), normal(1100), normal(1100), 1100), {}),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "target"), covering([*ALL], ["cuda:h200", "cuda:sm_80"], strength=1)
)
def test_as_program_by_program(name: str, target: str) -> None:
    """Sums of at most 300 numbers in f32, of factors that are exact: 1e-5, as on a processor."""
    kernel, grid, args, kwargs = ALL[name]
    expected = [x.copy() if isinstance(x, np.ndarray) else x for x in args]
    launch = mlc.block_kernel(target=target)(kernel.function)[grid]
    levels = launch.lower(*args, **kwargs).levels
    run(kernel, grid, *expected, **kwargs)
    specs = levels.signature.results
    given = [x for x in args if isinstance(x, np.ndarray)]
    given += [np.array([x], np.float64) for x in args if isinstance(x, float)]
    wanted = [x for x in expected if isinstance(x, np.ndarray)]
    results = [(tuple(d.evaluate({}) for d in x.shape), named_dtype(x.dtype).numpy) for x in specs]
    model = Model(levels.at("loops"))
    found = model.call(given, results, places=[x.alias_of for x in specs])
    for mine, x in zip(found, specs, strict=True):
        assert x.alias_of is not None
        theirs = wanted[x.alias_of].astype(np.float64)
        np.testing.assert_allclose(mine.astype(np.float64), theirs, rtol=2e-5, atol=2e-5)
