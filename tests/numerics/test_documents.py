"""
Exercises and numbers of the lecture documents that the project started from, as they come out here.

The row numbers (S24 …) are those of the project's feature list. Where the documents are wrong, the
test holds what is right and says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

import mlc
from mlc.backends import BACKENDS
from mlc.dialects.target import named_target
from mlc.options import Options
from mlc.passes.report.report import Plan, plan_of
from mlc.pipeline import run_pipeline

Array = NDArray[Any]


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """The function compiled; `Any` because what it has beside `__call__` is looked at here."""
    return mlc.compile(**options)(function)


def compiled_unary(function: Callable[[Array], Any], **options: Any) -> Any:
    """`compiled` for a lambda of one array."""
    return compiled(function, **options)


def fused(a: Array, b: Array, c: Array, d: Array) -> Array:
    """E = D + (A + B) * C."""
    return d + (a + b) * c


def add(a: Array, b: Array) -> Array:
    """C = A + B."""
    return a + b


def elementwise_plan(fusion: Literal["none", "exact"], size: int = 10**7) -> Plan:
    """The plan of `fused` on float32, with and without fusion."""
    spec = mlc.TensorSpec(size, dtype="f32")
    target = named_target("avx2")
    module = compiled(fused).lower(spec, spec, spec, spec).module
    planned = run_pipeline(module, Options(target=target, fusion=fusion), until="plan")
    return plan_of(planned, target, {})


# Arithmetic intensity, and three loops against one (S24-S26)


def test_one_addition_has_intensity_one_third() -> None:
    spec = mlc.TensorSpec(10**6, dtype="f32")
    (kernel,) = compiled(add).lower(spec, spec).compile().plan().kernels
    assert (kernel.flops, kernel.bytes) == (10**6, 3 * 4 * 10**6)
    assert Fraction(kernel.intensity_per_access).limit_denominator(100) == Fraction(1, 3)


def test_three_kernels_have_intensity_one_third_and_one_has_three_fifths() -> None:
    plans = {"none": elementwise_plan("none"), "exact": elementwise_plan("exact")}
    found = {fusion: len(plan.kernels) for fusion, plan in plans.items()}
    assert found == {"none": 3, "exact": 1}
    for kernel in plans["none"].kernels:
        assert Fraction(kernel.intensity_per_access).limit_denominator(100) == Fraction(1, 3)
    (kernel,) = plans["exact"].kernels
    assert Fraction(kernel.intensity_per_access).limit_denominator(100) == Fraction(3, 5)
    assert kernel.intensity == pytest.approx(3 / 20)  # operations per byte of float32
    assert len(plans["none"].intermediates) == 2
    assert not plans["exact"].intermediates


def test_report_prints_both_intensities() -> None:
    spec = mlc.TensorSpec(10**6, dtype="f32")
    assert "0.600" in compiled(fused).lower(spec, spec, spec, spec).compile().explain()
    assert "0.333" in compiled(add).lower(spec, spec).compile().explain()


def test_fused_program_is_one_kernel_without_allocation() -> None:
    spec = mlc.TensorSpec(1000, dtype="f32")
    text = compiled(fused).lower(spec, spec, spec, spec).text("loops")
    assert text.count("func.func @") == 2  # the kernel and the entry
    assert "memref.alloc" not in text


def test_cost_counts_operations_by_source_line() -> None:
    def two_lines(a: Array, b: Array) -> Array:
        c = a * b + a
        return c - b

    spec = mlc.TensorSpec(50, dtype="f64")
    cost = compiled(two_lines).lower(spec, spec).compile().cost()
    assert sorted(cost.flops_by_line.values()) == [50, 100]
    assert cost.flops == 150
    assert cost.bytes_moved == 3 * 8 * 50


# Row-major and column-major (S59)


@pytest.mark.parametrize("order", ["C", "F"])
def test_both_orders_are_read_where_they_are(order: Any) -> None:
    a = np.asarray(np.arange(12.0).reshape(3, 4), order=order)
    function = compiled_unary(lambda a: a * 2.0 + 1.0)
    np.testing.assert_array_equal(function(a), a * 2.0 + 1.0)
    plan = function.lower(a).compile().plan()
    assert len(plan.kernels) == 1  # no kernel that packs
    assert not plan.intermediates
    for i in range(3):
        for j in range(4):
            offset = i * a.strides[0] + j * a.strides[1]
            assert offset // 8 == (4 * i + j if order == "C" else i + 3 * j)


# sum_array_rows (S60)


def sum_array_rows(a: Array) -> Any:
    """The documents' program: columns outside, rows inside."""
    return a.sum(axis=0).sum()


def sum_array_rows_in_c(a: Array) -> int:
    """The same, loop by loop."""
    total = 0
    rows, columns = a.shape
    for j in range(columns):
        for i in range(rows):
            total += int(a[i, j])
    return total


def test_sum_array_rows() -> None:
    a = np.arange(7 * 11, dtype=np.int32).reshape(7, 11)
    assert compiled(sum_array_rows)(a) == sum_array_rows_in_c(a) == 2926


def test_unit_stride_is_inner_whatever_the_program_says() -> None:
    column_sums = compiled_unary(lambda a: a.sum(axis=0), threads=1)
    text = column_sums.lower(mlc.TensorSpec(64, 512, dtype="f32")).text("plan")
    vector_axis = re.search(r"vector\(\d+, axis (\d+)\)", text)
    assert vector_axis is not None, text
    assert vector_axis[1] == "0"  # of the iteration space (column, row): the column, unit stride


# Strides (S61-S63, S67)


def strides(a: Array) -> tuple[int, ...]:
    """In elements, as the documents count them."""
    return tuple(s // a.itemsize for s in a.strides)


def test_strides_of_the_exercise() -> None:
    t = np.arange(0, 24).reshape(1, 2, 3, 4)
    assert strides(t) == (24, 12, 4, 1)
    assert strides(compiled_unary(lambda t: t + 0)(t)) == (24, 12, 4, 1)


def test_special_strides_are_the_two_orders() -> None:
    a = np.zeros((3, 4))
    assert strides(a) == (a.shape[1], 1)  # row major
    assert strides(np.asfortranarray(a)) == (1, a.shape[0])  # column major


def test_permuted_exercise_is_contiguous() -> None:
    """Erratum: strides (12, 4, 1, 24) are contiguous: an axis of size 1 is never stepped along."""
    t = np.arange(24.0).reshape(1, 2, 3, 4)
    permuted = t.transpose(1, 2, 3, 0)
    assert strides(permuted) == (12, 4, 1, 24)
    assert permuted.flags.c_contiguous
    function = compiled_unary(lambda x: x * 3.0)
    for x in (permuted.copy(), permuted):
        np.testing.assert_array_equal(function(x), x * 3.0)
    assert function.stats().compilations + function.stats().cache_hits == 1


def test_strides_after_broadcast() -> None:
    """Erratum: b of shape (1, 3) has two strides, not one; after the broadcast they are (0, 1)."""
    b = np.broadcast_to(np.array([[1.0, 2.0, 3.0]]), (4, 3))
    assert strides(b) == (0, 1)
    np.testing.assert_array_equal(compiled_unary(lambda b: b + 1.0)(b), b + 1.0)


VIEWS: dict[str, Callable[[Array], Array]] = {
    "reversed": lambda x: x[::-1],
    "every other": lambda x: x[:, ::2],
    "both": lambda x: x[1::3, ::-2],
    "transposed": lambda x: x.T,
    "stride 0": lambda x: np.broadcast_to(x[3], (5, 10)),
    "empty": lambda x: x[2:2],
    "overlapping": lambda x: np.lib.stride_tricks.sliding_window_view(x[0], 4),
}


@pytest.mark.parametrize("name", VIEWS)
def test_any_strides(name: str) -> None:
    x = VIEWS[name](np.arange(70, dtype=np.float32).reshape(7, 10))
    function = compiled_unary(lambda x: x * 2.0 + x)
    np.testing.assert_array_equal(function(x), x * 2.0 + x)
    np.testing.assert_array_equal(compiled_unary(lambda x: x.sum(axis=1))(x), x.sum(axis=1))


# Vectors and threads (S70, S72)


@pytest.mark.parametrize(("target", "lanes"), [("neon", 4), ("avx2", 8), ("avx512", 16)])
def test_vector_of_the_target(target: str, lanes: int) -> None:
    spec = mlc.TensorSpec(256, dtype="f32")
    low = compiled(add, target=target).lower(spec, spec)
    assert f"vector<{lanes}xf32>" in low.text("loops")
    assert f"<{lanes} x float>" in low.text("code")


@pytest.mark.parametrize("size", [256, 257, 3, 100_003])
def test_every_element_is_written_once(size: int) -> None:
    """Erratum: the documents' parallel loop stores to C * 4; each iteration owns C + i * 4."""
    a, b = np.arange(size, dtype=np.float32), np.ones(size, np.float32)
    for threads in (1, 2, 4):
        np.testing.assert_array_equal(compiled(add, threads=threads)(a, b), a + b)


def test_same_bits_for_every_thread_count() -> None:
    a = np.random.default_rng(0).standard_normal((997, 311)).astype(np.float32)
    found = [compiled(sum_array_rows, threads=n)(a) for n in (1, 2, 3, 4)]
    assert all(x == found[0] for x in found)


# The general recipe (S73)


def test_passes_come_in_the_order_of_the_recipe() -> None:
    """Layout before vectors and threads, and those before what is said in terms of a machine."""
    order = ["mlc-fold-views", "mlc-form-kernels", "mlc-schedule", "mlc-plan-to-loops"]
    for row in BACKENDS:
        names = [step.name for stage in row.stages for step in stage.steps]
        places = [names.index(name) for name in order]
        assert places == sorted(places)
        assert all(step.because for stage in row.stages for step in stage.steps)
