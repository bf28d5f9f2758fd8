"""Programs for C with a LAPACK whose integers have 32 bits, as that of most systems."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.c_files import CProgram
from mlc.dialects.abi import LAPACK
from tests import c_programs
from tests.c_programs import GCC, OPENBLAS, called, compiler

OUTPUTS = {"dgetrf": {4: "*x1"}, "dsyevd": {8: "1"}, "dgelsd": {9: "1", 12: "1"}}
"""Places of arrays of integers -> how many of them are read."""


def forwarded(name: str) -> str:
    """C of a routine with short integers by the one with long ones."""
    takes = LAPACK[name]
    arrays = OUTPUTS[name]
    parameters, before, passed, after = list[str](), list[str](), list[str](), list[str]()
    for k, kind in enumerate(takes):
        parameters.append({"c": "char *", "i": "int *", "a": "void *"}[kind] + f"x{k}")
        passed.append(f"x{k}")
        if kind == "i":
            before.append(f"int64_t y{k} = *x{k};")
            passed[-1] = f"&y{k}"
        elif k in arrays:
            before.append(f"int64_t *y{k} = room + {k} * 4096;")
            passed[-1] = f"y{k}"
            after.append(f"for (int i = 0; i < {arrays[k]}; i++) ((int *)x{k})[i] = (int)y{k}[i];")
    parameters.append("int *info")
    before.append("int64_t y = 0;")
    lengths = ", 1" * takes.count("c")
    after.append("*info = (int)y;")
    body = " ".join([*before, f"scipy_{name}_64_({', '.join(passed)}, &y{lengths});", *after])
    return f"extern void scipy_{name}_64_();\nvoid {name}_({', '.join(parameters)}) {{ {body} }}\n"


def found(a: Any, b: Any) -> Any:
    solve: Any = np.linalg.lstsq
    return np.linalg.det(a), np.linalg.eigh(a)[1], *solve(a, b)


@compiler
@c_programs.here
@pytest.mark.skipif(not OPENBLAS, reason="NumPy has no OpenBLAS of its own")
def test_integers_of_32_bits(tmp_path: Path) -> None:
    """Pivots, sizes of workspaces and ranks are read as they are written."""
    source = tmp_path / "short.c"
    text = "#include <stdint.h>\nstatic int64_t room[1 << 16];\n"
    source.write_text(text + "".join(map(forwarded, OUTPUTS)))
    made = [GCC, "-c", str(source), "-o", str(tmp_path / "short.o")]
    subprocess.run(made, check=True, capture_output=True)
    library = OPENBLAS[0]
    rng = np.random.default_rng(3)
    for n in (1, 2, 7):
        a, b = rng.standard_normal((n, n)), rng.standard_normal((n, 2))
        specs = mlc.TensorSpec(n, n, dtype="f64"), mlc.TensorSpec(n, 2, dtype="f64")
        levels = mlc.compile(target="avx2")(found).lower(*specs).levels
        flags = [str(tmp_path / "short.o"), str(library), f"-Wl,-rpath,{library.parent}"]
        flags.append("-Wl,--allow-shlib-undefined")
        ours = called(CProgram(levels, lapack="_"), [a, b], tmp_path, flags=flags)
        for x, y in zip(ours, found(a, b), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-14)
