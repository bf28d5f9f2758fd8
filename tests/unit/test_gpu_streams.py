"""Attention on GPUs: what becomes one program of blocks, and what that computes."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.ir import Block

import mlc
from mlc.dialects.plan import KernelOp
from mlc.dialects.target.known import H200
from mlc.levels import Levels
from mlc.lowering.gpu.builder import GpuBuilder
from mlc.lowering.tiles.gpu.control import from_both_ends, items_of_pairs, one_of_pair
from mlc.passes.tile.plan_to_tiles import PlanToTilesPass
from mlc.runtime.interpret import interpret
from mlc.runtime.ptx import emit_ptx
from mlc.text import parse_text
from tests.assembler import checked, needs_ptxas
from tests.plans import planned
from tests.stream_programs import (
    PARTS,
    PROGRAMS,
    Attention,
    attention,
    biased,
    causal,
    full,
    grouped,
    heads_last,
    masked,
    same,
    scores,
    softmax,
)
from tests.sweeps import covering


def levels(program: Attention, target: str = "cuda:h200") -> Levels:
    pairs = zip(program.shapes, program.dtypes(), strict=True)
    specs = [mlc.TensorSpec(*shape, dtype=dtype) for shape, dtype in pairs]
    return planned(program.f, *specs, target=target)


def is_stream(of: Levels) -> bool:
    return 'mlc.kernel "stream"' in of.text("plan")


@pytest.mark.parametrize("program", [*PROGRAMS, *PARTS], ids=str)
def test_the_interpreter_agrees(program: Attention) -> None:
    arrays = program.arrays()
    found = levels(program)
    module = found.at("tiles")
    module.verify()
    assert "mlc_tile.roles" in str(module)
    assert is_stream(found)
    captured = [np.tril(np.ones((n, n), bool)) for n in _captured(str(module))]
    (result,) = interpret(module, [*arrays, *captured], workers=3, seed=1)
    expected = program.expected(arrays)
    np.testing.assert_allclose(result.astype(np.float32), expected, rtol=0.02, atol=0.02)


def _captured(text: str) -> list[int]:
    """Sizes of masks that the trace has taken along."""
    (entry,) = re.findall(r"func\.func @\w+\((.*?)\) ->", text)
    return [int(n) for n in re.findall(r"%array: tensor<(\d+)x\d+xi1>", entry)]


def softmax_of_sums(q: Any, k: Any, v: Any) -> Any:
    return softmax(scores(q, k) + scores(k, q)) @ v


def both(q: Any, k: Any, v: Any) -> Any:
    p = softmax(scores(q, k))
    return p @ v, p


NOT_SUITED = {
    "f32": same(full, 2, 256, 64, dtype="f32"),
    "depth 80": same(full, 2, 256, 80),
    "six axes": same(full, 2, 2, 2, 2, 130, 64),
    "few columns": same(full, 2, 32, 64),
    "two scores": same(softmax_of_sums, 2, 256, 64),
    "weights are a result": same(both, 2, 256, 64),
}


@pytest.mark.parametrize("name", NOT_SUITED)
def test_other_products_are_kernels_of_their_own(name: str) -> None:
    assert not is_stream(levels(NOT_SUITED[name]))


@pytest.mark.parametrize("target", ["cuda:sm_90", "cuda:sm_80"])
def test_other_machines_have_no_such_program(target: str) -> None:
    assert not is_stream(levels(same(full, 2, 256, 64), target))


def test_no_columns_behind_the_diagonal_are_walked() -> None:
    """The producer's loop ends at the rows; the tile of the diagonal alone has a mask."""
    text = levels(same(causal, 2, 4, 1024, 64)).text("tiles")
    assert "mlc_tile.for %n in %c step 128" in text
    loop = text[text.rindex("mlc_tile.for") :]
    assert "mlc.select" in text[: text.rindex("mlc_tile.for")]
    assert 'mlc.compare "le"' not in loop


@pytest.mark.parametrize("program", PARTS, ids=str)
def test_parts_of_arrays_are_read_where_they_lie(program: Attention) -> None:
    assert re.findall(r'mlc.kernel "(\w+)"', levels(program).text("plan")) == ["stream"]


def some_columns(q: Any, kv: Any) -> Any:
    return full(q, kv[0, :, :, 7:137], kv[1, :, :, 7:137])


def every_other_head(q: Any, kv: Any) -> Any:
    return full(q, kv[0, :, ::2], kv[1, :, ::2])


def some_of_a_sum(q: Any, kv: Any) -> Any:
    k, v = kv + kv
    return full(q, k[:, 1:], v[:, 1:])


def test_parts_of_six_axes_are_copied() -> None:
    """Copies of tiles know five."""

    def heads_of(x: Any) -> Any:
        return full(*np.transpose(x.reshape(2, 2, 130, 3, 2, 64), (3, 0, 1, 4, 2, 5)))

    text = levels(Attention(heads_of, ((2, 2, 130, 384),))).text("plan")
    assert re.findall(r'mlc.kernel "(\w+)"', text) == ["copy", "copy", "copy", "stream"]


@pytest.mark.parametrize(
    ("f", "heads"), [(some_columns, 2), (every_other_head, 4), (some_of_a_sum, 3)]
)
def test_other_parts_are_copied(f: Any, heads: int) -> None:
    """Columns would go on behind the last one; a sum is computed where it is wanted alone."""
    program = Attention(f, ((2, 2, 130, 64), (2, 2, heads, 140, 64)))
    found = levels(program)
    assert re.findall(r'mlc.kernel "(\w+)"', found.text("plan"))[-1] == "stream"
    assert "mlc.slice" not in found.text("plan").split('mlc.kernel "stream"')[1]
    arrays = program.arrays()
    (result,) = interpret(found.at("tiles"), arrays, workers=3, seed=1)
    expected = program.expected(arrays)
    np.testing.assert_allclose(result.astype(np.float32), expected, rtol=0.02, atol=0.02)


def test_heads_of_one_product_are_read_where_they_lie() -> None:
    def layer(x: Any, w: Any) -> Any:
        q, k, v = np.transpose((x @ w).reshape(2, 128, 3, 4, 64), (2, 0, 3, 1, 4))
        return np.swapaxes(causal(q, k, v), 1, 2).reshape(2, 128, 256)

    specs = [mlc.TensorSpec(*shape, dtype="bf16") for shape in ((2, 128, 256), (256, 768))]
    module = planned(layer, *specs, target="cuda:h200").at("plan")
    module.verify()
    templates = [op.template.data for op in module.walk() if isinstance(op, KernelOp)]
    assert templates == ["contraction", "stream"]


def test_blocks_take_tiles_of_both_ends_where_there_are_many() -> None:
    many, few = same(causal, 4, 20, 512, 64), same(causal, 2, 512, 64)
    assert "raster(1, paired)" in levels(many).text("plan")
    assert "raster(2)]" in levels(few).text("plan")
    assert "raster 1 paired down after(" in levels(many).text("tiles")
    assert "raster(1)]" in levels(same(full, 4, 20, 512, 64)).text("plan")


@pytest.mark.parametrize("counts", [(1, 1), (3, 4), (2, 5, 7), (40, 3)])
@pytest.mark.parametrize("blocks", [1, 2, 13, 132])
def test_pairs_are_dealt_once(counts: tuple[int, ...], blocks: int) -> None:
    b, total, last = GpuBuilder(Block()), math.prod(counts), counts[-1]
    dealt: list[tuple[int, int]] = []
    for number in range(blocks):
        visits = items_of_pairs(b, total, number, blocks)
        assert isinstance(visits, int)
        items = [one_of_pair(b, visit, number, blocks) for visit in range(visits)]
        places = [divmod(item, last) for item in items if isinstance(item, int)]
        ends = [(row, from_both_ends(b, place, last)) for row, place in places]
        mine = [(row, place) for row, place in ends if isinstance(place, int)]
        pairs = zip(mine[::2], mine[1::2], strict=False)
        assert last % 2 or all(x[0] == y[0] and x[1] + y[1] == last - 1 for x, y in pairs)
        dealt += mine
    assert sorted(dealt) == [divmod(item, last) for item in range(total)]


OVERLAPPING = [
    same(full, 1, 2, 200, 64),
    same(causal, 2, 1, 256, 64),
    same(causal, 1, 2, 140, 256),
    Attention(full, ((2, 100, 64), (2, 150, 64), (2, 150, 128))),
    same(heads_last, 2, 130, 3, 64),
]


@pytest.mark.parametrize(("program", "workers"), covering(OVERLAPPING, [1, 3, 20], strength=1))
def test_items_overlap(program: Attention, workers: int) -> None:
    """Blocks with many items, with one, and with none."""
    text = re.sub(r"(raster\([^)]*\))\]", r"\1, overlap(items)]", levels(program).text("plan"))
    module = parse_text(text, "plan")
    PlanToTilesPass().apply(Context(), module)
    module.verify()
    assert "after(" in str(module)
    arrays = program.arrays()
    (result,) = interpret(module, arrays, workers=workers, seed=1)
    expected = program.expected(arrays)
    np.testing.assert_allclose(result.astype(np.float32), expected, rtol=0.02, atol=0.02)


def test_items_of_different_lengths_overlap() -> None:
    def words(program: Attention) -> bool:
        return "overlap(items)" in levels(program).text("plan")

    assert words(same(causal, 4, 20, 512, 64))
    assert not words(same(full, 4, 20, 512, 64))
    assert not words(same(causal, 2, 512, 64))  # too few items
    assert not words(same(causal, 4, 40, 256, 64))  # too short ones


@pytest.mark.parametrize(("rows", "groups"), [(1024, 4), (1000, 4), (4096, 3)])
def test_narrow_factors_have_more_groups(rows: int, groups: int) -> None:
    assert f"consumer {groups}" in levels(same(full, 8, 20, rows, 64)).text("plan")


def test_a_plan_with_a_stream_is_read_again() -> None:
    text = levels(same(full, 2, 256, 64)).text("plan")
    assert str(parse_text(text, "plan")) == text.rstrip("\n")


@needs_ptxas
@pytest.mark.parametrize(
    ("f", "depth", "shape"),
    covering([full, causal], [64, 128, 256], [(2, 4, 1024), (4, 50, 1024), (4, 50, 1536)]),
)
def test_the_assembler_keeps_tiles_in_registers(
    f: Any, depth: int, shape: tuple[int, ...], tmp_path: Path
) -> None:
    (unit,) = levels(same(f, *shape, depth)).units()
    checked(emit_ptx(unit.text, H200), H200.sm, tmp_path)


@needs_ptxas
@pytest.mark.parametrize(
    ("f", "depth", "rows", "dtype", "sm"),
    covering(
        [full, causal, grouped, biased, masked],
        [64, 128, 256],
        [1024, 1000],
        ["bf16", "f16"],
        ["sm_90a", "sm_80"],
        strength=1,
    ),
)
def test_the_assembler_keeps_tiles_of_all_attention_in_registers(
    f: Any,
    depth: int,
    rows: int,
    dtype: str,
    sm: str,
    tmp_path: Path,
) -> None:
    found = levels(attention(f, rows, depth, dtype), f"cuda:{sm}")
    assert is_stream(found) == (sm == "sm_90a")
    checked(found.asm(), sm, tmp_path)
