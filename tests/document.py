"""
Runs a Markdown document: `python -m tests.document FILE [LANGUAGE]`.

The Python blocks of a document run in order, in one namespace; its shell blocks run in a folder of
their own, with `mlc` being this checkout's. LANGUAGE, python or sh, runs only those. A block fenced
as text, mlir, llvm or asm right after one that ran is what it printed: every line of it must be in
the output, in that order. `…` stands for what is left out, in a line or as lines.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

OUTPUT = ("text", "mlir", "llvm", "asm")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    language: str
    text: str
    line: int  # of its first line of text


class WrongOutputError(AssertionError):
    """A block prints something else than the document says."""


def blocks(document: str) -> list[Block]:
    """The fenced blocks in order."""
    return [
        Block(found[1], found[2], document.count("\n", 0, found.start()) + 2)
        for found in FENCE.finditer(document)
    ]


def missing_line(expected: str, found: str) -> str | None:
    """The first line of `expected` that `found` lacks after the ones before it."""
    lines = iter([" ".join(line.split()) for line in found.splitlines()])
    for line in expected.splitlines():
        wanted = " ".join(line.split())
        if wanted in ("", "…"):
            continue
        pattern = re.compile(".*".join(re.escape(part) for part in wanted.split("…")))
        if not any(pattern.fullmatch(candidate) for candidate in lines):
            return line
    return None


class Runner:
    """Runs the blocks of one document."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path = path
        self.folder = folder
        module = sys.modules["document"] = ModuleType("document")  # dataclasses look for theirs
        self.names: dict[str, object] = module.__dict__

    def python(self, block: Block) -> str:
        """Runs a block; what it printed."""
        name = f"<{self.path.name} line {block.line}>"
        linecache.cache[name] = (len(block.text), None, block.text.splitlines(True), name)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block.text, name, "exec"), self.names)
        return printed.getvalue()

    def shell(self, block: Block) -> str:
        """Runs a block with `set -e`; what it printed to either stream."""
        program = f'mlc() {{ "{sys.executable}" -m mlc "$@"; }}\nset -e\n{block.text}'
        done = subprocess.run(
            ["bash", "-c", program],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            raise WrongOutputError(f"status {done.returncode}\n{done.stdout}")
        return done.stdout

    def run(self, language: str | None = None) -> int:
        """Runs all blocks, or those of one language; the number of those that ran."""
        found = blocks(self.path.read_text(encoding="utf-8"))
        ran = 0
        for block, following in zip(found, [*found[1:], Block("", "", 0)], strict=True):
            runs = {"python": self.python, "sh": self.shell}.get(block.language)
            if runs is None or language not in (None, block.language):
                continue
            try:
                printed = runs(block)
            except Exception as error:
                raise WrongOutputError(f"{self.path}:{block.line}: {error}") from error
            ran += 1
            expected = following.text if following.language in OUTPUT else ""
            if (line := missing_line(expected, printed)) is not None:
                where = f"{self.path}:{following.line}"
                raise WrongOutputError(f"{where}: not printed:\n  {line}\nfound:\n{printed}")
        return ran


def main() -> None:
    """Run the document that the command line names."""
    path = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        here = Path.cwd()
        os.chdir(folder)
        try:
            ran = Runner(path, Path(folder)).run(sys.argv[2] if len(sys.argv) > 2 else None)
            print(f"{path.name}: {ran} blocks ran")
        finally:
            os.chdir(here)


if __name__ == "__main__":
    main()
