"""Every file in tests/lit is a test of its own here, so that pytest alone runs everything."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

LIT = Path(__file__).parent / "lit"
FILES = sorted(
    path.relative_to(LIT).as_posix()
    for suffix in ("*.mlir", "*.py")
    for path in LIT.rglob(suffix)
    if path.name != "lit.cfg.py" and "Inputs" not in path.parts
)
Lit = Callable[[str], tuple[int, str]]


@pytest.fixture(scope="session")
def run_lit() -> Iterator[Lit]:
    """lit's exit status for a file, and what it prints: tests/forking_lit.py."""
    command = [sys.executable, "-m", "tests.forking_lit"]
    with subprocess.Popen(
        command, cwd=LIT.parent.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def run(file: str) -> tuple[int, str]:
            print(file, file=stdin, flush=True)
            answer = stdout.readline()
            assert answer, "tests.forking_lit has ended"
            status, said = json.loads(answer)
            return status, said

        yield run


@pytest.mark.parametrize("file", FILES)
def test_lit(file: str, run_lit: Lit) -> None:
    status, said = run_lit(file)
    if "UNSUPPORTED:" in said:
        pytest.skip(f"{file}: {_requirements(LIT / file)}")
    assert status == 0, said


@pytest.mark.parametrize(
    ("command", "passes"),
    [
        ("mlc opt %s | filecheck %s", True),
        ("mlc opt %s | filecheck %s --check-prefix=ABSENT", False),
        ("mlc opt %s -p no-such-pass", False),
        ("mlc opt %s -p no-such-pass | filecheck %s", False),
        ("not mlc opt %s -p no-such-pass", True),
        ("not mlc opt %s", False),
        ("env MLC_THREADS=many mlc show %s", False),
        ("%python -m no_such_module", False),
    ],
)
def test_commands_fail_as_processes_do(
    command: str, passes: bool, tmp_path: Path, run_lit: Lit
) -> None:
    configure = f"lit_config.load_config(config, {str(LIT / 'lit.cfg.py')!r})"
    root = "config.test_source_root = config.test_exec_root = "
    (tmp_path / "lit.cfg.py").write_text(f"{configure}\n{root}{str(tmp_path)!r}\n")
    file = tmp_path / "file.mlir"
    file.write_text(f"// RUN: {command}\n// CHECK: @f\n// ABSENT: @g\nfunc.func private @f()\n")
    status, said = run_lit(str(file))
    assert (status == 0) == passes, said


def _requirements(file: Path) -> str:
    """What the file's REQUIRES and UNSUPPORTED lines say."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return "; ".join(
        line.strip("/# ") for line in lines if "REQUIRES:" in line or "UNSUPPORTED:" in line
    )
