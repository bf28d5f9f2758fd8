"""Block kernels on the device: on tensors in place, on NumPy's arrays, twice alike."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlc
from tests import block_kernels as kernels
from tests.block_oracle import run
from tests.test_block_kernels import CASES

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", CASES)
def test_as_program_by_program(name: str) -> None:
    kernel, grid, args, kwargs = CASES[name]
    mine = [x.copy() if isinstance(x, np.ndarray) else x for x in args]
    again, theirs = ([x.copy() if isinstance(x, np.ndarray) else x for x in args] for _ in "ab")
    on_gpu = mlc.block_kernel(target="cuda")(kernel.function)
    on_gpu[grid](*mine, **kwargs)
    on_gpu[grid](*again, **kwargs)
    run(kernel, grid, *theirs, **kwargs)
    for x, y, expected in zip(mine, again, theirs, strict=True):
        if isinstance(x, np.ndarray):
            np.testing.assert_array_equal(x, y)
            np.testing.assert_allclose(x, expected, rtol=1e-3, atol=1e-3)


def test_the_lectures_programs_on_tensors() -> None:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
    n = 192311
    x, y, z = (torch.randn(n, device="cuda") for _ in range(3))
    kernels.add_v1[(1,)](z, x, y, 1024)
    assert torch.equal(z[:1024], x[:1024] + y[:1024])
    kernels.add_v2[(mlc.block.cdiv(n, 1024),)](z, x, y, n)
    assert torch.equal(z, x + y)
    for width, block in ((781, 1024), (4096, 4096), (100_000, 131072)):
        x = torch.randn(64, width, device="cuda")
        z = torch.empty_like(x)
        kernels.softmax[(64,)](z, x, x.stride(0), width, BLOCK=block)
        torch.testing.assert_close(z, torch.softmax(x, 1), rtol=1e-5, atol=1e-7)


def test_arrays_that_mlc_put_there() -> None:
    x = np.arange(3000, dtype=np.float32)
    there, z = mlc.device_put(x), mlc.device_put(np.zeros_like(x))
    kernels.scaled[(16,)](z, there, 3000, 2.0, BLOCK=200)
    np.testing.assert_array_equal(np.asarray(z), 2 * x)


def test_tensors_that_lie_apart_in_memory() -> None:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
    x = torch.randn(50, 90, device="cuda")[:, 5:70]
    wide = torch.zeros(50, 90, device="cuda")
    z = wide[:, 5:70]
    kernels.softmax[(50,)](z, x, 90, 65, BLOCK=128)
    torch.testing.assert_close(z, torch.softmax(x, 1), rtol=1e-5, atol=1e-7)
    assert not wide[:, :5].any()
    assert not wide[:, 70:].any()
