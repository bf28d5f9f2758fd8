"""What nests should take: how often their loops run, and what a trip waits for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import mlc
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.known import named_target
from mlc.dialects.tensor.control import IfOp
from mlc.dialects.tensor.within import WithinOp
from mlc.passes.cost.counts import FORETOLD_TRIPS
from mlc.passes.cost.nests import nest_reads
from mlc.passes.cost.traffic import traffic_of
from mlc.passes.cost.trips import nest_cycles, trip_cycles
from mlc.text import parse_text

HEAD = """
func.func @f(%a: tensor<{n}xf64>, %b: tensor<{n}xf64>) -> {result} {{
  %0 = mlc.kernel "nest" (%x = %a, %y = %b) : (tensor<{n}xf64>, tensor<{n}xf64>) -> ({result}) {{
    %n = mlc.constant dense<{n}> : tensor<i64>
    %one = mlc.constant dense<1> : tensor<i64>
    %zero = mlc.constant dense<0.0> : tensor<f64>
"""
TAIL = """
    mlc.yield %r : {result}
  }} {{schedule = #mlc.schedule<[vector(8)]>, cost = #mlc.cost<flops 1, read 8, written 8>}}
  func.return %0 : {result}
}}
"""
SUMS = """
    %r = mlc.for %i to %n iter(%s = %zero) -> (tensor<f64>) {{
      %t = mlc.for %j to {inner} iter(%u = %s) -> (tensor<f64>) {{
        %p = mlc.dynamic_slice %x[%j] {{fits}} : tensor<{n}xf64>, tensor<i64> -> tensor<1xf64>
        %q = mlc.reshape %p : tensor<1xf64> -> tensor<f64>
        %v = mlc.add %u, %q : tensor<f64>
        mlc.yield %v : tensor<f64>
      }}
      mlc.yield %t : tensor<f64>
    }}
"""
WRITES = """
    %r = mlc.for %i to %n iter(%s = %x) -> (tensor<{n}xf64>) {{
      %k = mlc.add %i, %one : tensor<i64>
      %p = mlc.dynamic_slice %{read} {{fits}} : tensor<{n}xf64>, tensor<i64> -> tensor<1xf64>
      %q = mlc.reshape %p : tensor<1xf64> -> tensor<f64>
      %v = mlc.add %q, %q : tensor<f64>
      %w = mlc.reshape %v : tensor<f64> -> tensor<1xf64>
      %t = mlc.dynamic_update %s, %w[%k] {{fits}}
        : tensor<{n}xf64>, tensor<1xf64>, tensor<i64> -> tensor<{n}xf64>
      mlc.yield %t : tensor<{n}xf64>
    }}
"""
BRANCH = """
    %c = mlc.compare "lt" %one, {bound} : tensor<i64> -> tensor<i1>
    %r = mlc.for %i to %n iter(%s = %zero) -> (tensor<f64>) {{
      %t = mlc.if %c -> (tensor<f64>) {{
        %v = mlc.add %s, %s : tensor<f64>
        %w = mlc.mul %v, %v : tensor<f64>
        mlc.yield %w : tensor<f64>
      }} else {{
        mlc.yield %s : tensor<f64>
      }}
      mlc.yield %t : tensor<f64>
    }}
"""


BEST = """
    %r, %e = mlc.for %i to %n iter(%s = %zero, %c = %zero) -> (tensor<f64>, tensor<f64>) {{
      %p = mlc.dynamic_slice %x[%i] {{fits}} : tensor<{n}xf64>, tensor<i64> -> tensor<1xf64>
      %q = mlc.reshape %p : tensor<1xf64> -> tensor<f64>
      %v = mlc.add %c, %q : tensor<f64>
      %t = mlc.compare "lt" %s, %v : tensor<f64> -> tensor<i1>
      %w = mlc.select %t, %v, %s : tensor<i1>, tensor<f64>
      mlc.yield %w, %v : tensor<f64>, tensor<f64>
    }}
"""
SEARCH = """
    %r = mlc.for %i to %n iter(%s = %zero) -> (tensor<f64>) {{
      %t = mlc.while iter(%u = %s) -> (tensor<f64>) {{
        %c = mlc.compare "lt" %u, %zero : tensor<f64> -> tensor<i1>
        mlc.yield %c : tensor<i1>
      }} do {{
      ^bb0(%u2: tensor<f64>):
        %v = mlc.add %u2, %u2 : tensor<f64>
        mlc.yield %v : tensor<f64>
      }}
      mlc.yield %t : tensor<f64>
    }}
"""


def machine() -> CpuTarget:
    found = named_target("avx512")
    assert isinstance(found, CpuTarget)
    return found


def nest(body: str, n: int = 1000, result: str = "tensor<f64>", **parts: str) -> KernelOp:
    """The kernel around a nest's loop."""
    text = (HEAD + body + TAIL).format(n=n, result=result.format(n=n), **parts)
    (kernel,) = (op for op in parse_text(text, "nest").walk() if isinstance(op, KernelOp))
    return kernel


def cycles(body: str, n: int = 1000, result: str = "tensor<f64>", **parts: str) -> float:
    return nest_cycles(nest(body, n, result, **parts), {}, machine())


def test_loops_as_long_as_the_trips_number_run_half_as_often() -> None:
    square, triangle = cycles(SUMS, inner="%n"), cycles(SUMS, inner="%i")
    assert triangle / square == pytest.approx(0.5, rel=0.01)


def test_a_trip_waits_for_the_number_that_it_is_given() -> None:
    """A sum of floats cannot go faster than its additions answer."""
    n = 1000
    assert cycles(SUMS, n, inner="%n") >= n * n * machine().loops.add_latency_cycles


def test_a_trip_waits_for_the_element_that_the_one_before_has_stored() -> None:
    alone = cycles(WRITES, result="tensor<{n}xf64>", read="y[%i]")
    waiting = cycles(WRITES, result="tensor<{n}xf64>", read="s[%i]")
    assert alone < waiting
    assert waiting >= 999 * machine().loops.add_latency_cycles


def test_what_no_trip_gives_back_to_itself_is_not_waited_for() -> None:
    """The best so far waits for this trip's sum, the next sum does not wait for the best."""
    assert cycles(BEST) == pytest.approx(1000 * machine().loops.add_latency_cycles, rel=0.01)


def test_a_search_in_a_loop_is_short() -> None:
    """As many steps as a branch back is foretold; a loop that is alone has a hundred."""
    each = machine().loops.add_latency_cycles
    assert cycles(SEARCH) == pytest.approx(1000 * FORETOLD_TRIPS * each, rel=0.3)


def _nests(f: Callable[..., Any], *specs: mlc.TensorSpec) -> tuple[ModuleOp, list[KernelOp]]:
    plan = mlc.compile(target="avx512")(f).lower(*specs).levels.plan()
    return plan, [op for op in plan.walk() if isinstance(op, KernelOp) and op.is_nest]


def _sweep(x: Any, k: Any) -> Any:
    for i in range(400):
        x[k, i + 1] += x[k, i]
        x[k, i + 1] /= 9
    return x


def test_elements_of_a_row_that_only_data_say_are_carried_along_it() -> None:
    row = mlc.TensorSpec(dtype="i64")
    plan, (kernel,) = _nests(_sweep, mlc.TensorSpec(500, 500, dtype="f64"), row)
    # an addition, and the division of what it gives
    each = machine().loops.add_latency_cycles + machine().fma_latency_cycles
    assert nest_cycles(kernel, {}, machine()) >= 400 * each
    traffic = traffic_of(plan, {})[kernel]
    assert traffic.writes[0].bytes == 500 * 500 * 8  # not in place: all of it


def _sweeps(x: Any) -> Any:
    for k in range(1, 499):
        x[k, 1:-1] += x[k - 1, 1:-1]
        for i in range(1, 499):
            x[k, i] += x[k, i - 1]
    return x


def test_a_nest_that_stores_in_place_moves_what_its_trips_touch() -> None:
    plan, nests = _nests(_sweeps, mlc.TensorSpec(500, 500, dtype="f64"))
    found = [traffic_of(plan, {})[kernel] for kernel in nests]
    row = 500 * 8
    assert all(sum(x.bytes for x in t.writes) <= 2 * row for t in found)
    assert all(sum(x.bytes for x in t.reads) <= 4 * row for t in found)


def _products(x: Any) -> Any:
    m = x.shape[1]
    out = np.zeros((m, m))
    for i in range(m - 1):
        out[i, i + 1 :] = x[:, i] @ x[:, i + 1 :]
    return out


def test_factors_of_a_trips_product_come_from_where_they_fit() -> None:
    """Of 400 x 320 numbers level 2 holds the trip's, of 10 x 320 level 1."""
    slow = replace(machine(), l2_read_bytes_per_s=1e9)

    def slower(rows: int) -> float:
        _, (kernel,) = _nests(_products, mlc.TensorSpec(rows, 320, dtype="f64"))
        return nest_cycles(kernel, {}, slow) / nest_cycles(kernel, {}, machine())

    assert slower(400) > 2.0
    assert slower(10) == 1.0


def _column(x: Any, y: Any) -> Any:
    for i in range(1, 200):
        for k in range(100):
            x[i, :i] += y[i, k] * y[:i, k]
    return x


def test_elements_of_a_column_are_loaded_one_by_one() -> None:
    def taken(columns: int) -> float:
        specs = (mlc.TensorSpec(200, 200, dtype="f64"), mlc.TensorSpec(200, columns, dtype="f64"))
        _, (kernel,) = _nests(_column, *specs)
        return nest_cycles(kernel, {}, machine())

    elements = 100 * 200 * 199 / 2
    assert taken(100) > machine().loops.apart_f64_cycles * elements


def test_a_branch_whose_test_is_known_is_the_one_taken() -> None:
    taken, left = cycles(BRANCH, bound="%n"), cycles(BRANCH, bound="%one")
    assert left < taken


def test_a_trip_of_many_is_the_mean_one() -> None:
    kernel, count = nest(SUMS, inner="%i"), 1000
    each = trip_cycles(kernel, machine())
    assert each * count == pytest.approx(nest_cycles(kernel, {}, machine()), rel=0.01)


def test_inputs_are_read_as_often_as_trips_say_but_no_more_than_they_have() -> None:
    kernel = nest(SUMS, n=64, inner="%n")
    whole, other = (nest_reads(kernel)[x].constant for x in kernel.block.args)
    assert whole == 64 * 8
    assert other == 0


def _nest_of(f: Callable[..., Any], *specs: mlc.TensorSpec) -> KernelOp:
    _, (kernel,) = _nests(f, *specs)
    return kernel


def _taken(f: Callable[..., Any], *specs: mlc.TensorSpec) -> float:
    return nest_cycles(_nest_of(f, *specs), {}, machine())


def _spec(*shape: int, dtype: str = "f64") -> mlc.TensorSpec:
    return mlc.TensorSpec(*shape, dtype=dtype)


def _counted(count: Any, room: Any) -> Any:
    out, k = np.zeros(len(room)), 0
    for v in range(len(count)):
        for _ in range(count[v]):
            out[k] = v
            k += 1
    return out


def test_loops_that_fill_an_array_fill_it_once() -> None:
    """However often each runs, data say; all together as often as there are elements."""
    few, many = (_taken(_counted, _spec(50, dtype="i64"), _spec(n)) for n in (1_000, 9_000))
    assert many / few == pytest.approx(9, rel=0.2)


def _queue(order: Any, next_one: Any) -> Any:
    head = 0
    while order[head] >= 0:
        order[head + 1] = next_one[order[head]]
        head += 1
    return order


def test_a_search_ends_with_the_array_that_it_walks_along() -> None:
    short, long, longer = (
        _taken(_queue, _spec(n, dtype="i64"), _spec(n, dtype="i64")) for n in (20, 1_000, 9_000)
    )
    assert short < long / 4
    assert long == longer  # a guess, where the array is no bound


def _shifted_back(best: Any, weight: Any) -> Any:
    for i in range(len(weight)):
        for c in range(weight[i], len(best)):
            best[c] = best[c] + best[c - weight[i]]
    return best


def test_what_is_left_of_a_number_is_most_of_it() -> None:
    few, many = (_taken(_shifted_back, _spec(n), _spec(8, dtype="i64")) for n in (1_000, 9_000))
    assert many / few == pytest.approx(8_900 / 900, rel=0.1)


def test_of_a_loop_that_was_checked_before_the_first_form_is_priced() -> None:
    """It is foretold; of two that data decide both would be taken, and some foretold wrongly."""
    kernel = _nest_of(_shifted_back, _spec(1_000), _spec(8, dtype="i64"))
    branch = next(op for op in kernel.walk() if isinstance(op, IfOp))
    loops = machine().loops
    forgetful = replace(machine(), loops=replace(loops, num_learnt_branches=1))
    found, first = (nest_cycles(kernel, {}, target) for target in (machine(), forgetful))
    for op in branch.blocks[0].walk():
        if isinstance(op, WithinOp):
            op.properties.pop("holds")
    wrong = 8 * loops.mispredict_cycles * loops.mispredicted_share
    assert nest_cycles(kernel, {}, forgetful) == pytest.approx(first + wrong)
    assert nest_cycles(kernel, {}, machine()) == pytest.approx(found)  # a call like it has taught


def _by_rows(x: Any, w: Any) -> Any:
    for i in range(len(w)):
        for j in range(i):
            x[i, j] = x[i, j] * w[i] + w[j]
    return x


def _by_columns(x: Any, w: Any) -> Any:
    for i in range(len(w)):
        for j in range(i):
            x[j, i] = x[j, i] * w[i] + w[j]
    return x


def test_independent_trips_along_rows_are_vectors() -> None:
    rows, columns = (_taken(f, _spec(400, 400), _spec(400)) for f in (_by_rows, _by_columns))
    assert rows < columns / 2


def test_an_index_that_reads_the_one_before_twice_is_looked_at_once() -> None:
    """Ways to the first one: two to the power of `steps`."""
    steps = 60
    doubled = "%d0 = mlc.sub %one, %one : tensor<i64>\n" + "".join(
        f"%d{k + 1} = mlc.add %d{k}, %d{k} : tensor<i64>\n" for k in range(steps)
    )
    start, rest = WRITES.split("%k = mlc.add %i, %one : tensor<i64>")
    body = start + doubled + rest.replace("[%k]", "[%i]")
    assert cycles(body, result="tensor<{n}xf64>", read=f"x[%d{steps}]") > 0


def _table(x: Any) -> Any:
    n, m = x.shape
    for i in range(1, n):
        for j in range(1, m):
            x[i, j] = x[i, j] + x[i, j - 1] - x[i - 1, j]
    return x


def test_short_loops_overlap_with_the_next_trip_around_them() -> None:
    """As many trips in all: what each waits for is hidden where several rows are on their way."""
    short, long = (_taken(_table, _spec(*shape)) for shape in ((2_001, 6), (6, 2_001)))
    assert short < 0.8 * long
