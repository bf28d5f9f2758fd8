"""Loops, branches, parallel regions and failures, executed; errors of the emitter itself."""

from __future__ import annotations

import numpy as np
import pytest

from mlc.dialects import abi
from mlc.dialects.target.cpu import CpuTarget
from mlc.dialects.target.known import AVX512, CPUS
from mlc.lowering.emit import EmitError, emit_kernel, emit_main
from mlc.lowering.emit.function import DATA_LAYOUTS
from mlc.passes.math.expand_math import ExpandMathPass
from mlc.runtime.llvm import emit_assembly
from tests.emitted import (
    CallContext,
    functions,
    kernel,
    loops_context,
    openmp_symbols,
    parse_loops,
)


def test_while_computes_greatest_common_divisors() -> None:
    text = """
    func.func @k(%x: memref<?xi64>, %out: memref<?xi64>) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %zero = arith.constant 0 : i64
      %a = memref.load %x[%c0] : memref<?xi64>
      %b = memref.load %x[%c1] : memref<?xi64>
      %g, %z = scf.while (%p = %a, %q = %b) : (i64, i64) -> (i64, i64) {
        %more = arith.cmpi ne, %q, %zero : i64
        scf.condition(%more) %p, %q : i64, i64
      } do {
      ^bb0(%p: i64, %q: i64):
        %r = arith.remsi %p, %q : i64
        scf.yield %q, %r : i64, i64
      }
      memref.store %g, %out[%c0] : memref<?xi64>
      return
    }"""
    call = kernel(text)
    for a, b in ((12, 18), (7, 0), (1071, 462)):
        out = np.zeros(1, np.int64)
        call(np.array([a, b]), out)
        assert out[0] == np.gcd(a, b)


def test_if_with_results_inside_a_loop() -> None:
    text = """
    func.func @k(%n: index, %x: memref<?xf32>, %out: memref<?xf32>) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %zero = arith.constant 0.0 : f32
      %up, %down = scf.for %i = %c0 to %n step %c1 iter_args(%p = %zero, %q = %zero) -> (f32, f32) {
        %v = memref.load %x[%i] : memref<?xf32>
        %positive = arith.cmpf ogt, %v, %zero : f32
        %p2, %q2 = scf.if %positive -> (f32, f32) {
          %s = arith.addf %p, %v : f32
          scf.yield %s, %q : f32, f32
        } else {
          %s = arith.addf %q, %v : f32
          scf.if %positive {
            memref.store %v, %out[%i] : memref<?xf32>
          }
          scf.yield %p, %s : f32, f32
        }
        scf.yield %p2, %q2 : f32, f32
      }
      memref.store %up, %out[%c0] : memref<?xf32>
      memref.store %down, %out[%c1] : memref<?xf32>
      return
    }"""
    x = np.array([1, -2, 3, -4, 5], np.float32)
    out = np.zeros(2, np.float32)
    kernel(text)(5, x, out)
    np.testing.assert_array_equal(out, [9, -6])


def test_switch_and_buffers_carried_by_a_loop() -> None:
    text = """
    func.func @k(%n: index, %w: index, %a: memref<?x?xf32>, %b: memref<?x?xf32>, %out: memref<?xf32>) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %one = arith.constant 1.0 : f32
      %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%p = %a, %q = %b) -> (memref<?x?xf32>, memref<?x?xf32>) {
        %v = memref.load %p[%c1, %c0] : memref<?x?xf32>
        %s = arith.addf %v, %one : f32
        memref.store %s, %q[%c1, %c0] : memref<?x?xf32>
        scf.yield %q, %p : memref<?x?xf32>, memref<?x?xf32>
      }
      %v = memref.load %r#0[%c1, %c0] : memref<?x?xf32>
      memref.store %v, %out[%c0] : memref<?xf32>
      %k = scf.index_switch %n -> f32
      case 3 {
        scf.yield %one : f32
      }
      default {
        scf.yield %v : f32
      }
      memref.store %k, %out[%c1] : memref<?xf32>
      return
    }"""  # noqa: E501
    call = kernel(text)
    for n in (0, 1, 2, 3):
        a, b = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32)
        out = np.zeros(2, np.float32)
        call(n, 3, a, 3, b, 3, out)
        np.testing.assert_array_equal(out, [n, 1 if n == 3 else n])


PARALLEL = """
func.func @k(%ctx: !mlc_par.ctx, %n: index, %x: memref<?xf32> {mlc.readonly},
             %part: memref<?xf32> {mlc.noalias}, %out: memref<?xf32> {mlc.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %threads = mlc_par.threads %ctx : index
  mlc_par.region (%ctx, %threads) {
  ^bb0(%tid: index, %nt: index):
    %s = scf.for %i = %tid to %n step %nt iter_args(%a = %zero) -> (f32) {
      %v = memref.load %x[%i] : memref<?xf32>
      %t = arith.addf %a, %v : f32
      scf.yield %t : f32
    }
    memref.store %s, %part[%tid] : memref<?xf32>
    %stop = mlc_par.barrier %ctx, %tid of %nt : i1
    mlc_par.leave %stop
    %total = scf.for %i = %c0 to %nt step %c1 iter_args(%a = %zero) -> (f32) {
      %v = memref.load %part[%i] : memref<?xf32>
      %t = arith.addf %a, %v : f32
      scf.yield %t : f32
    }
    memref.store %total, %out[%tid] : memref<?xf32>
    mlc_par.yield
  }
  return
}"""


@pytest.mark.parametrize("opt_level", [1, 3])
@pytest.mark.parametrize("threads", [0, 1, 2, 4])
def test_region_with_barrier(threads: int, opt_level: int) -> None:
    if not openmp_symbols() and threads > 1:
        pytest.skip("no OpenMP runtime on this machine")
    call = kernel(PARALLEL, opt_level=opt_level)
    x = np.arange(1000, dtype=np.float32)
    for _ in range(20):
        part, out = np.zeros(8, np.float32), np.zeros(8, np.float32)
        call(CallContext(threads=threads), 1000, x, part, out)
        np.testing.assert_array_equal(out[: max(1, threads)], x.sum())


def _without_barrier() -> str:
    return "".join(x for x in PARALLEL.splitlines(True) if "barrier" not in x and "leave" not in x)


def test_barrier_drops_noalias_of_what_is_written() -> None:
    text = emit_kernel(functions(parse_loops(PARALLEL))[0], AVX512)
    body = next(line for line in text.splitlines() if "@k.region0(" in line)
    assert "noalias" not in body
    assert "ptr readonly %a2" in body
    text = emit_kernel(functions(parse_loops(_without_barrier()))[0], AVX512)
    body = next(line for line in text.splitlines() if "@k.region0(" in line)
    assert "ptr noalias %a3" in body


def test_first_failure_is_kept() -> None:
    text = """
    func.func @k(%ctx: !mlc_par.ctx, %n: index) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c3 = arith.constant 3 : index
      scf.for %i = %c0 to %n step %c1 {
        %bad = arith.cmpi sge, %i, %c3 : index
        scf.if %bad {
          mlc_par.fail %ctx site 7 value %i extent %c3
        }
      }
      return
    }"""
    call, ctx = kernel(text), CallContext()
    call(ctx, 3)
    assert ctx.get(abi.CTX_ERROR_SITE) == 0
    call(ctx, 10)
    assert ctx.get(abi.CTX_ERROR_SITE) == 7
    assert ctx.get(abi.CTX_ERROR_VALUE) == 3
    assert ctx.get(abi.CTX_ERROR_EXTENT) == 3


def test_text_depends_on_nothing_but_the_ir() -> None:
    texts = {emit_kernel(functions(parse_loops(PARALLEL))[0], AVX512) for _ in range(3)}
    assert len(texts) == 1


def test_address_arithmetic_moves_in_front_of_loops() -> None:
    text = """
    func.func @k(%n: index, %m: index, %x: memref<?x?xf32>) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %one = arith.constant 1.0 : f32
      scf.for %i = %c0 to %n step %c1 {
        scf.for %j = %c0 to %m step %c1 {
          memref.store %one, %x[%i, %j] : memref<?x?xf32>
        }
      }
      return
    }"""
    lines = emit_kernel(functions(parse_loops(text))[0], AVX512).splitlines()
    multiplication = next(k for k, line in enumerate(lines) if " mul " in line)
    assert multiplication < lines.index("for2:")


def _emit(text: str) -> str:
    function = functions(parse_loops(text))[0]
    return emit_kernel(function, AVX512)


ERRORS = {
    "math.exp before expansion": (
        "func.func @k(%x: f32) {\n %y = math.exp %x : f32\n return\n}",
        r"@k: no rule for op 'math.exp'; run mlc-expand-math",
    ),
    "an op of another level": (
        """func.func @k(%x: memref<4xf32>) {
          "memref.copy"(%x, %x) : (memref<4xf32>, memref<4xf32>) -> ()
          return
        }""",
        r"@k: no rule for op 'memref.copy'; a pass before",
    ),
    "a vector access along a strided dim": (
        """func.func @k(%i: index, %x: memref<?xf32, strided<[?]>>) {
          %v = vector.load %x[%i] : memref<?xf32, strided<[?]>>, vector<8xf32>
          return
        }""",
        r"the last dim has stride %a1\.1, vector accesses need 1; use mlc_vec.gather",
    ),
    "bools in memory": (
        """func.func @k(%i: index, %x: memref<?xi1>) {
          %v = vector.load %x[%i] : memref<?xi1>, vector<8xi1>
          return
        }""",
        r"bools are i8 in memory",
    ),
    "a large stack buffer": (
        "func.func @k() {\n %b = memref.alloca() : memref<1024x1024xf32>\n return\n}",
        r"4194304 bytes exceed the limit of 1048576 .* use mlc_par.arena",
    ),
    "a check in a kernel": (
        "func.func @k(%ctx: !mlc_par.ctx) {\n mlc_par.check %ctx\n return\n}",
        r"'mlc_par.check' only stands in the entry function",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_error(case: str) -> None:
    text, message = ERRORS[case]
    with pytest.raises(EmitError, match=message):
        _emit(text)


def test_entry_without_counts() -> None:
    with pytest.raises(EmitError, match=r"needs mlc.entry"):
        emit_main(functions(parse_loops("func.func @f() {\n return\n}"))[0], AVX512)


@pytest.mark.parametrize("target", CPUS, ids=lambda target: target.name)
def test_every_named_cpu_takes_the_text(target: CpuTarget) -> None:
    text = """
    func.func @k(%n: index, %x: memref<?xf32> {mlc.readonly}, %out: memref<?xf32> {mlc.noalias}) {
      %c0 = arith.constant 0 : index
      %c16 = arith.constant 16 : index
      %zero = arith.constant dense<0.0> : vector<16xf32>
      scf.for %i = %c0 to %n step %c16 {
        %left = arith.subi %n, %i : index
        %mask = vector.create_mask %left : vector<16xi1>
        %v = vector.maskedload %x[%i], %mask, %zero : memref<?xf32>, vector<16xi1>, vector<16xf32> into vector<16xf32>
        %e = math.tanh %v : vector<16xf32>
        vector.maskedstore %out[%i], %mask, %e : memref<?xf32>, vector<16xi1>, vector<16xf32>
      }
      return
    }"""  # noqa: E501
    module = parse_loops(text)
    ExpandMathPass().apply(loops_context(), module)
    assembly = emit_assembly(emit_kernel(functions(module)[0], target), target)
    assert "tanh" not in assembly


def test_data_layouts_are_those_of_the_code_generator() -> None:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    for arch, layout in DATA_LAYOUTS.items():
        vendor = "nvidia-cuda" if arch.startswith("nvptx") else "unknown-linux-gnu"
        found = llvm.Target.from_triple(f"{arch}-{vendor}")  # pyright: ignore[reportUnknownMemberType]
        assert str(found.create_target_machine().target_data) == layout
