"""Programs for CUDA without Python: files that compile, and what they ask a driver for."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.driver import main
from mlc.launches import started
from tests.c_programs import GXX, WARNED, compiler
from tests.cuda_programs import HEADERS, Loaded, cuda_program, halved, picked, product, scaled

DRIVER = HEADERS / "driver.c"


def spec(*shape: Any, dtype: str = "f32") -> mlc.TensorSpec:
    return mlc.TensorSpec(*shape, dtype=dtype)


PROGRAMS: dict[str, tuple[Any, tuple[mlc.TensorSpec, ...], dict[str, int]]] = {
    "scaled": (scaled, (spec("B", 32), spec(32, 64), spec(64)), {"B": 100}),
    "product": (product, (spec(512, 256, dtype="bf16"), spec(256, 1024, dtype="bf16")), {}),
    "picked": (picked, (spec("N"), spec(dtype="i64")), {"N": 7}),
}
RUN = """
import ctypes, sys
from pathlib import Path
import numpy as np
from tests.cuda_programs import Loaded
from tests.test_cuda_files import DRIVER, PROGRAMS, cuda_program
f, specs, sizes = PROGRAMS[sys.argv[1]]
found = Loaded(cuda_program(f, *specs), Path(sys.argv[2]), DRIVER)
memory = np.zeros(1 << 22, np.uint8)
at = memory.ctypes.data
refused = int(sys.argv[3])
found.library.refuse_after(refused)
said = found.load(at)
if said == 0:
    said = found.start([at] * 4, list(sizes.values()), [at] * 4)
    found.context.arena, found.context.arena_bytes = at, 1 << 20
    if said == 2:
        assert 0 < found.context.error_value < 1 << 20
        said = found.start([at] * 4, list(sizes.values()), [at] * 4)
print("status", said, found.context.result, flush=True)
assert found.unload() == 0
"""


def asked(name: str, folder: Path, refused: int = 0) -> list[str]:
    """What a call of a program asks the driver for, which refuses its n-th call."""
    command = [sys.executable, "-c", RUN, name, str(folder), str(refused)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@compiler
@pytest.mark.parametrize("name", PROGRAMS)
def test_calls_start_what_plans_say(name: str, tmp_path: Path) -> None:
    f, specs, sizes = PROGRAMS[name]
    found = cuda_program(f, *specs)
    lines = asked(name, tmp_path)
    assert [x for x in lines if x.startswith("launch")] == [
        " ".join(map(str, ("launch", x.function, *x.grid, *x.block, x.shared_bytes)))
        for x in started(found.plan, tuple(sizes.values()))
    ]
    assert "status 0 0" in lines
    assert sum(x.startswith("unload") for x in lines) == len(found.kernels)
    maps = [x for x in lines if x.startswith("map")]
    assert len(maps) == (3 if name == "product" else 0)
    if maps:
        assert maps[0].endswith("64 of 256 by 1 64 of 512 by 1 512")


@compiler
def test_a_driver_that_refuses_something_is_a_status(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        lines = asked("scaled", tmp_path, number)
        assert "status 6 1" in lines
        unloaded = [x for x in lines if x.startswith("unload")]
        assert 0 < len(unloaded) == len(set(unloaded))


@compiler
def test_headers_compile_as_c_plus_plus(tmp_path: Path) -> None:
    """Beside one for a CPU, which shares what they say."""
    from tests.c_programs import program

    (tmp_path / "scaled.h").write_text(cuda_program(scaled, *PROGRAMS["scaled"][1]).header())
    (tmp_path / "picked.h").write_text(
        program(picked, *PROGRAMS["picked"][1], target="avx2").header()
    )
    (tmp_path / "both.cc").write_text('#include "scaled.h"\n#include "picked.h"\n')
    flags = ["-std=c++20", *WARNED, "-fsyntax-only", f"-I{HEADERS}", f"-I{tmp_path}"]
    subprocess.run([GXX, *flags, str(tmp_path / "both.cc")], check=True)


@compiler
def test_the_host_reads_what_it_decides_by(tmp_path: Path) -> None:
    """A loop whose test is memory of the device: with zeros there it ends at once."""
    found = Loaded(cuda_program(halved, spec(64)), tmp_path, DRIVER)
    memory = np.zeros(1 << 20, np.uint8)
    at = memory.ctypes.data
    found.context.arena, found.context.arena_bytes = at, 1 << 19
    assert found.load(at + (1 << 19)) == 0
    assert found.start([at], [], [at, at]) == 0
    error = ctypes.c_int64.from_address(at + (1 << 19) + 40)
    error.value = 1  # as a kernel would
    assert (found.wait(), found.context.error_site) == (1, 1)
    assert (found.wait(), error.value) == (0, 0)


def test_what_it_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header = cuda_program(scaled, *PROGRAMS["scaled"][1]).header()
    assert "x: float [B][32], read" in header
    assert "int64_t B, CUdeviceptr x, CUdeviceptr w, CUdeviceptr b, CUdeviceptr out)" in header
    assert '{"index", "cuda_programs.py:' in cuda_program(picked, *PROGRAMS["picked"][1]).header()
    source = tmp_path / "f.py"
    source.write_text("import mlc\n\n\n@mlc.compile\ndef f(x):\n    return x + 1\n")
    command = ["build", str(source), "--spec", "f32[8]", "-o", str(tmp_path / "f")]
    assert main([*command, "--target", "h200", "--emit", "c,header"]) == 0
    assert '#include "f.h"' in (tmp_path / "f.c").read_text()
    assert main([*command, "--target", "avx2", "--emit", "c"]) == 1
    assert "--emit c needs a GPU" in capsys.readouterr().err
    assert main([*command, "--target", "h200", "--emit", "so"]) == 1
    assert main([*command, "--target", "h200", "--emit", "c", "--threads", "pthread"]) == 2
    solved = tmp_path / "s.py"
    solved.write_text(
        "import mlc\n\n\n@mlc.compile\ndef s(x):\n    return mlc.numpy.linalg.solve(x, x)\n"
    )
    again = ["build", str(solved), "--spec", "f64[8,8]", "--target", "h200", "--emit", "c"]
    assert main([*again, "-o", str(tmp_path / "s.c")]) == 1
    assert "asks Python while it runs" in capsys.readouterr().err
