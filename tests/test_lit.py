"""Every file in tests/lit is a test of its own here, so that pytest alone runs everything."""

import subprocess
import sys
from pathlib import Path

import pytest

RUN_LIT = [
    *(sys.executable, "-c", "from lit.main import main; main()"),
    *("-v", "-j1", "--skip-test-time-recording"),
]
LIT = Path(__file__).parent / "lit"
FILES = sorted(
    path.relative_to(LIT).as_posix()
    for suffix in ("*.mlir", "*.py")
    for path in LIT.rglob(suffix)
    if path.name != "lit.cfg.py" and "Inputs" not in path.parts
)


@pytest.mark.parametrize("file", FILES)
def test_lit(file: str) -> None:
    command = [*RUN_LIT, str(LIT / file)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if "UNSUPPORTED:" in result.stdout:
        pytest.skip(f"{file}: {_requirements(LIT / file)}")
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"


def _requirements(file: Path) -> str:
    """What the file's REQUIRES and UNSUPPORTED lines say."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return "; ".join(
        line.strip("/# ") for line in lines if "REQUIRES:" in line or "UNSUPPORTED:" in line
    )
