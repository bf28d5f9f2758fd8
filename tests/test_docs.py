"""What the documents show is what happens: their blocks run, each document in its own process."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import mlc
from mlc.dialects.errors import EXPLAINED
from mlc.registry import PASSES
from tests.document import Block, blocks, missing_line

ROOT = Path(__file__).parent.parent
EXECUTABLE = (
    "tour",
    "graph-passes",
    "how-to-add-an-op",
    "how-to-add-a-pass",
    "how-to-add-a-target",
    "how-to-add-an-intrinsic",
    "how-to-add-a-word",
    "control-flow",
    "sizes",
    "errors",
    "vmap",
    "block-kernels",
    "derivatives",
    "stages",
    "explain",
    "blame",
    "certificates",
    "superopt",
    "tiles",
    "gpu",
    "saving",
    "c",
    "stablehlo",
    "onnx",
    "rules",
    "partial-equivalence",
    "discovery",
)


def run_document(path: str, *arguments: str) -> None:
    """Execute the document; its own message where a block fails."""
    command = [sys.executable, "-m", "tests.document", path, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "blocks ran" in done.stdout


@pytest.mark.parametrize("name", EXECUTABLE)
def test_document_runs(name: str) -> None:
    run_document(f"docs/{name}.md")


def test_readme_example_runs() -> None:
    run_document("README.md", "python")


def test_every_document_is_listed() -> None:
    listed = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    names = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert names == set(re.findall(r"\]\(([\w-]+\.md)\)", listed))


def test_every_class_of_errors_has_a_section() -> None:
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^## (\w+)$", text, re.MULTILINE)) == EXPLAINED
    public = {name for name in mlc.__all__ if name.endswith(("Error", "Bug"))}
    assert public - {"MlcError"} <= EXPLAINED
    noted = mlc.ShapeError("a").__notes__
    assert noted == ["docs/errors.md#shapeerror has an example, and what to write instead"]


def test_cited_measurements_exist() -> None:
    """Every `measured: docs/measurements.md` may name a section, which must be there."""
    measurements = (ROOT / "docs" / "measurements.md").read_text(encoding="utf-8")
    sections = {title.lower() for title in re.findall(r"^## (.+)$", measurements, re.MULTILINE)}
    folders = ("dialects", "passes", "lowering", "runtime", "frontend", "mlc")
    for path in (p for folder in folders for p in (ROOT / folder).rglob("*.py")):
        for cited in re.findall(r"docs/measurements\.md, ([\w -]+)", path.read_text("utf-8")):
            assert cited.strip().lower() in sections, f"{path}: no section {cited!r}"


def test_documents_name_passes_that_exist() -> None:
    known = set(PASSES) | {"mlc-double-by-adding"}  # the one that a how-to adds
    for path in (*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "HACKING.md"):
        text = path.read_text(encoding="utf-8")
        named = set(re.findall(r"(?<![\w/])mlc-[a-z]+(?:-[a-z]+)+", text))
        assert named <= known | {"mlc-opt", "mlc-compiler", "mlc-tile-for-cache"}, path


# The runner itself


def test_blocks_have_language_text_and_line() -> None:
    assert blocks("a\n\n```python\nx = 1\n```\n") == [Block("python", "x = 1\n", 4)]


@pytest.mark.parametrize(
    ("expected", "missing"),
    [
        ("one\nthree", None),
        ("one\n…\nthree", None),
        ("three\none", "one"),
        ("o…", None),
        ("tw… two", "tw… two"),
        ("  t  wo", None),
        ("four", "four"),
    ],
)
def test_expected_lines_come_in_order(expected: str, missing: str | None) -> None:
    assert missing_line(expected, "one\nt wo\n\nthree\n") == missing
