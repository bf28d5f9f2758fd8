# pyright: reportUnknownMemberType=false
"""Text to objects and assembly, for this machine and for others; the probe."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import mlc
from benchmarks.kernels import KERNELS
from mlc import knobs
from mlc.dialects.target import CpuTarget, named_target
from mlc.dialects.target.known import CPUS
from mlc.lowering.loops.function import MOST_CALLS
from mlc.runtime import jit, probe
from mlc.runtime.llvm import LLVMTextError, compile_object, emit_assembly, optimised_text
from mlc.runtime.objects import object_of, objects_of
from mlc.runtime.support import support

FMA = """
define void @fma(ptr %x, ptr %out) {
  %a = load <LANES x float>, ptr %x, align 4
  %r = call <LANES x float> @llvm.fma.vLANESf32(<LANES x float> %a, <LANES x float> %a,
                                                <LANES x float> %a)
  store <LANES x float> %r, ptr %out, align 4
  ret void
}
declare <LANES x float> @llvm.fma.vLANESf32(<LANES x float>, <LANES x float>, <LANES x float>)
"""


def cpu(name: str) -> CpuTarget:
    """A CPU of the table."""
    target = named_target(name)
    assert isinstance(target, CpuTarget)
    return target


@pytest.mark.parametrize(
    ("name", "instruction", "register"),
    [
        ("avx2", "vfmadd", "%ymm"),
        ("avx512", "vfmadd", "%zmm"),
        ("amx", "vfmadd", "%zmm"),
        ("neon", "fmla", "v0.4s"),
    ],
)
def test_assembly_for_named_machines(name: str, instruction: str, register: str) -> None:
    target = cpu(name)
    text = emit_assembly(FMA.replace("LANES", str(target.lanes(32))), target)
    assert instruction in text
    assert register in text


@pytest.mark.parametrize("target", CPUS, ids=lambda target: target.name)
def test_objects_cross_compile_and_are_reproducible(target: CpuTarget) -> None:
    text = FMA.replace("LANES", str(target.lanes(32)))
    images = {compile_object(text, target) for _ in range(2)}
    assert len(images) == 1
    machine = images.pop()[18:20]  # ELF e_machine
    assert machine == (b"\xb7\x00" if target.arch == "aarch64" else b"\x3e\x00")


def test_bad_text_is_the_emitters_fault() -> None:
    with pytest.raises(LLVMTextError, match="mlc emitted LLVM IR that LLVM refuses"):
        compile_object("define void @f() { %x = nonsense }", cpu("avx2"))
    with pytest.raises(ValueError, match="opt_level is 7; expected one of"):
        compile_object("", cpu("avx2"), opt_level=7)


def test_optimisation_levels() -> None:
    text = """
define i64 @f(i64 %x) {
  %slot = alloca i64
  store i64 %x, ptr %slot
  %y = load i64, ptr %slot
  ret i64 %y
}
"""
    assert "alloca" in optimised_text(text, cpu("avx2"), opt_level=0)
    for level in (1, 2, 3):
        assert "alloca" not in optimised_text(text, cpu("avx2"), opt_level=level)


def test_a_function_may_ask_for_all_passes() -> None:
    text = """
define i64 @f(ptr noalias %x, ptr noalias %out, i64 %n) ATTRIBUTES {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  %v = load i64, ptr %x
  %p = getelementptr inbounds i64, ptr %out, i64 %i
  store i64 %v, ptr %p
  %j = add nsw i64 %i, 1
  %more = icmp slt i64 %j, %n
  br i1 %more, label %loop, label %done
done:
  ret i64 %n
}
"""
    plain = optimised_text(text.replace("ATTRIBUTES", ""), cpu("avx2"))
    asked = optimised_text(text.replace("ATTRIBUTES", '"mlc.all_passes"'), cpu("avx2"))
    assert "<4 x i64>" not in plain
    assert "<4 x i64>" in asked


def test_a_function_may_ask_for_none() -> None:
    text = """
define i64 @f(i64 %x) ATTRIBUTES {
  %slot = alloca i64
  store i64 %x, ptr %slot
  %y = load i64, ptr %slot
  ret i64 %y
}
"""
    plain, asked = (text.replace("ATTRIBUTES", x) for x in ("", '"mlc.no_passes"'))
    assert "alloca" not in optimised_text(plain, cpu("avx2"))
    assert "alloca" in optimised_text(asked, cpu("avx2"))
    assert "alloca" not in optimised_text(asked, cpu("avx2"), opt_level=2)
    none = compile_object(plain, cpu("avx2"), opt_level=0)
    assert none == compile_object(asked, cpu("avx2")) != compile_object(plain, cpu("avx2"))


@pytest.mark.parametrize("count", [3, 12])
def test_an_entry_with_many_calls_asks_for_none(count: int) -> None:
    """What it calls comes with passes in any case."""

    def chain(x: NDArray[np.float64]) -> NDArray[np.float64]:
        for k in range(count):
            x = np.sort(x + k, axis=k % 2)
        return x

    x = np.random.default_rng(0).standard_normal((6, 5))
    compiled = mlc.compile(chain).lower(x).compile()
    *kernels, entry = compiled.levels.units()
    assert ('"mlc.no_passes"' in entry.text) == (count > MOST_CALLS)
    assert not any("mlc.no_passes" in kernel.text for kernel in kernels)
    np.testing.assert_array_equal(compiled(x), chain(x))


def test_a_missing_symbol_is_named() -> None:
    text = "declare void @nowhere()\ndefine void @f() {\n call void @nowhere()\n ret void\n}"
    image = compile_object(text, probe.host_target())
    with pytest.raises(RuntimeError, match="nobody defines nowhere"):
        jit.load([image], imports={}, exports=["f"])
    with pytest.raises(RuntimeError, match="more than one object defines f"):
        jit.load([image, image], imports={"nowhere": 1}, exports=["f"])


def test_objects_see_each_other_and_imports() -> None:
    target = probe.host_target()
    first = compile_object(
        "declare i64 @g(i64)\n@cell = external global i64\n"
        "define i64 @f(i64 %x) {\n %y = call i64 @g(i64 %x)\n %c = load i64, ptr @cell\n"
        " %z = add i64 %y, %c\n ret i64 %z\n}",
        target,
    )
    second = compile_object("define i64 @g(i64 %x) {\n %y = mul i64 %x, 10\n ret i64 %y\n}", target)
    cell = ctypes.c_int64(7)
    code = jit.load([first, second], imports={"cell": ctypes.addressof(cell)}, exports=["f"])
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.address("f"))
    assert call(4) == 47
    cell.value = -40
    assert call(4) == 0


def test_objects_are_compiled_once(tmp_path: Path) -> None:
    target = cpu("avx2")
    text = FMA.replace("LANES", "8")
    with knobs.scope(cache_dir=tmp_path):
        first, again = objects_of([text, text], target)
        other = object_of(text, target, opt_level=3)
    assert (first.from_cache, again.from_cache, other.from_cache) == (False, True, False)
    assert first.image == again.image


def test_threads_compile_what_one_compiles() -> None:
    target = cpu("avx2")
    texts = [FMA.replace("LANES", "8").replace("@fma", f"@fma_{n}") for n in range(24)]
    images = [made.image for made in objects_of(texts, target, fresh=True)]
    assert images == [compile_object(text, target) for text in texts]


def test_a_thread_says_what_llvm_refuses() -> None:
    with pytest.raises(LLVMTextError, match="refuses"):
        objects_of(["define void @f() { ret i32 }"], cpu("avx2"))


REFUSED = {
    "a text": "define void @f() { ret i32 }",
    "a module": "define void @f() {\n %x = add i32 %y, 1\n %y = add i32 %x, 1\n ret void\n}",
}


@pytest.mark.parametrize("kind", REFUSED)
def test_the_collector_finds_nothing_of_llvm(kind: str) -> None:
    """It runs in any thread, with any lock: llvmlite's may be that of a fork which waits for it."""
    import llvmlite.binding as llvm

    taken: list[str] = []

    def take() -> None:
        taken.append(threading.current_thread().name)

    gc.collect()
    gc.disable()
    try:
        with pytest.raises(LLVMTextError, match="refuses"):
            objects_of([REFUSED[kind]], cpu("avx2"), fresh=True)
        llvm.ffi.register_lock_callback(take, nothing)
        gc.collect()
    finally:
        gc.enable()
        llvm.ffi.unregister_lock_callback(take, nothing)
    assert not taken


def nothing() -> None:
    pass


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of fork beside threads
def test_a_fork_waits_for_the_threads_in_llvm() -> None:
    target = cpu("avx2")
    text = FMA.replace("LANES", "8")
    texts = [text.replace("@fma", f"@fma_{n}") for n in range(64)]
    wanted = compile_object(text, target)
    busy = threading.Thread(target=lambda: objects_of(texts, target, fresh=True))
    busy.start()
    for _ in range(4):
        child = os.fork()
        if not child:
            os._exit(0 if compile_object(text, target) == wanted else 1)
        assert os.waitpid(child, 0)[1] == 0
    busy.join()


def test_what_llvm_calls_is_there() -> None:
    text = "define double @f(double %x) {\n %y = frem double %x, 3.0\n ret double %y\n}"
    image = compile_object(text, probe.host_target())
    code = jit.load([image], imports=support().symbols, exports=["f"])
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(code.address("f"))(-7.5) == -1.5


def test_probe_is_cheap_and_plausible() -> None:
    probe.host_target.cache_clear()
    start = time.perf_counter()
    target = probe.host_target()
    assert time.perf_counter() - start < 0.1  # 1 to 2 ms on an idle machine
    assert target.vector_bits in (128, 256, 512)
    assert 8 << 10 <= target.l1d_bytes <= 1 << 20
    assert target.l1d_bytes < target.l2_bytes
    assert target.cores >= 1
    assert target.clock_hz > 0.5e9


@pytest.mark.slow
def test_measured_rates_are_kept(tmp_path: Path) -> None:
    with knobs.scope(cache_dir=tmp_path):
        measured = probe.measure(seconds=0.3)
        loops = replace(measured.loops, fold_cycles=4.5, function_cycles="exp 5.0 7.5")
        measured = replace(measured, loops=loops)
        probe.keep(measured)
        assert probe.host_target() == measured
        assert "measured" in measured.source
        assert measured.l1_read_bytes_per_s > measured.memory_read_bytes_per_s
        assert measured.f32_flops_per_s > 1e9
        (stored,) = tmp_path.glob("machine-*.json")
        stored.write_text("{}")
        probe.host_target.cache_clear()
        assert "estimated" in probe.host_target().source
    probe.host_target.cache_clear()


@pytest.mark.parametrize("target", ["avx2", "avx512"])
def test_minima_of_integers_are_no_branches(target: str) -> None:
    kernel = KERNELS["edit_distance"]
    program = mlc.compile(target=target, threads=1)(kernel.function)
    asm = program.lower(*kernel.arguments(40)).asm()
    nest = asm[asm.index("\nnest_") :]
    assert nest[: nest.index(".size")].count("cmov") >= 3  # two minima and the cost
