"""What `ptxas` says of code for GPUs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

needs_ptxas = pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not installed")

PRODUCTS = ("contraction", "stream")
"""Templates whose kernels keep tiles of sums in registers."""


def checked(ptx: str, sm: str, folder: Path, *, most: int = 0) -> dict[str, int]:
    """
    The bytes that each kernel spills; of those that multiply at `most` so many. AssertionError
    where the assembler refuses code or lets products wait for each other, and where code calls or
    has memory of its own.
    """
    assert "callseq" not in ptx
    assert ".local" not in re.sub(r"//.*", "", ptx)
    text = _said(ptx, sm, folder)
    assert "warning" not in text, text[:2000]
    assert "C75" not in text, text[:2000]  # products that wait for each other
    found = re.findall(r"Function properties for (\w+)\n.* (\d+) bytes spill stores", text)
    spilled = {name: int(size) for name, size in found}
    assert len(spilled) == ptx.count(".entry "), text[:2000]
    assert all(n <= most for name, n in spilled.items() if name.startswith(PRODUCTS)), spilled
    return spilled


def _said(ptx: str, sm: str, folder: Path) -> str:
    path = folder / "kernels.ptx"
    path.write_text(ptx)
    command = ["ptxas", "-v", "-arch", sm, str(path), "-o", str(folder / "kernels.cubin")]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    text = found.stdout + found.stderr
    assert found.returncode == 0, text[:2000]
    return text
