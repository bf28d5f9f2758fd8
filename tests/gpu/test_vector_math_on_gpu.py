# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportUnknownLambdaType=false, reportMissingTypeArgument=false
# pyright: reportMissingImports=false
"""Functions by the special function unit keep two ulp for every float, and the special values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlc
from tests.numerics.judges import BY_UNIT, errors_ulp

pytestmark = pytest.mark.gpu

CHUNK = 1 << 24


def judge(name: str, bits: np.ndarray[tuple[int], np.dtype[np.uint32]]) -> None:
    """Fails where a result leaves its bound."""
    x = bits.view(np.float32)

    @mlc.compile(target="cuda")
    def function(x: Any) -> Any:
        return getattr(np, name)(x)

    got = np.asarray(function(x))
    exact = BY_UNIT[name].exact(x)
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(rounded))
    zeros = rounded == 0
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(rounded[zeros]))
    error = errors_ulp(got, exact)
    worst = int(np.argmax(error))
    assert error[worst] <= BY_UNIT[name].bound("f32"), (
        f"{name}({x[worst]!r}): {error[worst]:.3f} ulp"
    )


@pytest.mark.parametrize("name", BY_UNIT)
def test_bound(name: str) -> None:
    judge(name, np.arange(0, 1 << 32, 4099, dtype=np.uint64).astype(np.uint32))


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_UNIT)
def test_bound_for_every_float(name: str) -> None:
    for first in range(0, 1 << 32, CHUNK):
        judge(name, np.arange(first, first + CHUNK, dtype=np.uint64).astype(np.uint32))
