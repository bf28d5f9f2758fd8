"""Block kernels that cannot be: what is said, with the line and what to write instead."""

# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
# pyright: reportOperatorIssue=false, reportArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
import mlc.block.language as tl


def too_long(z_ptr, n):
    tl.store(z_ptr + tl.arange(0, 1024), n)


def branch(z_ptr, n):
    if tl.load(z_ptr) > n:
        tl.store(z_ptr, 1.0)


def race(z_ptr, n):
    tl.store(z_ptr, tl.program_id(0) + n)


def unknown_name(z_ptr, n):
    tl.atomic_add(z_ptr, n)


def misfit(z_ptr, n):
    tl.store(z_ptr + tl.arange(0, 4), tl.arange(0, 4) + tl.arange(0, 5) + n)


def address_as_value(z_ptr, n):
    tl.store(z_ptr, tl.exp(z_ptr) + n)


def integers(z_ptr, n):
    tl.store(z_ptr, tl.exp(tl.program_id(0) + n))


def trip_count(z_ptr, n):
    for k in range(tl.load(z_ptr)):
        tl.store(z_ptr + k, n)


def mask_of_numbers(z_ptr, n):
    tl.load(z_ptr + tl.arange(0, 4), mask=tl.arange(0, 4) + n)


def block_length(z_ptr, n):
    tl.load(z_ptr + tl.arange(0, tl.program_id(0) + n))


def element(z_ptr, n):
    tl.arange(0, 4)[0] = n


def result(z_ptr, n):
    return tl.program_id(0) + n


def fraction(z_ptr, n):
    tl.store(z_ptr + 0.5, n)


def of_numpy(z_ptr, n):
    tl.store(z_ptr, np.sin(tl.load(z_ptr)) + n)


def behind(z_ptr, n):
    tl.store(z_ptr + tl.arange(0, 8), 1.0, mask=tl.arange(0, 8) < n + 6)


SAID: dict[Callable[..., Any], tuple[type[Exception], str]] = {
    too_long: (IndexError, r"reaches elements 0 to 1023 of z_ptr, which has 4, without a mask"),
    branch: (TypeError, r"known only when the kernel runs(.|\n)*tl\.where"),
    race: (NotImplementedError, r"3 positions are stored to one element(.|\n)*tl\.sum"),
    unknown_name: (NotImplementedError, r"tl\.atomic_add is not supported(.|\n)*Supported: abs"),
    misfit: (ValueError, r"shapes \(4,\) and \(5,\) do not fit"),
    address_as_value: (TypeError, r"operand is addresses of z_ptr(.|\n)*tl\.load"),
    integers: (TypeError, r"tl\.exp of i32(.|\n)*x\.to\(tl\.float32\)"),
    trip_count: (TypeError, r"Python asks for a number(.|\n)*tl\.constexpr"),
    mask_of_numbers: (TypeError, r"mask is of i32; expected a comparison"),
    block_length: (TypeError, r"tl\.arange: end is (.|\n)*tl\.constexpr"),
    element: (NotImplementedError, r"cannot be assigned(.|\n)*tl\.where"),
    result: (TypeError, r"result returns Block(.|\n)*tl\.store"),
    fraction: (TypeError, r"moved by float; expected integers"),
    of_numpy: (NotImplementedError, r"NumPy's functions do not take blocks(.|\n)*tl\.exp"),
    behind: (IndexError, r"reaches elements 0 to 6 of z_ptr, which has 4\n(.|\n)*mask="),
}


@pytest.mark.parametrize("function", SAID, ids=lambda f: f.__name__)
def test_what_is_said(function: Callable[..., Any]) -> None:
    kind, text = SAID[function]
    with pytest.raises(kind, match=text) as caught:
        mlc.block_kernel(function)[(3,)](np.zeros(4, np.float32), 1)
    if function is not result:  # there the launch is at fault
        assert f"test_block_mistakes.py:{function.__code__.co_firstlineno + 1}" in str(caught.value)


def test_launches() -> None:
    kernel, z = mlc.block_kernel(too_long), np.zeros(2000, np.float32)
    with pytest.raises(TypeError, match=r"say its grid, too_long\[grid\]"):
        kernel(z, 1)
    with pytest.raises(ValueError, match="expected one to three numbers"):
        kernel[(1, 2, 3, 4)](z, 1)
    with pytest.raises(TypeError, match="missing a required argument: 'n'"):
        kernel[1](z)
    with pytest.raises(TypeError, match="argument 'z_ptr' is a list"):
        kernel[1]([1.0, 2.0], 1)
    with pytest.raises(TypeError, match="no option 'fusion'"):
        mlc.block_kernel(fusion="all")
    with pytest.raises(RuntimeError, match="outside a block kernel"):
        tl.arange(0, 4)


def test_memory_that_is_shared_or_closed() -> None:
    def copied(z_ptr, x_ptr, n: tl.constexpr):
        at = tl.arange(0, n)
        tl.store(z_ptr + at, tl.load(x_ptr + at))

    x = np.zeros(8, np.float32)
    with pytest.raises(NotImplementedError, match="shares memory"):
        mlc.block_kernel(copied)[1](x[:6], x[2:], 4)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        mlc.block_kernel(copied)[1](x, np.ones(8, np.float32), 4)


def test_an_index_that_is_read_and_lies_outside() -> None:
    def scattered(z_ptr, i_ptr):
        tl.store(z_ptr + tl.load(i_ptr + tl.arange(0, 3)), 1.0)

    z = np.zeros(4, np.float32)
    kernel = mlc.block_kernel(scattered)
    kernel[1](z, np.array([0, 3, 2]))
    np.testing.assert_array_equal(z, [1, 0, 1, 1])
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        kernel[1](z, np.array([0, 7, 2]))


def test_strides_that_addresses_do_not_have() -> None:
    kernel, x = mlc.block_kernel(race), np.zeros((4, 4), np.float32)
    with pytest.raises(TypeError, match=r"'z_ptr' has strides \(-4, 1\); expected none below 0"):
        kernel[1](x[::-1], 1)
    records = np.zeros(4, [("a", np.float32), ("b", np.int8)])
    with pytest.raises(TypeError, match="expected whole elements of 4 bytes"):
        kernel[1](records["a"], 1)
