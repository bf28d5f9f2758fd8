"""What nests should take: how often their loops run, and what a trip waits for."""

from __future__ import annotations

import pytest

from mlc.dialects.plan import KernelOp
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.known import named_target
from mlc.passes.cost.nests import nest_reads
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
    assert cycles(SUMS, n, inner="%n") >= n * n * machine().fma_latency_cycles


def test_a_trip_waits_for_the_element_that_the_one_before_has_stored() -> None:
    alone = cycles(WRITES, result="tensor<{n}xf64>", read="y[%i]")
    waiting = cycles(WRITES, result="tensor<{n}xf64>", read="s[%i]")
    assert alone < waiting
    assert waiting >= 999 * machine().fma_latency_cycles


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
