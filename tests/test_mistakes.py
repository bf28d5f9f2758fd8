"""
What users read after a mistake, word for word: tests/golden/mistakes.txt. Mistakes in functions are
made in one process, those with the cache in one each, and those with the `mlc` command in this one.

`pytest tests/test_mistakes.py --update-golden` writes the file anew.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from mlc.driver import main

ROOT = Path(__file__).parent.parent
GOLDEN = ROOT / "tests" / "golden" / "mistakes.txt"
MISTAKES = ROOT / "tests" / "mistakes"
LIMIT_S = 120.0

ADD = """func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = mlc.add %x, %x : tensor<3xf32>
  func.return %y : tensor<3xf32>
}
"""
FILES = {
    "add.mlir": ADD,
    "words.mlir": "these are words\n",
    "shapes.mlir": ADD.replace("%x, %x : tensor<3xf32>", "%x, %x : tensor<4xf32>"),
    "result.mlir": ADD.replace(
        "mlc.add %x, %x : tensor<3xf32>",
        'mlc.transpose "a->b" %x : tensor<3xf32> -> tensor<3xf32>',
    ),
    "order.mlir": ADD.replace("mlc.add %x, %x", "mlc.add %z, %x").replace(
        "  func.return", "  %z = mlc.neg %x : tensor<3xf32>\n  func.return"
    ),
    "letters.mlir": ADD.replace(
        "mlc.add %x, %x : tensor<3xf32>",
        'mlc.contract "a,b->c" %x, %x : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>',
    ),
    "dims.mlir": ADD.replace("%x: tensor<3xf32>", '%x: tensor<?xf32, #mlc.dims<"B", 3>>'),
    "schedule.mlir": "func.func @f() attributes {s = #mlc.schedule<width = 3>} {\n"
    "  func.return\n}\n",
    "model.py": "import mlc\n\n@mlc.compile\ndef f(x):\n    return x + int('three')\n",
    "syntax.py": "def f(x:\n    return x\n",
}
COMMANDS: dict[str, tuple[str, ...]] = {
    "no_command": (),
    "unknown_command": ("compile", "add.mlir"),
    "missing_file": ("opt", "nowhere.mlir"),
    "a_folder_for_a_file": ("opt", "."),
    "bytes_that_are_no_text": ("opt", "bytes.mlir"),
    "no_mlir": ("opt", "words.mlir"),
    "unknown_pass": ("opt", "add.mlir", "-p", "canonicalise"),
    "unknown_option_of_a_pass": ("opt", "add.mlir", "-p", 'form-kernels{fusing="none"}'),
    "wrong_option_of_a_pass": ("opt", "add.mlir", "-p", 'form-kernels{fusion="every"}'),
    "unknown_target": ("opt", "add.mlir", "--target", "z80"),
    "types_that_differ": ("opt", "shapes.mlir"),
    "letters_that_differ": ("opt", "result.mlir"),
    "used_before_defined": ("opt", "order.mlir"),
    "result_letter_from_nowhere": ("opt", "letters.mlir"),
    "dims_that_do_not_fit": ("opt", "dims.mlir"),
    "unknown_field_of_a_schedule": ("opt", "schedule.mlir"),
    "no_such_level": ("show", "add.mlir", "--at", "machine"),
    "error_of_a_function": ("show", "model.py:f", "--spec", "f32[3]"),
    "no_such_function": ("show", "model.py:g", "--spec", "f32[3]"),
    "spec_that_is_none": ("show", "model.py:f", "--spec", "f32(3)"),
    "python_with_a_mistake": ("run", "syntax.py:f", "--random"),
    "too_few_inputs": ("run", "add.mlir"),
    "missing_input_file": ("run", "add.mlir", "x.npy"),
    "wrong_input_shape": ("run", "add.mlir", "x4.npy"),
    "damaged_input_file": ("run", "add.mlir", "bytes.mlir"),
    "nowhere_to_write": ("build", "add.mlir", "--emit", "obj", "-o", "no/such/folder/f.o"),
}


@dataclass(frozen=True)
class Outcome:
    """How a process ended."""

    status: int
    output: str
    errors: str


def process(arguments: Sequence[str], folder: Path, **environment: str) -> Outcome:
    """Runs Python in `folder`, with a cache of its own unless `environment` names one."""
    known = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=folder, check=False,
        env={**known, **environment}, timeout=LIMIT_S,
    )  # fmt: skip
    return Outcome(done.returncode, done.stdout, done.stderr)


# The golden file


def sections(text: str) -> dict[str, str]:
    """Name -> message."""
    parts = re.split(r"^=== (\w+)\n", text, flags=re.MULTILINE)
    return {name: body.strip("\n") for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def normal(text: str) -> str:
    """Without what differs from place to place; carets keep theirs, with letters for digits."""
    text = text.replace(f"{ROOT}{os.sep}", "").replace("tests/mistakes/", "")
    text = re.sub(r"(mlc/runtime/\w+\.py):\d+", r"\1:N", text)
    text = re.sub(r"(?<=cell_)[0-9a-f]{8}", "N" * 8, text)  # the kernel's hash
    # Python 3.12 leaves the quotes out
    text = re.sub(r"choose from .*\)", lambda found: found[0].replace("'", ""), text)
    line = re.compile(r"(?<=s\.py:)\d+(?=   )|(?<=\(line )\d+(?=\))")
    return line.sub(lambda digits: "N" * len(digits[0]), text)


Expect = Callable[[str, str], None]


@pytest.fixture
def expect(request: pytest.FixtureRequest) -> Expect:
    """Compares a message with the golden file, or writes it there with --update-golden."""

    def compare(name: str, found: str) -> None:
        found = normal(found).strip("\n")
        known = sections(GOLDEN.read_text("utf-8")) if GOLDEN.exists() else {}
        if request.config.getoption("--update-golden"):
            known[name] = found
            text = "\n".join(f"=== {n}\n{known[n]}\n" for n in sorted(known))
            GOLDEN.write_text(text, "utf-8")
            return
        assert name in known, f"{name} is not in {GOLDEN.name}: run with --update-golden"
        assert found == known[name]

    return compare


@pytest.mark.parametrize("module", ["functions", "derivatives", "programs", "containers"])
def test_mistakes_in_functions(module: str, tmp_path: Path, expect: Expect) -> None:
    script = str(MISTAKES / f"{module}.py")
    done = process([script], tmp_path, MLC_CACHE_DIR=str(tmp_path / "cache"))
    assert done.status == 0, done.errors
    assert "Traceback" not in done.output
    found = sections(done.output)
    assert len(found) == done.output.count("=== ")
    for name, message in found.items():
        assert message != "no error", name
        expect(f"{module.removesuffix('s')}_{name}", message)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files that commands are given."""
    import numpy as np

    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "bytes.mlir").write_bytes(b"\xff\xfe\x00")
    np.save(tmp_path / "x4.npy", np.ones(4, np.float32))
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_mistakes_with_commands(
    name: str,
    folder: Path,
    expect: Expect,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    try:
        status = main(COMMANDS[name])
    except SystemExit as end:  # of argparse
        status = end.code
    output, errors = capfd.readouterr()
    assert status in (1, 2)
    assert not output
    errors = errors.replace(f"{folder}{os.sep}", "")
    expect(f"command_{name}", f"status {status}\n{errors}")


# The cache

CACHED = """import numpy as np, mlc
f = mlc.compile(lambda x: np.tanh(x) + {number})
print(float(f(np.zeros(3))[0]), f.stats().compilations, f.stats().cache_hits)
"""


def cached(folder: Path, cache: Path, number: int = 1) -> Outcome:
    """A process that compiles one function, or finds it in the cache."""
    script = folder / "cached.py"
    script.write_text(CACHED.format(number=number))
    return process([str(script)], folder, MLC_CACHE_DIR=str(cache))


def test_a_damaged_entry_of_the_cache_is_a_miss(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert cached(tmp_path, cache).output == "1.0 1 0\n"
    assert cached(tmp_path, cache).output == "1.0 0 1\n"
    entries = [path for path in cache.rglob("*") if path.is_file()]
    assert entries
    for path in entries:
        data = bytearray(path.read_bytes())
        middle = len(data) // 2
        data[middle : middle + 8] = b"\xff" * len(data[middle : middle + 8])
        path.write_bytes(data)
    done = cached(tmp_path, cache)
    assert (done.status, done.output) == (0, "1.0 1 0\n"), done.errors
    for path in entries:
        if path.exists():
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])
    done = cached(tmp_path, cache)
    assert (done.status, done.output) == (0, "1.0 1 0\n"), done.errors
    assert cached(tmp_path, cache).output == "1.0 0 1\n"  # repaired


def test_a_cache_that_is_no_folder(tmp_path: Path, expect: Expect) -> None:
    cache = tmp_path / "cache"
    cache.write_text("a file")
    done = cached(tmp_path, cache)
    assert (done.status, done.output) == (0, "1.0 1 0\n"), done.errors
    assert "Traceback" not in done.errors
    expect("cache_no_folder", done.errors.replace(str(tmp_path), "…"))


def test_a_cache_that_nobody_may_write(tmp_path: Path, expect: Expect) -> None:
    cache = Path("/proc/self/mlc")  # where even root may not write
    done = cached(tmp_path, cache)
    assert (done.status, done.output) == (0, "1.0 1 0\n"), done.errors
    assert "Traceback" not in done.errors
    expect("cache_no_permission", done.errors)


def test_the_golden_file_has_no_strays(request: pytest.FixtureRequest) -> None:
    from tests.mistakes import containers, derivatives, functions, programs

    known = {f"function_{mistake.__name__}" for mistake in functions.MISTAKES}
    known |= {f"derivative_{mistake.__name__}" for mistake in derivatives.MISTAKES}
    known |= {f"program_{mistake.__name__}" for mistake in programs.MISTAKES}
    known |= {f"container_{mistake.__name__}" for mistake in containers.MISTAKES}
    known |= {f"command_{name}" for name in COMMANDS}
    known |= {"cache_no_folder", "cache_no_permission"}
    assert set(sections(GOLDEN.read_text("utf-8"))) == known
    assert len(programs.MISTAKES) >= 60
