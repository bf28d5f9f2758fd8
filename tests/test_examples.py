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
TRAINED = re.compile(
    r"mlp_accuracy=(\d\.\d{4}) mlp_steps_per_s=\d+ cnn_accuracy=(\d\.\d{4})"
    r" cnn_steps_per_s=\d+ seconds=\d+\.\d compilations=(\d+)"
)

FURTHER = re.compile(r"before=(\d\.\d{4}) after=(\d\.\d{4}) compilations=1")


def run_example(name: str, *arguments: str) -> str:
    """What `mlc run examples/NAME` prints."""
    command = [sys.executable, "-m", "mlc", "run", f"examples/{name}", *arguments]
    # two processes test at once: NumPy's BLAS threads would wait for each other
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_digits(*arguments: str) -> tuple[str, float, float]:
    """What the example prints, its accuracy and its agreement."""
    output = run_example("digits.py", *arguments)
    found = LAST_LINE.fullmatch(output.splitlines()[-1])
    assert found is not None, output
    return output, float(found[1]), float(found[2])


def test_digits() -> None:
    output, accuracy, agreement = run_digits()
    assert accuracy >= 0.96
    assert agreement == 1.0
    assert "3594 predictions compared" in output  # each of the 1,797 digits once for each model


def test_train_digits() -> None:
    output = run_example("train_digits.py", "--folds", "1", "--epochs", "8")
    found = TRAINED.fullmatch(output.splitlines()[-1])
    assert found is not None, output
    assert float(found[1]) >= 0.85
    assert float(found[2]) >= 0.95
    assert found[3] == "2"  # one for each network


def test_a_model_of_pytorchs() -> None:
    pytest.importorskip("onnx")
    output = run_example("pytorch_model.py")
    found = FURTHER.fullmatch(output.splitlines()[-1])
    assert found is not None, output
    assert 0.8 < float(found[1]) < float(found[2])


def test_a_function_of_jaxs() -> None:
    pytest.importorskip("jax")
    said = [line.split(":")[0] for line in run_example("jax_function.py").splitlines()]
    assert said == ["value", "gradient", "gradients"]


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
