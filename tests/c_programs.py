"""C programs around compiled functions: what a caller without Python gets, here or elsewhere."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.c_files import CProgram
from mlc.dialects.dtypes import DTYPES
from mlc.runtime.features import lacking

OPENBLAS = sorted((Path(np.__file__).parent.parent / "numpy.libs").glob("libscipy_openblas64_*.so"))
"""NumPy's own, where a wheel brought it: LAPACK for programs to be linked with."""
GCC, GXX = (shutil.which(name) or "" for name in ("gcc", "g++"))
compiler = pytest.mark.skipif(not (GCC and GXX), reason="gcc and g++ are not installed")


def runs_here() -> bool:
    """Whether code for the target avx2 does."""
    return not lacking(("avx2", "fma", "bmi2"))


here = pytest.mark.skipif(not runs_here(), reason="this machine has no AVX2")
CROSS = shutil.which("aarch64-linux-gnu-gcc") or ""
QEMU_AARCH64, QEMU_X86_64 = (shutil.which(f"qemu-{name}") or "" for name in ("aarch64", "x86_64"))
WARNED = ("-Wall", "-Wextra", "-Werror", "-pedantic", "-Wno-unused-function")

_MAIN = """
#include <stdio.h>
#include "{name}.h"
static char memory[1 << 24] __attribute__((aligned(64)));
{buffers}
int main(void) {{
  void *const args[] = {{{args}}};
  void *const outs[] = {{{outs}}};
  const int64_t sizes[] = {{{sizes}}};
  mlc_context context = {{0}};
  FILE *file = fopen("in.bin", "rb");
  size_t count = 0;
  int32_t status;
  {read}
  context.arena = memory;
  context.arena_bytes = sizeof memory;
  {before}
  status = {name}(&context, args, sizes, outs);
  {after}
  fclose(file);
  if (status != MLC_OK) {{
    printf("%d: %s\\n", (int)status, mlc_status_text(status));
    return 1;
  }}
  file = fopen("out.bin", "wb");
  {write}
  return fclose(file) + (count == 0);
}}
"""


class FailedError(Exception):
    """What a program said before it ended with a status."""


def program(f: Any, *specs: mlc.TensorSpec, target: str, **options: Any) -> CProgram:
    """A function for C."""
    return CProgram(mlc.compile(target=target, **options)(f).lower(*specs).levels)


def called(
    found: CProgram,
    arrays: Sequence[np.ndarray[Any, Any]],
    folder: Path,
    *,
    sizes: Mapping[str, int] | None = None,
    compiler: str = GCC,
    flags: Sequence[str] = (),
    emulator: Sequence[str | Path] = (),
    archived: bool = True,
    before: str = "",
    after: str = "",
) -> list[np.ndarray[Any, Any]]:
    """
    The results of a C program that calls `found` with arrays; FailedError where that fails.
    `flags`: of the compiler; `before`, `after`: what it does besides; `archived`: whether it is
    linked with the archive, or as `flags` say.
    """
    known, signature = dict(sizes or {}), found.signature
    buffers, outs = list[str](), list[str]()
    for k, array in enumerate(arrays):
        buffers.append(f"static char in{k}[{array.nbytes + 1}] __attribute__((aligned(64)));")
    results: list[np.ndarray[Any, Any]] = []
    for k, result in enumerate(signature.results):
        kind = next(x.numpy for x in DTYPES if x.name == result.dtype)
        results.append(np.empty([dim.evaluate(known) for dim in result.shape], kind))
        size = results[-1].nbytes
        buffers.append(f"static char out{k}[{size + 1}] __attribute__((aligned(64)));")
        outs.append(f"out{k}" if result.alias_of is None else f"in{result.alias_of}")
    steps = {
        "read": [f"count += fread(in{k}, 1, sizeof in{k} - 1, file);" for k in range(len(arrays))],
        "write": [
            f"count += fwrite({out}, 1, {x.nbytes}, file);"
            for out, x in zip(outs, results, strict=True)
        ],
    }
    text = _MAIN.format(
        name=found.name,
        buffers="\n".join(buffers),
        args=", ".join(f"in{k}" for k in range(len(arrays))) or "0",
        outs=", ".join(outs),
        sizes=", ".join(str(known[s]) for s in signature.symbols) or "0",
        before=before,
        after=after,
        **{what: "\n  ".join(lines) for what, lines in steps.items()},
    )
    (folder / "main.c").write_text(text)
    for kind, name in (("header", f"{found.name}.h"), ("a", "it.a")):
        (folder / name).write_bytes(found.written(kind, name))
    (folder / "in.bin").write_bytes(b"".join(x.tobytes() for x in arrays))
    linked = ["it.a", *flags] if archived else flags
    command = [compiler, "-std=c99", *WARNED, "main.c", *linked, "-o", "main"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ran = subprocess.run(
        [*emulator, "./main"], cwd=folder, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise FailedError(f"{ran.stdout}{ran.stderr}({ran.returncode})")
    data, at = (folder / "out.bin").read_bytes(), 0
    for k, x in enumerate(results):
        results[k] = np.frombuffer(data, x.dtype, x.size, at).reshape(x.shape)
        at += x.nbytes
    return results
