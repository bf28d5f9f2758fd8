"""`import mlc.numpy` and `mlc.numpy` are one module, so that no class exists twice."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import mlc


def test_import_statement_gives_the_module_of_the_attribute() -> None:
    for name in ("block", "nn", "numpy", "optim", "random"):
        assert importlib.import_module(f"mlc.{name}") is getattr(mlc, name)
    assert importlib.import_module("mlc.block.language") is mlc.block.language


CALLED_ONCE = """
import sys
import numpy as np
import mlc

def both(a, b):
    loss = mlc.value_and_grad(lambda b: np.tanh(a @ b).sum())(b)
    return np.maximum(a @ b, 0).sum(axis=1), loss, mlc.vmap(np.sin)(a)


f = mlc.compile(both)
f(np.ones((5, 7), np.float32), np.ones((7, 9), np.float32))
assert f.stats().cache_hits == int(sys.argv[1])
levels = ("mlc.passes.", "mlc.lowering.", "mlc.dialects.tile.", "mlc.runtime.cuda.")
levels += ("concurrent.futures", "html", "llvmlite")  # of threads, pages, and code
print(*(name for name in sys.modules if name.startswith(levels)))
"""


def test_what_a_cache_has_takes_no_compiler(tmp_path: Path) -> None:
    """The first process compiles and differentiates; the next one traces, loads and calls."""
    (tmp_path / "once.py").write_text(CALLED_ONCE)
    environment = {**os.environ, "MLC_CACHE_DIR": str(tmp_path / "cache")}
    environment.pop("MLC_DUMP", None)
    for hits in ("0", "1"):
        command = [sys.executable, str(tmp_path / "once.py"), hits]
        said = subprocess.check_output(command, text=True, env=environment)
        assert bool(said.split()) == (hits == "0"), said
