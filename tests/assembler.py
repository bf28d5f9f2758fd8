"""What `ptxas` says of code for GPUs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

needs_ptxas = pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not installed")


def said(ptx: str, sm: str, folder: Path) -> str:
    """What the assembler says; AssertionError where it refuses."""
    path = folder / "kernels.ptx"
    path.write_text(ptx)
    command = ["ptxas", "-v", "-arch", sm, str(path), "-o", str(folder / "kernels.cubin")]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    text = found.stdout + found.stderr
    assert found.returncode == 0, text[:2000]
    return text
