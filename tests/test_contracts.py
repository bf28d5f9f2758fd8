"""Performance contracts: those that hold cost nothing, those that do not say what is in the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.frontend.call.contract import Contract, ContractError

A = np.ones((40, 50), np.float32)
V = np.ones(50, np.float32)
WIDE = np.ones((300, 1000), np.float32)
LINE = (*(np.linspace(-1, k, 5000) for k in (1, 2, 3)), 0.5, 0.25, 0.125)


def chain(x: Any, y: Any) -> Any:
    return y + (x + y) * x


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def scaled(x: Any) -> Any:
    return np.exp(x) / x.sum()


def in_columns(x: Any) -> Any:
    return np.exp(x) / x.sum(axis=0)


def line_search(xd: Any, xw: Any, y: Any, wd: Any, dd: Any, step: Any) -> Any:
    """
    One step of the support vector machine's line search: ten vectors, none of them stored.

    SOURCE: Apache SystemDS, scripts/builtin/l2svm.dml
    """
    out = 1 - y * (xw + step * xd)
    sv = out > 0
    out = out * sv
    g = wd + step * dd - (out * y * xd).sum()
    h = dd + (xd * sv * xd).sum()
    return step - g / h


def ordered(x: Any) -> Any:
    return np.sort(np.exp(x), axis=1) + x


def turned(x: Any) -> Any:
    return x.T


def descend(w: Any, g: Any) -> Any:
    return w - 0.5 * g


def swap(a: Any, b: Any) -> Any:
    return b, a


def product(x: Any, v: Any) -> Any:
    return x @ v


HOLDS: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], str]] = [
    (chain, (A, A), {}, "kernels<=1"),
    (chain, (A, A), {}, "kernels==1; intermediates==0"),
    (chain, (A, A), {}, "bytes<=3*x.nbytes"),
    (chain, (A, A), {"dynamic": {"x": {0: "n"}, "y": {0: "n"}}}, "bytes<=3*n*50*4; compiles<=1"),
    (chain, (A, A), {}, "peak<=x.nbytes; arena==0"),
    (softmax, (WIDE,), {}, "kernels<=1; intermediates==0; bytes<=2*x.nbytes"),
    (scaled, (A,), {}, "kernels<=2; intermediates==0; bytes<=3*x.nbytes+8"),  # of 4 bytes
    (line_search, LINE, {}, "intermediates==0; kernels<=2; peak<=64*1024"),
    (in_columns, (A[:, :16].copy(),), {}, "intermediates==0"),  # one line of sums
    (product, (A, V), {}, "flops<=2*x.size; kernels<=1"),
    (product, (A, V), {}, "flops>=2*x.shape[0]*x.shape[1]"),
    (product, (A, V), {}, "copies==0; copied_bytes==0"),
    (turned, (A,), {}, "copies<=1; copied_bytes<=x.nbytes"),
    (descend, (A.copy(), A), {"donate": "w"}, "inplace(w); copies==0; peak<=8"),
    (descend, (A, A), {}, "intermediates==0; compiles<2"),
]


@pytest.mark.parametrize("case", HOLDS, ids=lambda c: f"{c[0].__name__}: {c[3]}")
def test_holds(case: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], str]) -> None:
    function, arguments, options, contract = case
    expected = function(*arguments)
    found = mlc.compile(contract=contract, **options)(function)(*arguments)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


FAILS: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], str, str]] = [
    (scaled, (A,), {}, "kernels<=1", "kernels is 2, the limit 1"),
    (scaled, (A,), {}, "kernels<=1", "in kernels 0 and 1; rule reduced: a reduction is known"),
    (scaled, (A,), {"fusion": "none"}, "kernels<=1", 'rule fusion: with fusion="none" each op'),
    (in_columns, (A,), {}, "intermediates==0", "f32[50] (200 bytes) is stored between"),
    (in_columns, (A,), {}, "intermediates==0", "Remedy: read the result at its own points"),
    (scaled, (A,), {}, "intermediates>0", "nothing is stored between kernels"),
    (scaled, (A,), {}, "bytes<=2*x.nbytes", "the limit 16,000"),
    (ordered, (A,), {}, "kernels<=1", "rule whole: "),
    (ordered, (A,), {}, "kernels<=1", "Remedy: raise the limit; what is stored has to lie in"),
    (softmax, (WIDE,), {}, "arena==0", "nothing is stored between kernels"),
    (chain, (A, A), {}, "peak<x.nbytes", "nothing is stored between kernels"),
    (product, (A, V), {}, "flops<x.size", "contract"),
    (turned, (A,), {}, "copies==0", "copies 8,000 bytes"),
    (turned, (A,), {}, "copied_bytes<100", "copied_bytes is 8,000"),
    (descend, (A, A), {}, "inplace(w)", "donate=('w',)"),
    (chain, (A, A), {}, "kernels>1", "kernels is 1, the limit 1"),
    (chain, (A, A), {}, "compiles==0", "dynamic="),
]


@pytest.mark.parametrize("case", FAILS, ids=lambda c: f"{c[0].__name__}: {c[3]}")
def test_fails(case: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], str, str]) -> None:
    function, arguments, options, contract, said = case
    compiled = mlc.compile(contract=contract, **options)(function)
    with pytest.raises(ContractError) as caught:
        compiled(*arguments)
    message = str(caught.value)
    clause = contract.split(";")[0].strip()
    assert f"{function.__name__}: the contract {clause!r} does not hold" in message
    assert said in message
    assert "Remedy: " in message
    with pytest.raises(ContractError):  # a program that breaks it is not kept
        compiled(*arguments)


def test_a_second_compilation_counts() -> None:
    compiled = mlc.compile(contract="compiles<=1")(chain)
    compiled(A, A)
    with pytest.raises(ContractError, match="compiles is 2, the limit 1"):
        compiled(A.astype(np.float64), A.astype(np.float64))
    np.testing.assert_array_equal(compiled(A, A), chain(A, A))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kernel<=1", "limits 'kernel'"),
        ("kernels", "is no comparison"),
        ("kernels<=", "cannot be read"),
        ("kernels!=1", "expected <=, <, ==, >= or >"),
        ("inplace(3)", "expected inplace(argument, …)"),
        ("", "is empty"),
        (7, "contract=7"),
    ],
)
def test_what_cannot_be_read(text: Any, said: str) -> None:
    with pytest.raises(ValueError, match="contract") as caught:
        mlc.compile(contract=text)(chain)
    assert said in str(caught.value)


def test_an_unknown_name_is_told_at_the_call() -> None:
    compiled = mlc.compile(contract="bytes<=5*k")(chain)
    with pytest.raises(ValueError, match="'k' in 'bytes<=5\\*k' is not known; expected numbers"):
        compiled(A, A)
    assert Contract.parse("bytes<=5*k").clauses[0].metric == "bytes"
