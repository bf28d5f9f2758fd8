"""What the cost says of kinds of loops: each as the machine does it, by figures of its row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Operation

import mlc
from mlc.dialects.analysis.nests import fold_axis
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.known import named_target
from mlc.dialects.tensor.reduce import ContractOp
from mlc.passes.cost.cycles import kernel_cycles
from mlc.passes.cost.streams import Stream, Traffic, work_of_traffic
from mlc.passes.cost.traffic import traffic_of
from mlc.passes.cost.work import seconds
from mlc.profile import Profiler
from tests.plans import RUNNABLE

Program = Callable[..., Any]


def machine() -> CpuTarget:
    found = named_target("avx512")
    assert isinstance(found, CpuTarget)
    return found


def spec(*shape: int, dtype: str = "f64") -> mlc.TensorSpec:
    return mlc.TensorSpec(*shape, dtype=dtype)


def kernels(f: Program, *specs: mlc.TensorSpec) -> list[KernelOp]:
    plan = mlc.compile(target="avx512")(f).lower(*specs).levels.plan()
    return [op for op in plan.walk() if isinstance(op, KernelOp)]


def cycles(f: Program, *specs: mlc.TensorSpec, target: CpuTarget | None = None) -> float:
    """Of the kernels of a program, or of its nests where it has any."""
    found = kernels(f, *specs)
    nests = [k for k in found if k.is_nest]
    return sum(kernel_cycles(k, {}, target or machine()) for k in nests or found)


# integers -----------------------------------------------------------------------------------------


def divided_by(divisor: int | None) -> float:
    def f(x: Any, k: Any) -> Any:
        return x // (k if divisor is None else divisor)

    return cycles(f, spec(1024, dtype="i64"), spec(dtype="i64"))


def test_integers_divide_by_shifts_by_products_or_one_by_one() -> None:
    by_two, by_seven, by_any = divided_by(2), divided_by(7), divided_by(None)
    assert 3 * by_two < by_seven < by_any
    assert by_any >= 1024 * machine().loops.integer_divide_cycles


def chained(divisor: int | None) -> float:
    def f(x: Any, k: Any) -> Any:
        s = x[0]
        for i in range(len(x)):
            s = s // (k if divisor is None else divisor) + x[i]
        return s

    return cycles(f, spec(1000, dtype="i64"), spec(dtype="i64")) / 1000


def test_a_chain_of_divisions_waits_for_each() -> None:
    assert chained(2) < 5 < chained(7) < chained(None)
    assert chained(None) >= machine().loops.integer_divide_latency_cycles


def wrapped(x: Any) -> Any:
    out = np.zeros_like(x)
    for i in range(len(x)):
        out[i] = x[(i + 1) % len(x)] + x[(i - 1) % len(x)]
    return out


def hashed(x: Any) -> Any:
    out = np.zeros_like(x)
    for i in range(len(x)):
        out[i] = x[(17 * i + 1) % len(x)] + x[(19 * i + 1) % len(x)]
    return out


def test_a_remainder_of_a_number_near_its_divisor_is_a_comparison() -> None:
    assert 1.5 * cycles(wrapped, spec(1001)) < cycles(hashed, spec(1001))


# branches -----------------------------------------------------------------------------------------


def least_place(x: Any) -> Any:
    k = 0
    for j in range(len(x)):
        if x[j] < x[k]:
            k = j
    return k


def test_a_number_that_is_chosen_by_what_it_leads_to_is_a_branch_that_is_foretold() -> None:
    """Else each trip would wait for a load, a comparison and the choice."""
    assert cycles(least_place, spec(1000)) / 1000 < machine().loops.load_cycles


def carried_up(x: Any) -> Any:
    for j in range(len(x) - 1):
        if x[j] > x[j + 1]:
            t = x[j]
            x[j] = x[j + 1]
            x[j + 1] = t
    return x


def test_a_call_foretells_the_branches_that_the_one_before_it_has_taught() -> None:
    few = replace(machine().loops, num_learnt_branches=1 << 20)
    taught, forgotten = (
        cycles(carried_up, spec((1 << 18) + 1), target=replace(machine(), loops=loops))
        for loops in (few, machine().loops)
    )
    wrong = machine().loops.mispredict_cycles * machine().loops.mispredicted_share
    assert forgotten - taught == pytest.approx((1 << 18) * wrong)


def inserted(x: Any) -> Any:
    for i in range(1, len(x)):
        key = x[i]
        j = i - 1
        while j >= 0 and x[j] > key:
            x[j + 1] = x[j]
            j -= 1
        x[j + 1] = key
    return x


def test_a_walk_back_to_the_beginning_is_half_of_the_way_on_average() -> None:
    assert cycles(inserted, spec(2000)) > 3.5 * cycles(inserted, spec(1000))


def followed(text: Any, word: Any, link: Any) -> Any:
    count, at = 0, 0
    for i in range(len(text)):
        while at > 0 and text[i] != word[at]:
            at = link[at - 1]
        if text[i] == word[at]:
            at += 1
        if at == len(word) - 1:
            count += 1
            at = link[at - 1]
    return count


def searched(text: Any, word: Any, link: Any) -> Any:
    count, at = 0, 0
    for i in range(len(text)):
        while at > 0 and text[i] != word[at]:
            at = at * 3 // 4
        if text[i] == word[at]:
            at += 1
        if at == len(word) - 1:
            count += 1
            at = link[at - 1]
    return count


def test_links_are_followed_for_few_steps() -> None:
    texts = [spec(n, dtype="i64") for n in (1000, 100, 100)]
    assert 1.5 * cycles(followed, *texts) < cycles(searched, *texts)


# sums in nests ------------------------------------------------------------------------------------


def summed_apart(a: Any, x: Any) -> Any:
    out = np.zeros(len(x))
    for i in range(1, len(x)):
        out[i] = out[i - 1] * 0.5 + a[i, :i] @ x[:i]
    return out


def solved(a: Any, x: Any) -> Any:
    out = np.zeros(len(x))
    for i in range(len(x)):
        out[i] = x[i] - a[i, :i] @ out[:i]
    return out


def test_sums_of_short_rows_overlap_where_none_waits_for_the_one_before() -> None:
    arrays = spec(40, 40), spec(40)
    apart, waiting = (cycles(f, *arrays) / 40 for f in (summed_apart, solved))
    lanes_latency = machine().fma_latency_cycles * 6  # of a sum across lanes, one after the other
    assert apart < lanes_latency < waiting + lanes_latency / 2
    assert apart < waiting


def by_columns(a: Any, b: Any) -> Any:
    n = len(a)
    for i in range(n):
        for j in range(n):
            b[i, j] += a[i + 1 :, i] @ b[i + 1 :, j]
    return b


def test_a_sum_goes_along_the_rows_of_what_lies_turned() -> None:
    """As a product of a column and a turned matrix, whose rows in memory are the results'."""
    (kernel,) = [k for k in kernels(by_columns, spec(351, 351), spec(351, 351)) if k.is_nest]
    (op,) = [op for op in kernel.walk() if isinstance(op, ContractOp)]
    assert op.letters.data == "b,ab->a"
    assert fold_axis(op) == 0


# memory -------------------------------------------------------------------------------------------


def scaled(x: Any) -> Any:
    return x * 1.5


def turned(x: Any) -> Any:
    return x.T.copy()


def first_column(x: Any) -> Any:
    return x[:, 0] + 1


def every_third(x: Any) -> Any:
    return x[::3] + 1


def less_by_row(x: Any, m: Any) -> Any:
    return x - m


def traffic(f: Program, *specs: mlc.TensorSpec) -> list[Traffic]:
    plan = mlc.compile(target="avx512")(f).lower(*specs).levels.plan()
    return [*traffic_of(plan, {}).values()]


def test_what_is_written_over_what_is_read_has_its_lines() -> None:
    def changed(x: Any) -> None:
        x *= 1.5

    (own,), (apart,) = traffic(changed, spec(64, 64)), traffic(scaled, spec(64, 64))
    size = 64 * 64 * 8
    ways = [t.writes[0] for t in (own, apart)]
    assert [x.over for x in ways] == [True, False]
    assert [x.distance for x in ways] == [size, 2 * size]  # one buffer, and two


def test_a_write_over_what_was_read_costs_what_it_takes_longer_than_the_read() -> None:
    target = replace(machine(), l2_read_bytes_per_s=40e9, l2_write_bytes_per_s=20e9)

    def taken(over: bool) -> int:
        stream = Stream(256 << 10, 256 << 10, over=over)
        return seconds(work_of_traffic(Traffic((), (stream,)), 0, target), target)

    assert taken(over=True) == pytest.approx(taken(over=False) / 2, rel=0.01)


def projected(q: Any, a: Any) -> Any:
    for i in range(200):
        for j in range(i + 1, 200):
            r = q[i] @ a[j]
            a[j] -= q[i] * r
    return a


def innermost(op: Operation) -> bool:
    around = op.parent_op()
    return around is not None and around.parent_op() is not None and "for" in around.name


def test_a_part_that_a_loop_has_just_touched_lies_in_level_1() -> None:
    """The row that stays, and the one that the kernel before has read; the code as well."""
    plan = mlc.compile(target="avx512")(projected).lower(spec(200, 200), spec(200, 200))
    found = traffic_of(plan.levels.plan(), {})
    inner = [t for k, t in found.items() if innermost(k) and not k.is_nest]
    assert inner
    assert all(t.since < 32 << 10 for t in inner)
    rows = [x for t in inner for x in t.reads if x.bytes == 200 * 8]
    far = [x for x in rows if x.distance >= 200 * 200 * 8]
    assert len(far) <= 1 < len(rows)  # the row that comes next


def test_the_first_line_of_each_row_of_a_tile_is_asked_for_in_no_order() -> None:
    (found,) = traffic(turned, spec(256, 256))
    assert found.reads[0].lines == 256 * 256 * 8 // (32 * 8)


# vectors ------------------------------------------------------------------------------------------


def test_a_stencil_takes_as_long_as_its_loads() -> None:
    def three(x: Any) -> Any:
        return x[2:] + x[1:-1] + x[:-2]

    def nine(x: Any) -> Any:
        return sum((x[k : k - 8] for k in range(1, 8)), x[8:] + x[:-8])

    more = cycles(nine, spec(1032)) - cycles(three, spec(1026))
    assert more >= 5 * machine().loops.tap_cycles * 1024 / 8


def test_columns_are_collected_and_rows_of_every_third_are_not() -> None:
    target = replace(machine(), loops=replace(machine().loops, strided_f64_cycles=0.3))
    column = cycles(first_column, spec(512, 3), target=target)
    row = cycles(every_third, spec(1536), target=target)
    assert column - row == pytest.approx(512 * (target.loops.column_cycles - 0.3), rel=0.1)


def test_rows_with_masks_that_are_written_in_place_wait_for_one_another() -> None:
    def changed(x: Any, m: Any) -> None:
        x -= m

    own = cycles(changed, spec(100, 3), spec(3))
    apart = cycles(less_by_row, spec(100, 3), spec(3))
    assert own - apart == pytest.approx(100 * machine().loops.blocked_cycles, rel=0.1)


# measuring ----------------------------------------------------------------------------------------


def test_a_profile_gives_each_call_what_the_first_was_given() -> None:
    def ordered(x: Any) -> None:
        x[:] = np.sort(x)[::-1] * 2

    values = np.random.default_rng(0).random(50)
    low = mlc.compile(target=RUNNABLE, threads=1)(ordered).lower(values)
    profiler = Profiler(low.levels)
    given = values.copy()
    assert any(arg.donated for arg in profiler.signature.args)
    profiler.run((given,), 0.0)
    assert (given == values).all()
    profiler.call((given,))
    assert (given == np.sort(values)[::-1] * 2).all()
