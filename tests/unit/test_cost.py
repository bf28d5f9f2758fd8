"""The cost of kernels: streams by level, stack distances over a plan, cycles of loops."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import mlc
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import CpuTarget, named_target
from mlc.dialects.typical import typical_attribute
from mlc.levels import Levels
from mlc.options import Options
from mlc.passes.cost.cycles import kernel_cycles
from mlc.passes.cost.prediction import call_seconds, predicted_seconds
from mlc.passes.cost.streams import Stream, Traffic, first_access_s, spread, work_of_traffic
from mlc.passes.cost.traffic import traffic_of
from mlc.passes.cost.work import ATTO, Work, seconds
from mlc.passes.report.report import plan_of
from mlc.pipeline import run_pipeline


def machine() -> CpuTarget:
    target = named_target("avx512")
    assert isinstance(target, CpuTarget)
    return target


def planned(function: Any, *arrays: Any, fusion: Any = "none") -> ModuleOp:
    module = mlc.compile(threads=1)(function).lower(*arrays).module
    options = Options(target=machine(), threads=1, fusion=fusion)
    return run_pipeline(module, options, until="plan")


def kernels(module: ModuleOp) -> list[KernelOp]:
    return [op for op in module.walk() if isinstance(op, KernelOp)]


def rate(distance: int, target: CpuTarget, threads: int = 1) -> float:
    """Bytes per second of a stream over memory that was touched so many bytes ago."""
    size = 10**9
    return (
        size * ATTO / seconds(Work(read=spread(size, distance, target, threads)), target, threads)
    )


def test_bandwidth_falls_with_the_distance() -> None:
    target = machine()
    sizes = [1 << k for k in range(8, 32)]
    rates = [rate(size, target) for size in sizes]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == pytest.approx(target.l1_read_bytes_per_s, rel=1e-5)
    assert rates[-1] == pytest.approx(target.memory_read_bytes_per_s, rel=1e-5)


def test_a_stream_is_all_of_its_bytes_at_two_levels() -> None:
    target = machine()
    for distance in (1 << k for k in range(4, 36)):
        levels = spread(1_000_003, distance, target)
        assert sum(levels) == 1_000_003
        assert min(levels) >= 0
        assert sum(size > 0 for size in levels) <= 2


def test_bandwidth_is_what_was_measured_at_each_level() -> None:
    target = machine()
    assert rate(target.l2_bytes // 2, target) == pytest.approx(target.l2_read_bytes_per_s, rel=1e-5)
    half = replace(target, l3_half_read_bytes_per_s=target.l3_read_bytes_per_s / 2)
    found = rate(target.l3_bytes // 2, half)
    assert found == pytest.approx(target.l3_read_bytes_per_s / 2, rel=1e-5)


def test_threads_share_memory_but_not_caches() -> None:
    target = machine()
    far = 8 * target.l3_bytes
    assert rate(far, target, 64) == pytest.approx(
        target.memory_read_all_cores_bytes_per_s, rel=1e-4
    )
    assert rate(1024, target, 4) == pytest.approx(4 * target.l1_read_bytes_per_s, rel=1e-4)


def test_writes_are_added_and_reads_hide_behind_arithmetic() -> None:
    target = machine()
    read, write = Stream(1 << 20, 2 << 20), Stream(1 << 20, 2 << 20)

    def took(core: int, traffic: Traffic) -> int:
        return seconds(work_of_traffic(traffic, core, target), target)

    both = Traffic((read,), (write,))
    assert took(0, both) > took(0, Traffic((read,), ()))
    assert took(10**9, both) == took(0, both)
    assert took(ATTO, both) > 100 * took(0, both)


def test_memory_that_was_not_touched_for_long_answers_later() -> None:
    target = machine()
    assert first_access_s(1024, target) == 0.0
    assert first_access_s(1 << 30, target) > first_access_s(1 << 20, target) > 0.0


def test_what_a_kernel_has_just_written_is_near_and_arguments_are_not() -> None:
    x = np.zeros(1 << 20, np.float32)

    def f(x: Any) -> Any:
        return np.exp(np.exp(x)[:1000]) + 1

    module = planned(f, x)
    found = traffic_of(module, {})
    distances = [found[op].reads[0].distance for op in kernels(module)]
    # the argument was read a whole call ago; the last kernel reads what was just written
    assert distances[0] >= x.nbytes
    assert distances[-1] <= 3 * 4 * 1000


def test_a_loop_finds_its_own_arrays_near() -> None:
    big, v = np.zeros((1000, 1000), np.float32), np.zeros(1000, np.float32)

    def f(big: Any, v: Any) -> Any:
        return mlc.fori_loop(0, 10, lambda _, v: v * 0.5 + 1, v), big + 1

    module = planned(f, big, v)
    found = traffic_of(module, {})
    inside = [op for op in kernels(module) if not isinstance(op.parent_op().parent_op(), ModuleOp)]  # pyright: ignore[reportOptionalMemberAccess]
    assert inside
    for op in inside:
        assert all(s.distance <= 6 * v.nbytes for s in found[op].reads)


def test_parts_of_a_large_array_come_from_as_far_as_it_is_large() -> None:
    table, ids = np.zeros((10_000, 64), np.float32), np.zeros(100, np.int64)

    def rows(table: Any, ids: Any) -> Any:
        return table[ids]

    module = planned(rows, table, ids)
    (kernel,) = kernels(module)
    stream = traffic_of(module, {})[kernel].reads[0]
    assert stream.bytes == 100 * 64 * 4
    assert stream.distance >= table.nbytes


def test_tiles_of_a_large_array_come_from_as_far_as_it_is_large() -> None:
    """The first phase of a trip reads memory, the next one what that has brought."""
    x = np.zeros((4096, 1024), np.float32)

    def softmax(x: Any) -> Any:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    module = planned(softmax, x, fusion="exact")
    found = traffic_of(module, {})
    first, second, *_, last = kernels(module)
    assert first.parent_op() is not None
    assert found[first].reads[0].bytes < x.nbytes / 32
    assert found[first].reads[0].distance >= x.nbytes
    assert found[second].reads[0].distance < x.nbytes / 32
    assert found[last].writes[0].distance >= x.nbytes


def test_a_left_factor_that_is_read_across_comes_line_by_line() -> None:
    x, y = np.zeros((2048, 1024), np.float32), np.zeros((2048, 64), np.float32)

    def product(x: Any, y: Any) -> Any:
        return x @ y

    def transposed(x: Any, y: Any) -> Any:
        return x.T @ y

    along, down = planned(product, np.ascontiguousarray(x.T), y), planned(transposed, x, y)
    lines = [
        sum(s.lines for t in traffic_of(m, {}).values() for s in t.reads) for m in (along, down)
    ]
    assert lines == [0, x.nbytes // 64]


def plain(x: Any) -> Any:
    return x * 2


def vector_math(x: Any) -> Any:
    return np.tanh(x)


def across(x: Any) -> Any:
    return x.T * 2


def short_rows(x: Any) -> Any:
    return x.reshape(-1, 5) * x[0, :5]


def ordered(x: Any) -> Any:
    return np.sort(x, axis=-1)


@pytest.mark.parametrize("slow", [vector_math, across, short_rows, ordered])
def test_cycles_order_kernels(slow: Any) -> None:
    x = np.zeros((100, 100), np.float32)
    target = machine()

    def cycles(function: Any) -> float:
        module = planned(function, x, fusion="fnr")
        return sum(kernel_cycles(op, {}, target) for op in kernels(module))

    assert cycles(slow) > 1.5 * cycles(plain) > 0


def test_cycles_of_a_product_grow_with_its_volume() -> None:
    target = machine()

    def cycles(n: int) -> float:
        x = np.zeros((n, n), np.float32)

        def multiply(a: Any, b: Any) -> Any:
            return a @ b

        (kernel,) = kernels(planned(multiply, x, x))
        return kernel_cycles(kernel, {}, target)

    assert 6 < cycles(512) / cycles(256) < 10
    peak = 2 * 512**3 / target.f32_flops_per_s
    seconds = cycles(512) * 2 * target.lanes(32) * target.fma_ports / target.f32_flops_per_s
    assert peak < seconds < 3 * peak


def test_predictions_cover_every_kernel_that_runs() -> None:
    x = np.zeros((64, 64), np.float32)

    def f(x: Any) -> Any:
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    module = planned(f, x, fusion="fnr")
    found = predicted_seconds(module, machine(), {})
    assert set(found) == set(kernels(module))
    assert all(seconds > 0 for seconds in found.values())


def test_symbols_have_the_values_given() -> None:
    x = np.zeros(100, np.float32)
    step: Any = mlc.compile(threads=1, dynamic={"x": {0: "N"}})(np.exp)
    options = Options(target=machine(), threads=1)
    module = run_pipeline(step.lower(x).module, options, until="plan")
    few, many = (sum(predicted_seconds(module, machine(), {"N": n}).values()) for n in (100, 10**7))
    assert many > 1000 * few


def test_a_value_that_is_read_at_two_places_is_computed_at_both() -> None:
    def apart(x: Any) -> Any:
        y = np.exp(x)
        return y[1:] + y[:-1]

    def together(x: Any) -> Any:
        y = np.exp(x)
        return y[1:] + x[:-1]

    (kernel,) = kernels(planned(apart, np.ones((64, 64), np.float32), fusion="all"))
    (one,) = kernels(planned(together, np.ones((64, 64), np.float32), fusion="all"))
    twice, once = (kernel_cycles(k, {}, machine()) for k in (kernel, one))
    assert twice > 1.7 * once


def test_joined_pieces_that_stand_there_already_take_nothing() -> None:
    def row(x: Any) -> Any:
        y = x * 2
        y[1] = y[0] + 1
        return y[3:] + y[:-3], y

    def rows(x: Any) -> Any:
        return np.concatenate([x[:3] + 1, x[3:] * 2])

    x = np.ones((400, 400), np.float32)
    part = [k for k in kernels(planned(row, x)) if k.overwritten is not None and "concat" in str(k)]
    (whole,) = kernels(planned(rows, x, fusion="all"))
    assert part
    taken = max(kernel_cycles(k, {}, machine()) for k in part)
    assert taken < kernel_cycles(whole, {}, machine()) / 20


def test_symbols_are_typical_sizes_and_one_without_either_is_named() -> None:
    def f(x: Any, w: Any) -> Any:
        return np.tanh(x @ w)

    levels = (
        mlc.compile(threads=1)(f)
        .lower(mlc.TensorSpec("N", 64, dtype="f32"), mlc.TensorSpec(64, "M", dtype="f32"))
        .levels
    )
    plan, target = levels.plan(), machine()
    for predict in (predicted_seconds, plan_of, call_seconds):
        with pytest.raises(mlc.MlcError, match=r"no value for M; found: N = 8\. .*mlc\.typical"):
            predict(plan, target, {"N": 8})
    plan.attributes["mlc.typical"] = typical_attribute({"N": 512, "M": 16})
    typical, given = call_seconds(plan, target, {}), call_seconds(plan, target, {"N": 1024})
    assert typical == call_seconds(plan, target, {"N": 512, "M": 16}) < given


def test_sizes_that_a_program_binds_are_their_largest_where_none_is_given() -> None:
    def f(x: Any) -> Any:
        return np.exp(x[x > 0])

    low = mlc.compile(threads=1)(f).lower(mlc.TensorSpec("N", dtype="f64"))
    plan = low.levels.plan()
    found = [call_seconds(plan, machine(), {"N": n}) for n in (1_000, 1_000_000)]
    assert 0 < found[0] < found[1]


def test_reports_take_the_sizes_that_a_program_says_it_mostly_has() -> None:
    def f(x: Any) -> Any:
        return x + 1

    levels = mlc.compile(threads=1)(f).lower(mlc.TensorSpec("N", dtype="f32")).levels
    assert levels.known_sizes({}) == {"N": 1024}
    module = levels.at_trace()
    module.attributes["mlc.typical"] = typical_attribute({"N": 7})
    stated = Levels(str(module), levels.name, levels.signature, levels.options, {})
    assert stated.known_sizes({}) == {"N": 7}
    assert stated.known_sizes({"N": 9}) == {"N": 9}
