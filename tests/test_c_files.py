"""Programs for C: objects that ask for nothing, headers that compile, and what a C program gets."""

from __future__ import annotations

import ctypes
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.c_files import CProgram, archive
from mlc.driver import main
from mlc.runtime.jit import load
from mlc.runtime.linker import ObjectFile
from tests import c_programs
from tests.c_programs import GCC, GXX, OPENBLAS, WARNED, called, compiler, runs_here

TARGET = "avx2"


def step(w1: Any, x: Any, y: Any) -> Any:
    def loss(w: Any) -> Any:
        return ((np.tanh(x @ w) - y) ** 2).mean()

    return w1 - np.float32(0.1) * mlc.grad(loss)(w1)


def update(w: Any, g: Any) -> Any:
    return w - g, (w * w).sum()


def picked(x: Any, k: Any) -> Any:
    return x[k] * 2


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def ordered(x: Any) -> Any:
    return np.sort(x), np.cumsum(x), np.argmax(x)


def halved(x: Any) -> Any:
    while x.max() > 1:
        x = x * np.float32(0.5)
    return x


def narrow(x: Any) -> Any:
    return (x.astype(np.float32) @ x.astype(np.float32).T).astype(np.float16), np.fmod(x, 3)


def complex_product(z: Any) -> Any:
    return z * z.conj()


def program(f: Any, *specs: mlc.TensorSpec, target: str = TARGET, **options: Any) -> CProgram:
    return c_programs.program(f, *specs, target=target, **options)


def spec(*shape: Any, dtype: str = "f32") -> mlc.TensorSpec:
    return mlc.TensorSpec(*shape, dtype=dtype)


STEP = (spec(16, 8), spec("B", 16), spec("B", 8))
ZOO: dict[str, tuple[Any, tuple[mlc.TensorSpec, ...]]] = {
    "step": (step, STEP),
    "softmax": (softmax, (spec("B", 100),)),
    "ordered": (ordered, (spec(100),)),
    "halved": (halved, (spec(100),)),
    "narrow": (narrow, (spec(24, 40, dtype="f16"),)),
    "complex": (complex_product, (spec(30, dtype="c128"),)),
    "picked": (picked, (spec("N"), spec(dtype="i64"))),
}


@pytest.mark.parametrize("target", ["avx2", "neon"])
@pytest.mark.parametrize("name", ZOO)
def test_objects_ask_for_nothing(name: str, target: str) -> None:
    f, specs = ZOO[name]
    found = program(f, *specs, target=target)
    image = ObjectFile.read(found.object)
    assert not list(image.undefined())
    assert {x.name for x in image.defined()} == {f.__name__, f"{f.__name__}_check"}


def test_the_check_of_the_machine_links_and_runs() -> None:
    """As far as this machine has what the program needs, it says so."""
    import platform

    if platform.machine() != "x86_64":
        pytest.skip("the target is of x86-64")
    code = load([program(step, *STEP).object], imports={}, exports=("step", "step_check"))
    assert ctypes.CFUNCTYPE(ctypes.c_int32)(code.address("step_check"))() == 0


C = """
#include <stdio.h>
#include <string.h>
#include "step.h"
#include "update.h"
#include "picked.h"
static char memory[1 << 20] __attribute__((aligned(64)));
static float w[128], x[80], y[40], o[128];
int main(void) {
  mlc_context c;
  int64_t count = 7, k = 9;
  float total, seven[7] = {0}, two;
  int i;
  memset(&c, 0, sizeof c);
  for (i = 0; i < 128; i++) w[i] = (float)(i % 7) * .125f;
  for (i = 0; i < 80; i++) x[i] = (float)(i % 5) * .25f;
  for (i = 0; i < 40; i++) y[i] = (float)(i % 3);
  printf("%d ", (int)step_call(&c, 5, w, x, y, o));
  printf("%d ", c.error_value == STEP_ARENA_BYTES(5));
  printf("%d ", (int)step_call(&c, -1, w, x, y, o));
  c.arena = memory;
  c.arena_bytes = STEP_ARENA_BYTES(5);
  printf("%d %d\\n", step_check(), (int)step_call(&c, 5, w, x, y, o));
  for (i = 0; i < 128; i++) { uint32_t bits; memcpy(&bits, o + i, 4); printf("%08x", bits); }
  c.cancel = &count;
  printf("\\n%d ", (int)step_call(&c, 5, w, x, y, o));
  c.cancel_base = 7;
  printf("%d ", (int)step_call(&c, 5, w, x, y, o));
  c.cancel = 0;
  c.arena_bytes = sizeof memory;
  i = (int)update_call(&c, w, o, &total);
  printf("%d %g %g ", i, w[1], total);
  printf("%d ", (int)picked_call(&c, 7, seven, &k, &two));
  printf("%s %d %d\\n", PICKED_ERRORS[c.error_site].text, (int)c.error_value, (int)c.error_extent);
  return 0;
}
"""


@compiler
def test_a_program_of_c(tmp_path: Path) -> None:
    """Statuses, memory, errors and bits, with headers that compile without a warning."""
    made = {
        "step": program(step, *STEP),
        "update": program(update, spec(128), spec(128), donate="w"),
        "picked": program(picked, *ZOO["picked"][1]),
    }
    for name, found in made.items():
        (tmp_path / f"{name}.h").write_text(found.header())
    library = archive({f"{name}.o": found.object for name, found in made.items()})
    (tmp_path / "all.a").write_bytes(library)
    (tmp_path / "main.c").write_text(C)
    for command in (
        [GCC, "-std=c99", *WARNED, "main.c", "all.a", "-o", "main"],
        [GXX, "-x", "c++", "-std=c++17", *WARNED, "-c", "main.c", "-o", "main.o"],
    ):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    if not runs_here():
        pytest.skip("this machine has no AVX2")
    ran = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    first, bits, last = ran.stdout.splitlines()
    assert first == "2 1 4 0 0"
    w = (np.arange(128) % 7 * 0.125).astype(np.float32).reshape(16, 8)
    x = (np.arange(80) % 5 * 0.25).astype(np.float32).reshape(5, 16)
    y = (np.arange(40) % 3).astype(np.float32).reshape(5, 8)
    wanted = mlc.compile(target=TARGET, threads=1, dynamic={"x": {0: "B"}, "y": {0: "B"}})(step)
    found = wanted(w, x, y)
    assert bits == "".join(f"{n:08x}" for n in found.view(np.uint32).ravel())
    total = float((w.ravel().astype(np.float64) ** 2).sum())
    assert last == f"3 0 0 {(w - found).ravel()[1]:.6g} {total:.6g} 1 index 9 7"


NO_MEMORY = """
#include <stdio.h>
#include "step.h"
static char memory[1 << 20] __attribute__((aligned(64)));
static float w[128], x[80], y[40], o[128];
static int32_t nothing(mlc_context *c, int64_t bytes) {
  c->arena = 0;
  c->arena_bytes = bytes;
  return 0;
}
static int32_t little(mlc_context *c, int64_t bytes) {
  c->arena = memory;
  c->arena_bytes = bytes - 1;
  return 0;
}
int main(void) {
  static const mlc_context zero;
  mlc_context c = zero;
  c.arena_bytes = sizeof memory;
  printf("%d ", (int)step_call(&c, 5, w, x, y, o));
  c.arena = memory;
  c.arena_bytes = -1;
  printf("%d ", (int)step_call(&c, 5, w, x, y, o));
  c.arena = memory + 4;
  c.arena_bytes = 1 << 16;
  printf("%d ", (int)step_call(&c, 5, w, x, y, o));
  c = zero;
  c.grow = nothing;
  printf("%d ", (int)step_call(&c, 5, w, x, y, o));
  c = zero;
  c.grow = little;
  printf("%d ", (int)step_call(&c, 5, w, x, y, o));
  printf("%d ", c.error_value == STEP_ARENA_BYTES(5));
  c = zero;
  c.arena = memory;
  c.arena_bytes = sizeof memory;
  printf("%d ", (int)step_call(&c, 5, w, 0, y, o));
  printf("%d ", (int)step_call(&c, 5, w, x, y, 0));
  printf("%d", (int)step_call(&c, 0, w, 0, 0, o));
  return 0;
}
"""


@compiler
def test_memory_that_is_none_is_an_error(tmp_path: Path) -> None:
    """
    No arena, a size below 0, an address between lines, a `grow` that gives too little; NULL for an
    array, where it has elements.
    """
    found = program(step, *STEP)
    (tmp_path / "step.h").write_text(found.header())
    (tmp_path / "step.o").write_bytes(found.object)
    (tmp_path / "main.c").write_text(NO_MEMORY)
    done = subprocess.run(
        [GCC, "-std=c99", *WARNED, "main.c", "step.o", "-o", "main"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    if not runs_here():
        pytest.skip("this machine has no AVX2")
    ran = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    assert ran.stdout == "2 2 4 2 2 1 4 4 0"


def test_the_header_says_what_arguments_are() -> None:
    text = program(step, *STEP).header()
    for line in (
        "   B: any size from 0 on",
        "   w1: float [16][8], read",
        "   x: float [B][16], read",
        "   out: float [16][8], written",
        "#define STEP_ARENA_BYTES(B) step_arena_bytes(B)",
    ):
        assert line in text.splitlines()
    assert "  float *w: " not in text
    text = program(update, spec(128), spec(128), donate="w").header()
    assert "   w: float [128], read, and written over" in text
    assert "#define UPDATE_ARENA_BYTES() INT64_C(" in text
    assert "float *w, const float *g, float *out1)" in text
    text = program(complex_product, spec(30, dtype="c128")).header()
    assert "   z: double [30][2] (pairs of real and imaginary part), read" in text


WEIGHTS, BIAS = (
    np.random.default_rng(0).standard_normal(shape).astype(np.float32) for shape in ((40, 24), 24)
)


def layer(x: Any) -> Any:
    return np.tanh(x @ WEIGHTS + BIAS)


def layer_with(weights: Any, x: Any) -> CProgram:
    lowered: Any = mlc.compile(target=TARGET)(layer).lower(x)
    return CProgram(lowered.levels, captured=lowered.captured, weights=weights)


def test_weights_are_arguments_or_part_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """By their names; frozen; in a file of their own where they are many, or on demand."""
    x = spec("B", 40)
    text = layer_with("arguments", x).header()
    assert "const float *x, const float *WEIGHTS, const float *BIAS, float *out)" in text
    text = layer_with("freeze", x).header()
    assert "int64_t B, const float *x, float *out)" in text
    monkeypatch.setattr("mlc.c_files.MOST_FROZEN_BYTES", 1000)
    for weights in ("freeze", "file"):
        found = layer_with(weights, x)
        assert "const float *x, const void *weights, float *out)" in found.header()
        data = found.written("weights", "layer.weights")
        assert data[: WEIGHTS.nbytes] == WEIGHTS.tobytes()
        assert data[3840:3936] == BIAS.tobytes()


@compiler
@c_programs.here
@pytest.mark.parametrize("weights", ["arguments", "freeze", "file"])
def test_weights_from_everywhere_give_the_same(weights: Any, tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((7, 40)).astype(np.float32)
    found = layer_with(weights, spec("B", 40))
    given = {
        "arguments": [x, WEIGHTS, BIAS],
        "freeze": [x],
        "file": [x, np.frombuffer(found.written("weights", ""), np.uint8)],
    }
    ours = called(found, given[weights], tmp_path, sizes={"B": 7})
    expected = mlc.compile(target=TARGET, threads=1)(layer)(x)
    assert ours[0].tobytes() == expected.tobytes()


CPP = """
#include <cstdio>
#include <vector>
#include "step.h"
#include "layer.h"
int main() {
  std::vector<float> w(128, .5f), x(80, .25f), y(40, 1.f), out(128), in(280, .125f), tanh(168);
  mlc::step step;
  mlc::layer layer(1);
  std::printf("%d ", step(5, w, x, y, out));
  std::printf("%d %d ", step(6, w, x, y, out), step(-1, w, x, y, out));
  std::printf("%d %d %s\\n", layer(7, in, tanh), step.context.arena_bytes >= STEP_ARENA_BYTES(5),
              step.error().text);
  std::printf("%a %a\\n", out[0], tanh[5]);
}
"""


@compiler
@c_programs.here
def test_the_class_for_cpp(tmp_path: Path) -> None:
    """Spans of the right lengths, memory of its own, weights within."""
    made = {"step": program(step, *STEP), "layer": layer_with("freeze", spec("B", 40))}
    for name, found in made.items():
        (tmp_path / f"{name}.h").write_text(found.header())
        (tmp_path / f"{name}.o").write_bytes(found.object)
    (tmp_path / "main.cpp").write_text(CPP)
    command = [GXX, "-std=c++20", *WARNED, "main.cpp", "step.o", "layer.o", "-o", "main"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    if "span: No such file" in done.stderr:
        pytest.skip("this g++ has no C++20")
    assert done.returncode == 0, done.stderr
    ran = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    said, bits = ran.stdout.splitlines()
    assert said == "0 4 4 0 1 no error"
    w, x, y = (np.full(n, v, np.float32) for n, v in (((16, 8), 0.5), ((5, 16), 0.25), ((5, 8), 1)))
    out = mlc.compile(target=TARGET, threads=1)(step)(w, x, y)
    shown = mlc.compile(target=TARGET, threads=1)(layer)(np.full((7, 40), 0.125, np.float32))
    assert [float.fromhex(n) for n in bits.split()] == [out[0, 0], shown.ravel()[5]]


@c_programs.here
def test_a_shared_library(tmp_path: Path) -> None:
    """The system's loader takes it, and it gives the entry and the check and nothing else."""
    path = tmp_path / "step.so"
    path.write_bytes(program(step, *STEP).written("so", "step.so"))
    library = ctypes.CDLL(str(path))
    assert library.step_check() == 0
    assert not hasattr(library, "step.entry")
    w = (np.arange(128) % 7 * 0.125).astype(np.float32).reshape(16, 8)
    x = (np.arange(80) % 5 * 0.25).astype(np.float32).reshape(5, 16)
    y = (np.arange(40) % 3).astype(np.float32).reshape(5, 8)
    out, context = np.empty_like(w), np.zeros(16, np.int64)
    args = (ctypes.c_void_p * 3)(*(v.ctypes.data for v in (w, x, y)))
    outs = (ctypes.c_void_p * 1)(out.ctypes.data)
    sizes = (ctypes.c_int64 * 1)(5)
    assert library.step(context.ctypes.data_as(ctypes.c_void_p), args, sizes, outs) == 2
    wanted = int(context[6])
    memory = np.empty(wanted + 64, np.uint8)
    context[0], context[1] = -(-memory.ctypes.data // 64) * 64, wanted
    assert library.step(context.ctypes.data_as(ctypes.c_void_p), args, sizes, outs) == 0
    expected = mlc.compile(target=TARGET, threads=1)(step)(w, x, y)
    assert out.tobytes() == expected.tobytes()


def test_units_are_in_the_header() -> None:
    spelled = mlc.TensorSpec(3, unit="m/s")
    assert repr(spelled) == "TensorSpec(3, dtype='f32', unit='m/s')"
    text = program(halved, spelled).header()
    assert "   x: float [3], in m/s, read\n" in text


def factored(a: Any, b: Any) -> Any:
    u, s, vh = np.linalg.svd(a[:, :, :4])
    vectors = u, s, vh, np.linalg.qr(a)[0], np.linalg.eigh(a)[1]
    return np.linalg.solve(a, b) + 1, np.linalg.cholesky(a), np.linalg.inv(a), *vectors


def with_lapack(lapack: str | None) -> CProgram:
    specs = spec(4, 6, 6, dtype="f64"), spec(4, 6, 2, dtype="f64")
    return CProgram(mlc.compile(target=TARGET)(factored).lower(*specs).levels, lapack=lapack)


def test_objects_declare_lapack() -> None:
    """As it will be spelled where they are linked; nobody guesses."""
    with pytest.raises(mlc.MlcError, match="--lapack _ for dgesv_"):
        with_lapack(None)
    found = with_lapack("_")
    asked = {f"d{name}_" for name in ("gesv", "potrf", "gesdd", "geqrf", "orgqr", "syevd")}
    assert {*ObjectFile.read(found.object).undefined()} == asked
    assert "; calls dgesv_, dpotrf_, dgeqrf_, d" in found.header().splitlines()[0]


@compiler
@c_programs.here
@pytest.mark.skipif(not OPENBLAS, reason="NumPy has no OpenBLAS of its own")
def test_lapack_in_c(tmp_path: Path) -> None:
    """NumPy's own library, linked: its bits."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((4, 6, 6))
    a, b = a @ a.swapaxes(1, 2) + np.eye(6), rng.standard_normal((4, 6, 2))
    library = OPENBLAS[0]
    flags = [str(library), f"-Wl,-rpath,{library.parent}", "-Wl,--allow-shlib-undefined"]
    found = called(with_lapack("scipy_{}_64_"), [a, b], tmp_path, flags=flags)
    assert [x.tobytes() for x in found] == [x.tobytes() for x in factored(a, b)]
    singular = np.zeros_like(a)
    with pytest.raises(c_programs.FailedError, match="1: an error of the program"):
        called(with_lapack("scipy_{}_64_"), [singular, b], tmp_path, flags=flags)


def telling(x: Any) -> Any:
    print(x.sum())
    return x


def test_what_c_cannot_have() -> None:
    with pytest.raises(mlc.MlcError, match="tells Python something while it runs"):
        program(telling, spec(4))
    with pytest.raises(mlc.MlcError, match="a program for C"):
        program(softmax, spec(4, 4), target="h200")

    def double(x: Any) -> Any:
        return x + x

    with pytest.raises(mlc.MlcError, match="'double' is no name in C"):
        program(double, spec(4))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--emit header,a,so`, and one object."""
    source = tmp_path / "two.py"
    source.write_text(
        "import mlc\n\n\n@mlc.compile\ndef two(x: mlc.TensorSpec(3)):\n    return x + x\n"
    )
    stem = str(tmp_path / "two")
    assert main(["build", str(source), "--target", TARGET, "--emit", "header,a", "-o", stem]) == 0
    assert capsys.readouterr().out.split() == [f"{stem}.h", f"{stem}.a"]
    assert (tmp_path / "two.a").read_bytes().startswith(b"!<arch>\n")
    options = ["--target", TARGET, "-o", f"{stem}.o"]
    assert main(["build", str(source), *options]) == 0
    assert not list(ObjectFile.read((tmp_path / "two.o").read_bytes()).undefined())
    assert main(["build", str(source), "--target", "h200", "--emit", "a", "-o", stem]) == 1
    assert "--emit a needs a CPU" in capsys.readouterr().err


@compiler
@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_the_example_learns_the_same_weights(tmp_path: Path) -> None:
    """examples/c: bit for bit those of Python on the same target."""
    examples = Path(__file__).parent.parent / "examples"
    folder = tmp_path / "c"
    shutil.copytree(examples / "c", folder)
    shutil.copy(examples / "digits.npz", tmp_path)
    made = ["make", f"TARGET={TARGET}", f"MLC={sys.executable} -m mlc", f"PYTHON={sys.executable}"]
    environment = {**os.environ, "PYTHONPATH": str(examples.parent)}
    done = subprocess.run(
        made, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    if not runs_here():
        pytest.skip("this machine has no AVX2")
    ran = subprocess.run([folder / "train"], cwd=folder, capture_output=True, text=True, check=True)
    assert "% of 261 other digits" in ran.stdout
    network = runpy.run_path(str(examples / "c" / "network.py"))
    x, y, *weights = network["numbers"]()
    step = network["step"].with_options(target=TARGET, threads=1)
    for _ in range(30):
        for k in range(0, 1536, 64):
            *weights, _loss = step(*weights, x[k : k + 64], y[k : k + 64], np.float32(0.2))
    assert (folder / "weights.bin").read_bytes() == b"".join(w.tobytes() for w in weights)
