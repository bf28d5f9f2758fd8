"""The tile programs in tests/data/tiles as code: NumPy's results, the same bits for every team."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from xdsl.ir import SSAValue

from mlc.dialects.tile.types import view_of
from mlc.executable import compile_module
from mlc.frontend.importers.mlir import read_module
from mlc.programs import options_of_module
from tests.plans import HOSTED
from tests.tile_texts import TEXTS, kernel_of, text_of

CASES = [
    ("gemm", "avx2"), ("gemm", "avx512"), ("cases", "avx2"), ("cases (small)", "avx2"),
    ("lstm", "avx512"), ("conv", "avx2"), ("conv", "avx512"),
]  # fmt: skip


def tensor(view: SSAValue) -> str:
    """The type of a tensor that a view is of."""
    shape = view_of(view).shape
    sizes = "x".join("?" if d.constant is None else str(d) for d in shape)
    names = ", ".join(str(d) if d.constant is not None else f'"{d}"' for d in shape)
    dims = f", #mlc.dims<{names}>" if "?" in sizes else ""
    return f"tensor<{sizes}x{view_of(view).element}{dims}>"


def program(text: str) -> str:
    """A text, its arguments row by row, and a function that calls its kernel."""
    text = re.sub(r", (strided|rows)>", ">", text)
    kernel = kernel_of(text)
    inputs, outputs = ([tensor(x) for x in views] for views in (kernel.inputs, kernel.outputs))
    given = [f"%x{k}" for k in range(len(inputs))]
    results = ", ".join(f"%y{k}" for k in range(len(outputs)))
    types, kinds = ", ".join(inputs), ", ".join(outputs)
    arguments = ", ".join(f"{x}: {kind}" for x, kind in zip(given, inputs, strict=True))
    buffers = ", ".join(f"#mlc.buffer<out {k}>" for k in range(len(outputs)))
    call = f"mlc_tile.call @{kernel.sym_name.data}({', '.join(given)})"
    return f"""{text}
func.func @main({arguments}) -> ({kinds}) attributes {{mlc.arena = {{}}}} {{
  {results} = {call} : ({types}) -> ({kinds}) {{buffers = [{buffers}]}}
  func.return {results} : {kinds}
}}"""


@pytest.mark.parametrize(("name", "target"), [x for x in CASES if x[1] in HOSTED])
def test_code_gives_numpys_result(name: str, target: str, tmp_path: Path) -> None:
    text = TEXTS[name]
    path = tmp_path / "program.mlir"
    path.write_text(program(text_of(name)))
    module, signature = read_module(path)
    options = options_of_module(module, {"target": target})
    arrays = text.draw(np.random.default_rng(3), dict(text.sizes))
    found: list[tuple[Any, ...]] = []
    for threads in (1, 3):
        run = compile_module(module.clone(), signature, replace(options, threads=threads))
        results = cast("Any", run)(*arrays)
        found.append((*results,) if len(text.meaning(*arrays)) > 1 else (results,))
    for alone, shared, expected in zip(*found, text.meaning(*arrays), strict=True):
        np.testing.assert_allclose(alone, expected, rtol=0, atol=text.error)
        np.testing.assert_array_equal(alone, shared)


@pytest.mark.parametrize("target", HOSTED)
@pytest.mark.parametrize(("columns", "step"), [(3, 1), (16, 1), (40, 1), (11, 2)])
def test_a_vector_is_written_to_several_rows(
    columns: int, step: int, target: str, tmp_path: Path
) -> None:
    """Quotients and remainders of a letter that lanes move along, under conditions."""
    rows = -(-32 * step // columns)
    at = f"%i + {step}*a" if step > 1 else "%i + a"
    path = tmp_path / "program.mlir"
    path.write_text(
        program(f"""mlc_tile.kernel @k(%x: !mlc_tile.view<64xf32>,
    %z: !mlc_tile.view<{rows}x{columns}xf32>) -> (%y: !mlc_tile.view<{rows}x{columns}xf32>) {{
  mlc_tile.copy %z -> %y "ab -> ab" over (a {rows}, b {columns})
  mlc_tile.for %i in 32 step 32 {{
    %t = mlc_tile.load %x[%i] : !mlc_tile.frag<32xf32>
    mlc_tile.store %t, %y[({at}) floordiv {columns}, ({at}) mod {columns}] as "a"
        where ({at}) mod {columns} ne 2 and a < 29 and %i < 32
  }}
}}""")
    )
    module, signature = read_module(path)
    x = np.arange(64, dtype=np.float32)
    z = np.full((rows, columns), -1, np.float32)
    run = compile_module(module, signature, options_of_module(module, {"target": target}))
    expected = z.copy()
    for a in range(29):
        if a * step % columns != 2:
            expected[a * step // columns, a * step % columns] = x[a]
    np.testing.assert_array_equal(cast("Any", run)(x, z), expected)
