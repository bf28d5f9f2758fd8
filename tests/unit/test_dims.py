"""Dims are integer polynomials with one form each; types and their encodings agree."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, f32

from mlc.dialects.dims import (
    Dim,
    DimsAttr,
    constant_product,
    dims_fault,
    product,
    shape_of,
    tensor_type,
)

B, N = Dim.symbol("B"), Dim.symbol("N")
SYMBOLS = ("B", "N", "K")
ATOMS = st.one_of(st.integers(-4, 9).map(Dim.const), st.sampled_from(SYMBOLS).map(Dim.symbol))
DIMS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: p[0] + p[1]),
        st.tuples(inner, inner).map(lambda p: p[0] - p[1]),
        st.tuples(inner, inner).map(lambda p: p[0] * p[1]),
        st.tuples(inner, st.integers(1, 5)).map(lambda p: p[0] // p[1]),
        inner.map(lambda d: -d),
    ),
    max_leaves=6,
)
SIZES = st.fixed_dictionaries({name: st.integers(0, 12) for name in SYMBOLS})


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        (Dim.const(0), "0"),
        (Dim.const(-3), "-3"),
        (B, "B"),
        (B * 4 + 1, "4*B + 1"),
        (1 + 4 * B, "4*B + 1"),
        (N * B - B * N + 7, "7"),
        (B - N * 2 - 1, "B - 2*N - 1"),
        (B * N * B, "B*B*N"),
        ((B + 1) // 2, "((B + 1) // 2)"),
        ((B * 4 + 6) // 2, "2*B + 3"),
        ((B * 4 + 7) // 2, "2*B + 3"),
        (-B, "-B"),
    ],
)
def test_text(dim: Dim, text: str) -> None:
    assert str(dim) == text
    assert Dim.of(text) == dim


@given(DIMS)
def test_text_reads_back(dim: Dim) -> None:
    assert Dim.of(str(dim)) == dim


@given(DIMS, DIMS, SIZES, st.integers(1, 6))
def test_arithmetic_is_that_of_integers(
    x: Dim, y: Dim, sizes: dict[str, int], divisor: int
) -> None:
    a, b = x.evaluate(sizes), y.evaluate(sizes)
    assert (x + y).evaluate(sizes) == a + b
    assert (x - y).evaluate(sizes) == a - b
    assert (x * y).evaluate(sizes) == a * b
    assert (x // divisor).evaluate(sizes) == a // divisor


@given(DIMS, DIMS, DIMS)
def test_equal_values_have_one_form(x: Dim, y: Dim, z: Dim) -> None:
    assert x + y == y + x
    assert x * y == y * x
    assert (x + y) * z == x * z + y * z
    assert hash((x + y) + z) == hash(x + (y + z))
    assert x - x == Dim.const(0)


@given(DIMS, SIZES)
def test_substitution_is_evaluation(dim: Dim, sizes: dict[str, int]) -> None:
    known = {name: Dim.const(size) for name, size in sizes.items()}
    assert dim.substitute(known).constant == dim.evaluate(sizes)
    assert dim.substitute({}) == dim
    assert dim.symbols() <= set(SYMBOLS)


@given(DIMS, ATOMS)
def test_an_exact_quotient_multiplies_back(x: Dim, y: Dim) -> None:
    quotient = (x * y).exact_quotient(y)
    if y.terms:
        assert quotient is not None
        assert quotient * y == x * y


def test_quotients_that_are_not_exact() -> None:
    assert (B * N).exact_quotient(B) == N
    assert (B * N + 1).exact_quotient(B) is None
    assert (B * 3).exact_quotient(Dim.const(2)) is None
    assert (B + N).exact_quotient(B + N) == Dim.const(1)
    assert (B * B - N * N).exact_quotient(B + N) == B - N
    assert (B * 3 + N * 3).exact_quotient(B + N) == Dim.const(3)
    assert (B * B + N).exact_quotient(B + N) is None
    assert B.exact_quotient(Dim.const(0)) is None


def test_a_single_symbol_and_a_constant_are_recognised() -> None:
    assert B.single_symbol == "B"
    assert (B * 2).single_symbol is None
    assert ((B + 1) // 2).single_symbol is None
    assert (B - B + 5).constant == 5
    assert B.constant is None


@pytest.mark.parametrize("text", ["", "B +", "B / 2", "B ** 2", "f(B)", "1.5", "B // N", "'B'"])
def test_what_is_no_dim(text: str) -> None:
    with pytest.raises(ValueError, match="is not a dim; expected an integer polynomial"):
        Dim.of(text)


def test_what_is_no_symbol_and_no_divisor() -> None:
    with pytest.raises(ValueError, match="a dim symbol is an identifier such as 'B', found '2B'"):
        Dim.symbol("2B")
    with pytest.raises(ValueError, match="dims are divided by positive integers, found 0"):
        _ = B // 0
    with pytest.raises(KeyError):
        B.evaluate({})


def test_products() -> None:
    assert product([]) == Dim.const(1)
    assert product([B, Dim.const(3), N]) == B * N * 3
    assert constant_product([2, 3, 0]) == 0


def test_types_are_interned_and_carry_names_only_where_needed() -> None:
    named = tensor_type(f32, (B, Dim.const(3)))
    assert named is tensor_type(f32, (Dim.of("B"), Dim.const(3)))
    assert str(named) == 'tensor<?x3xf32, #mlc.dims<"B", 3>>'
    assert shape_of(named) == (B, Dim.const(3))
    plain = tensor_type(f32, (Dim.const(2), Dim.const(3)))
    assert str(plain) == "tensor<2x3xf32>"
    assert shape_of(plain) == (Dim.const(2), Dim.const(3))
    assert shape_of(tensor_type(f32, ())) == ()


@pytest.mark.parametrize(
    ("sizes", "dims", "fault"),
    [
        ([DYNAMIC_INDEX, 3], (B, Dim.const(3)), None),
        ([2, 3], None, None),
        ([DYNAMIC_INDEX, 3], None, "unknown sizes without names"),
        ([DYNAMIC_INDEX, 3], (B,), "names 1 dims for 2 axes"),
        ([DYNAMIC_INDEX, 3], (B, N), "axis 1 is 3 but its dim is N"),
        ([DYNAMIC_INDEX, 3], (Dim.const(2), Dim.const(3)), r"axis 0 is \? but its dim is 2"),
        ([4, 3], (Dim.const(2), Dim.const(3)), "axis 0 is 4 but its dim is 2"),
    ],
)
def test_faults_of_encodings(
    sizes: list[int], dims: tuple[Dim, ...] | None, fault: str | None
) -> None:
    kind = TensorType(f32, sizes, DimsAttr(dims)) if dims else TensorType(f32, sizes)
    found = dims_fault(kind)
    if fault is None:
        assert found is None
    else:
        assert found is not None
        assert re.search(fault, found)
