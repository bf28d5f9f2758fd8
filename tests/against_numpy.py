"""A function of arrays under NumPy and under mlc: values, dtypes, shapes, and what is raised."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc

Function = Callable[..., Any]


def outcome(function: Function, args: tuple[Any, ...]) -> Any:
    """What a call returns, or the exception that it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*copy.deepcopy(args))
        except Exception as error:  # noqa: BLE001 - its class is compared
            return error


def same(found: Any, want: Any, rtol: float = 1e-10) -> None:
    """Equal structure, dtypes and shapes; values up to rounding."""
    if isinstance(want, tuple | list):
        assert isinstance(found, tuple | list)
        assert len(found) == len(want), (found, want)
        for a, b in zip(found, want, strict=True):
            same(a, b, rtol)
        return
    assert np.shape(found) == np.shape(want), (found, want)
    assert np.asarray(found).dtype == np.asarray(want).dtype, (found, want)
    narrow = np.asarray(want).dtype.name in ("float16", "float32", "complex64")
    rtol = max(rtol, 2e-3 if np.asarray(want).dtype == np.float16 else 3e-5 if narrow else 0)
    np.testing.assert_allclose(found, want, rtol=rtol, atol=rtol)


def agree(
    function: Function, *args: Any, rtol: float = 1e-10, dynamic: bool = True, eager: bool = True
) -> None:
    """
    `function(np, *args)`: by NumPy, by mlc.numpy outside, by the reference, and compiled, with
    symbolic sizes where `dynamic` says so.
    """
    want = outcome(lambda *xs: function(np, *xs), args)
    if isinstance(want, Exception):
        refuses(function, type(want), *args, eager=eager)
        return
    if eager:
        same(function(mlc.numpy, *copy.deepcopy(args)), want, rtol)

    def traced(*xs: Any) -> Any:
        return function(np, *xs)

    same(mlc.compile(traced).reference(*copy.deepcopy(args)), want, rtol)
    same(mlc.compile(dynamic=dynamic)(traced)(*copy.deepcopy(args)), want, rtol)


def refuses(function: Function, kind: type[Exception], *args: Any, eager: bool = True) -> None:
    """The error is of NumPy's class, while tracing or when the program runs."""
    known = next(k for k in kind.__mro__ if k.__module__ in ("builtins", "numpy.exceptions"))

    def traced(*xs: Any) -> Any:
        return function(np, *xs)

    with pytest.raises(known):
        mlc.compile(traced)(*copy.deepcopy(args))
    if eager:
        with pytest.raises(known):
            function(mlc.numpy, *copy.deepcopy(args))


def derivative_agrees(function: Function, *args: Any, order: int = 1) -> None:
    """Derivatives of all results with regard to the arrays of floats, against differences."""

    def traced(*xs: Any) -> Any:
        return function(np, *xs)

    mlc.check_grads(traced, args, order=order)
