"""The examples run, by the command that the README gives, and do what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
LAST_LINE = re.compile(r"accuracy=(\d\.\d{4}) agreement=(\d\.\d{4}) speedup=(\d+\.\d\d)")


def run_digits(*arguments: str) -> tuple[str, float, float]:
    """What `mlc run examples/digits.py` prints, its accuracy and its agreement."""
    command = [sys.executable, "-m", "mlc", "run", "examples/digits.py", *arguments]
    # two processes test at once: NumPy's BLAS threads would wait for each other
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = LAST_LINE.fullmatch(done.stdout.splitlines()[-1])
    assert found is not None, done.stdout
    return done.stdout, float(found[1]), float(found[2])


def test_digits() -> None:
    output, accuracy, agreement = run_digits()
    assert accuracy >= 0.96
    assert agreement == 1.0
    assert "3594 predictions compared" in output  # each of the 1,797 digits once for each model


@pytest.mark.gpu
def test_digits_on_a_gpu() -> None:
    _, accuracy, agreement = run_digits("--target", "cuda")
    assert accuracy >= 0.96
    assert agreement == 1.0


def test_digits_data_is_what_its_licence_covers() -> None:
    with np.load(ROOT / "examples" / "digits.npz") as data:
        images, labels = data["images"], data["labels"]
    assert images.shape == (1797, 8, 8)
    assert images.dtype == labels.dtype == np.uint8
    assert images.max() == 16
    np.testing.assert_array_equal(
        np.bincount(labels), [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    )
    readme = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert "CC BY 4.0" in readme
    assert "10.24432/C50P49" in readme
