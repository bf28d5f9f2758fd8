"""Gradients of attention on GPUs: a few programs of blocks, none of which stores a matrix."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.dialects.target.known import H200
from mlc.levels import Levels
from mlc.runtime.interpret import interpret
from mlc.runtime.ptx import emit_ptx
from tests.assembler import checked, needs_ptxas
from tests.plans import planned
from tests.stream_programs import (
    GRADIENTS,
    PARTS,
    Attention,
    attention,
    biased,
    causal,
    check_gradient,
    cotangent,
    full,
    grouped,
    grouped_causal,
    masked,
    same,
    with_gradient,
)
from tests.sweeps import covering


def levels(program: Attention, target: str = "cuda:h200") -> Levels:
    dtypes = [*program.dtypes(), program.dtype]
    shapes = [*program.shapes, cotangent(program).shape]
    specs = [mlc.TensorSpec(*x, dtype=dtype) for x, dtype in zip(shapes, dtypes, strict=True)]
    return planned(with_gradient(program.f, program.factors), *specs, target=target)


def templates(of: Levels) -> list[str]:
    return re.findall(r'mlc.kernel "(\w+)"', of.text("plan"))


def captured(text: str) -> list[int]:
    """Sizes of masks that the trace has taken along."""
    (entry,) = re.findall(r"func\.func @\w+\((.*?)\) ->", text)
    return [int(n) for n in re.findall(r"%array: tensor<(\d+)x\d+xi1>", entry)]


@pytest.mark.parametrize("program", [*GRADIENTS, *PARTS], ids=str)
def test_the_interpreter_agrees(program: Attention) -> None:
    found = levels(program)
    assert templates(found).count("stream") == (
        4 if len(program.shapes) > 1 and program.shapes[0][-1] == 256 else 3
    )
    assert "copy" not in templates(found)
    module = found.at("tiles")
    module.verify()
    masks = [np.tril(np.ones((n, n), bool)) for n in captured(str(module))]
    arrays = [*program.arrays(), cotangent(program), *masks]
    check_gradient(program, interpret(module, arrays, workers=3, seed=1))


@pytest.mark.parametrize("seed", range(4))
def test_roles_may_run_in_any_order(seed: int) -> None:
    program = same(causal, 2, 320, 64)
    module = levels(program).at("tiles")
    masks = [np.tril(np.ones((n, n), bool)) for n in captured(str(module))]
    arrays = [*program.arrays(), cotangent(program), *masks]
    check_gradient(program, interpret(module, arrays, workers=2, seed=seed))


def test_four_kernels_and_nothing_of_rows_and_columns() -> None:
    """Result and sums of rows; products of result and cotangent; one gradient, and the others."""
    found = levels(same(causal, 2, 4, 1024, 64))
    assert templates(found) == ["stream", "contraction", "stream", "stream"]
    (arena,) = re.findall(r"mlc.arena = {(.*?)}", found.text("plan"))
    assert sum(map(int, re.findall(r"dims<(\d+)>", arena))) <= 2 * 4 * 1024 * 4 * 2


def test_no_trips_are_made_behind_the_diagonal() -> None:
    """A tile of the diagonal has masks; other columns end with rows, or begin behind them."""
    text = levels(same(causal, 2, 4, 1024, 64)).text("tiles")
    rows, columns = text.split("mlc_tile.kernel @stream")[2:]
    assert "in %c step 64" in rows
    assert "in 896 - %e step 64" in columns
    for program in (rows, columns):
        consumer = program[program.index("consumer") :]
        diagonal, rest = consumer.split("mlc_tile.for")[1:]
        assert "mlc.compare" in diagonal
        assert "mlc.compare" not in rest


def test_a_row_without_columns_is_no_number() -> None:
    program = Attention(masked, (*((1, 64, 64),) * 3, (64, 64)))
    found = levels(program)
    results = interpret(found.at("tiles"), [*program.arrays(), cotangent(program)], workers=1)
    assert np.isnan(results[0].astype(np.float32)[:, 5]).all()


@pytest.mark.parametrize(
    "program",
    [
        same(full, 2, 256, 64, dtype="f32"),
        same(full, 2, 256, 96),
    ],
    ids=str,
)
def test_other_gradients_are_kernels_of_their_own(program: Attention) -> None:
    assert templates(levels(program)).count("stream") == 0


@needs_ptxas
@pytest.mark.parametrize("depth", [64, 128])
@pytest.mark.parametrize("f", [full, causal])
def test_the_assembler_keeps_tiles_in_registers(f: Any, depth: int, tmp_path: Path) -> None:
    units = levels(same(f, 2, 4, 1024, depth)).units()
    assert len(units) == 4
    for unit in units:
        checked(emit_ptx(unit.text, H200), H200.sm, tmp_path)


@needs_ptxas
@pytest.mark.parametrize(
    ("f", "depth", "rows", "dtype", "sm"),
    covering(
        [full, causal, grouped, grouped_causal, biased, masked],
        [64, 128, 256],
        [1024, 1000],
        ["bf16", "f16"],
        ["sm_90a", "sm_80"],
        strength=1,
    ),
)
def test_the_assembler_keeps_tiles_of_all_gradients_in_registers(
    f: Any,
    depth: int,
    rows: int,
    dtype: str,
    sm: str,
    tmp_path: Path,
) -> None:
    checked(levels(attention(f, rows, depth, dtype), f"cuda:{sm}").asm(), sm, tmp_path)
