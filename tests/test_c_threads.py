"""Programs for C with several workers: a pool of their own or OpenMP's, and the bits of one."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.c_files import CProgram, Team
from tests.c_programs import GCC, WARNED, called, compiler, here, program

TARGET = "avx2"
FLAGS = {"pthread": ["-pthread"], "openmp": ["-fopenmp"]}
teams = pytest.mark.parametrize("team", FLAGS)


def step(w: Any, x: Any, y: Any) -> Any:
    def loss(w: Any) -> Any:
        return ((np.tanh(x @ w) - y) ** 2).mean()

    value, slope = mlc.value_and_grad(loss)(w)
    return w - np.float32(0.1) * slope, value, np.exp(x).sum(axis=0)


SPECS = (mlc.TensorSpec(256, 256), mlc.TensorSpec("B", 256), mlc.TensorSpec("B", 256))
RNG = np.random.default_rng(0)
B = 2000
ARRAYS = [
    RNG.standard_normal(shape).astype(np.float32) for shape in ((256, 256), (B, 256), (B, 256))
]


@cache
def with_team(team: Team) -> CProgram:
    return CProgram(program(step, *SPECS, target=TARGET).program, team)


@compiler
@here
@teams
def test_the_bits_are_those_of_one_thread(team: Team, tmp_path: Path) -> None:
    """Whatever the number of workers, call after call, and where the pool has fewer."""
    expected = called(with_team("1"), ARRAYS, tmp_path, sizes={"B": B})
    found = with_team(team)
    many = "for (int k = 0; k < 5; k++) {\n status = step(&context, args, sizes, outs);\n}"
    for threads in (2, 3, 7):
        pool = ""
        if team == "pthread":
            pool = f"if (step_start({min(threads, 5)}) != MLC_OK) return 9;"
        ours = called(
            found,
            ARRAYS,
            tmp_path,
            sizes={"B": B},
            flags=FLAGS[team],
            before=f"context.threads = {threads}; {pool}",
            after=f"{many}\n{'step_stop();' if pool else ''}",
        )
        assert [x.tobytes() for x in ours] == [x.tobytes() for x in expected]


@compiler
@here
def test_the_system_loads_a_library_of_openmp(tmp_path: Path) -> None:
    expected = called(with_team("1"), ARRAYS, tmp_path, sizes={"B": B})
    found = with_team("openmp")
    (tmp_path / "libit.so").write_bytes(found.written("so", "libit.so"))
    flags = ["-L.", "-lit", "-Wl,-rpath,."]
    ours = called(found, ARRAYS, tmp_path, sizes={"B": B}, flags=flags, archived=False,
                  before="context.threads = 3;")  # fmt: skip
    assert [x.tobytes() for x in ours] == [x.tobytes() for x in expected]


MAIN = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "step.h"
enum { CALLERS = 4 };
static float w[256 * 256], x[300 * 256], y[300 * 256];
static float out[CALLERS][256 * 256], loss[CALLERS], rest[CALLERS][256];
static void *call(void *number) {
  int64_t k = (int64_t)(size_t)number;
  mlc_context context = {0};
  context.threads = 3;
  context.arena_bytes = STEP_ARENA_BYTES(3, 300);
  context.arena = aligned_alloc(64, (size_t)(context.arena_bytes + 63) / 64 * 64);
  for (int i = 0; i < 50; i++)
    if (step_call(&context, 300, w, x, y, out[k], loss + k, rest[k]) != MLC_OK) exit(7);
  free(context.arena);
  return NULL;
}
int main(void) {
  pthread_t threads[CALLERS];
  for (int i = 0; i < 256 * 256; i++) w[i] = (float)(i % 13) * .01f;
  for (int i = 0; i < 300 * 256; i++) x[i] = (float)(i % 17) * .1f;
  for (int round = 0; round < 3; round++) {
    if (step_start(3) != MLC_OK || step_start(3) != MLC_BAD_ARGUMENT) return 8;
    for (int64_t k = 0; k < CALLERS; k++)
      pthread_create(threads + k, NULL, call, (void *)(size_t)k);
    for (int k = 0; k < CALLERS; k++) pthread_join(threads[k], NULL);
    step_stop();
  }
  step_stop();
  for (int k = 1; k < CALLERS; k++)
    if (memcmp(out[0], out[k], sizeof out[0]) || loss[0] != loss[k]) return 9;
  return 0;
}
"""


@compiler
@here
def test_several_calls_at_once(tmp_path: Path) -> None:
    """One has the pool, the others work alone; it starts again after it was stopped."""
    found = with_team("pthread")
    for kind, name in (("header", "step.h"), ("a", "it.a")):
        (tmp_path / name).write_bytes(found.written(kind, name))
    (tmp_path / "main.c").write_text(MAIN)
    command = [GCC, "-std=c11", *WARNED, "main.c", "it.a", "-pthread", "-o", "main"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert subprocess.run([tmp_path / "main"], check=False, timeout=60).returncode == 0


@teams
def test_what_objects_ask_for(team: Team) -> None:
    """The text of the program says so before a linker does."""
    found = with_team(team)
    assert found.written("obj", "step.o")
    text = found.header()
    assert "int64_t step_arena_bytes(int64_t threads, int64_t B)" in text
    assert ("step_start(" in text) == (team == "pthread")
