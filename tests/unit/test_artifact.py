"""Artifacts: bytes and back, what is refused, and the first-level cache."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import mlc
from mlc import executable, knobs
from mlc.artifact import FORMAT, Artifact, Code, MemoryPlan
from mlc.dialects.launch import LaunchPlan
from mlc.dialects.target import Target, named_target
from mlc.executable import Executable, compile_module
from mlc.frontend.importers.mlir import signature_of
from mlc.memory import memory_plan_of
from mlc.options import Options
from mlc.runtime.cache import object_cache
from mlc.runtime.cuda import GpuError, load
from mlc.runtime.interpret import entry_function
from mlc.runtime.jit import LoadError
from mlc.runtime.probe import host_target
from mlc.text import parse_text
from tests.block_programs import Product
from tests.unit.fake_gpu import FakeDevice

H200 = named_target("h200")
ROWS = """
!x = tensor<?x64xf32, #mlc.dims<"N", 64>>
!i = tensor<?xi64, #mlc.dims<"N">>
!r = tensor<?xf32, #mlc.dims<"N">>
func.func @rows(%x: !x, %i: !i) -> (!r, !r) {
  %c = mlc.constant dense<[1.0, 2.0, 4.0]> : tensor<3xf32>
  %p = mlc.gather "0,n->n" %c[%i] : tensor<3xf32>, !i -> !r
  %e = mlc.exp %x : !x
  %s = mlc.reduce "sum" "nm->n" %e : !x -> !r
  %q = mlc.mul %s, %p : !r
  func.return %s, %q : !r, !r
}
"""


def control(x: Any, n: Any) -> Any:
    """Loops, branches, a library routine and a constant."""
    y = mlc.fori_loop(0, n, lambda _, y: y @ x + np.eye(4, dtype=np.float32), x)

    def is_small(z: Any) -> Any:
        return z.sum() < 100.0

    z: Any = mlc.while_loop(is_small, lambda z: z * 2.0 + 1.0, mlc.numpy.abs(y))
    z = mlc.cond(z[0, 0] > 1.0, lambda: z + 1.0, lambda: z - 1.0)
    return np.linalg.inv(z), np.sort(z)


def attention(q: Any) -> Any:
    """A tile loop, whose threads have areas of their own."""
    return mlc.nn.softmax(q @ q.T) @ q


def rows(target: Target) -> Executable:
    """A program with sites, symbols and memory between kernels."""
    return compiled(parse_text(ROWS, "rows.mlir"), target)


def compiled(module: ModuleOp, target: Target) -> Executable:
    """The module for a machine, through the first-level cache."""
    return compile_module(module, signature_of(entry_function(module)), Options(target=target))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A device that runs no kernels, and a cache of its own."""
    device = FakeDevice()
    monkeypatch.setattr(load, "device", lambda: device)
    with knobs.scope(cache_dir=tmp_path):
        yield device


def fails(*_: object, **__: object) -> NoReturn:
    """Stands for what must not be done."""
    raise AssertionError


# Bytes


def test_a_native_program_is_the_same_after_packing() -> None:
    found = rows(host_target()).artifact
    assert Artifact.unpack(found.pack()) == found
    assert found.isa == host_target().isa()
    assert [site.line for site in found.sites] == [7]
    assert isinstance(found.host, tuple)
    assert [code.name for code in found.host] == ["rows", "rows.shim"]


def test_every_step_of_a_launch_plan_is_the_same_after_packing(gpu: FakeDevice) -> None:
    low = mlc.compile(control).lower(np.eye(4, dtype=np.float32), 3)
    exe = compile_module(low.module, low.signature, Options(target=H200))
    found = exe.artifact
    assert Artifact.unpack(found.pack()) == found
    assert isinstance(found.host, LaunchPlan)
    said = found.pack().decode(errors="replace")
    steps = "Compute Reserve Launch ReadNumber Library Branch Loop While"
    assert [step for step in steps.split() if f'"{step}"' not in said] == []
    assert all(".entry" in code.image.decode() for code in found.kernels)


def test_a_described_matrix_is_the_same_after_packing(gpu: FakeDevice) -> None:
    a = np.zeros((128, 64), np.float16)
    exe = compiled(parse_text(Product(128, 256, 64, dtype="f16").text(), "product"), H200)
    found = exe.artifact
    assert Artifact.unpack(found.pack()) == found
    exe(a, np.zeros((256, 64), np.float16), np.zeros(256, np.float32))
    assert gpu.native.boxes == [(128, 64), (256, 64), (16, 64)]


SMALL = Artifact(
    name="f",
    isa="x",
    signature=signature_of(entry_function(parse_text(ROWS, "rows.mlir"))),
    sites=(),
    kernels=(Code("k", b"\x00\xff"),),
    host=(),
    memory=MemoryPlan(),
)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (FORMAT, b"", "does not begin"),
        (b"artifact-1", b"artifact-0", "does not begin"),
        (b"\xff", b"", "do not have the sizes"),
        (b"\xff", b"\xff\xff", "do not have the sizes"),
        (b'"Code"', b'"Cope"', "Cope"),
        (b'"isa"', b'"asi"', "asi"),
        (b'"$image":0', b'"$image":7', "part 7 of 1 is named"),
        (SMALL.pack(), b"", "does not begin"),
        (SMALL.pack(), FORMAT + b"[2]\n[]", "it holds tuple"),
        (SMALL.pack(), FORMAT + b"{\n", "Expecting"),
    ],
)
def test_what_is_no_artifact(old: bytes, new: bytes, words: str) -> None:
    data = SMALL.pack()
    assert Artifact.unpack(data) == SMALL
    with pytest.raises(LoadError, match=f"no artifact of mlc: .*{words}"):
        Artifact.unpack(data.replace(old, new))


def test_reading_calls_nothing_that_the_bytes_name() -> None:
    said = json.dumps({"$kind": "Popen", "args": "true"}).encode()
    with pytest.raises(LoadError, match="Popen"):
        Artifact.unpack(FORMAT + json.dumps([len(said)]).encode() + b"\n" + said)


# What a call reserves


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("n", [1, 1000])
def test_the_memory_plan_says_what_the_report_says(n: int, threads: int) -> None:
    module = parse_text(ROWS, "rows.mlir")
    options = Options(target=host_target(), threads=threads, fusion="none")
    exe = compile_module(module, signature_of(entry_function(module)), options)
    plan = exe.artifact.memory
    assert plan.arena_bytes((n,), threads) == exe.levels.memory({"N": n}).arena_bytes > 0
    assert exe.memory(N=n) == exe.levels.memory({"N": n})


def test_no_lowering_for_the_memory_of_what_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = mlc.compile(target="avx2")(attention).lower(np.zeros((1024, 64), np.float32)).levels
    assert "mlc.tiles" in levels.text("plan")
    wanted, plan = levels.memory({}), memory_plan_of(levels.at("loops"))
    monkeypatch.setattr("mlc.memory.lower_plan", fails)
    assert levels.memory({}, plan) == wanted


# The first-level cache


def test_a_gpu_program_is_planned_once(gpu: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    first = rows(H200)
    monkeypatch.setattr("mlc.building.run_pipeline", fails)
    monkeypatch.setattr("mlc.device.emit_gpu", fails)
    object_cache()._memory.clear()  # pyright: ignore[reportPrivateUsage]
    again = rows(H200)
    assert (first.cache_hits, again.cache_hits) == (0, 1)
    assert again.artifact == first.artifact
    x, i = np.zeros((300, 64), np.float32), np.zeros(300, np.int64)
    launches: list[list[object]] = []
    for exe in (first, again):
        gpu.native.launches.clear()
        exe(x, i)
        launches.append([launch[:3] for launch in gpu.native.launches])
    assert launches[0] == launches[1] != []


def test_a_program_is_kept_where_there_is_no_gpu_for_it(gpu: FakeDevice) -> None:
    gpu.compute_capability = 80
    with pytest.raises(GpuError, match="compiled for sm_90a"):
        rows(H200)
    gpu.compute_capability = 90
    assert rows(H200).cache_hits == 1


def test_errors_of_a_cached_gpu_program_name_the_line(gpu: FakeDevice) -> None:
    rows(H200)
    exe = rows(H200)
    assert exe.cache_hits == 1
    x, i = np.zeros((3, 64), np.float32), np.zeros(3, np.int64)
    exe(x, i)
    word = next(launch[3][0] for launch in gpu.native.launches)
    gpu.native.copy(word + 40, np.array([1, 7], np.int64).ctypes.data, 16, 0)
    gpu.native.copy(word + 72, np.array([3], np.int64).ctypes.data, 8, 0)
    with pytest.raises(IndexError, match=r"index 7 is out of bounds .*\n  rows.mlir:7"):
        exe(x, i)


def test_every_figure_of_the_machine_is_in_the_key(tmp_path: Path) -> None:
    host = host_target()
    other = replace(host, l2_read_bytes_per_s=host.l2_read_bytes_per_s * 1.5)
    with knobs.scope(cache_dir=tmp_path):
        assert [rows(target).cache_hits for target in (host, other, host, other)] == [0, 0, 1, 1]


def test_entries_of_another_format_are_misses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "0" * 64

    def same_key(*_: bytes) -> str:
        return key

    monkeypatch.setattr(executable, "object_key", same_key)
    with knobs.scope(cache_dir=tmp_path):
        object_cache().put(key, (2).to_bytes(8, "little") + b"{}")
        assert [rows(host_target()).cache_hits for _ in range(2)] == [0, 1]
