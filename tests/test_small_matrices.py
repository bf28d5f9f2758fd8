"""Products by instructions whose sums are matrices of 2 x 2 (`smmla`, `bfmmla`), from functions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mlc
from mlc.dialects.errors import MlcError
from mlc.dialects.target.intrinsics import rows_of
from mlc.runtime.interpret import interpret
from mlc.runtime.probe import host_target
from tests.plans import planned, spec
from tests.test_product_rows import CASES, levels_of

Array = np.ndarray[Any, Any]


def sums(a: Any, b: Any) -> Any:
    return a.astype(np.int32) @ b.astype(np.int32)


def turned(a: Any, b: Any) -> Any:
    return sums(a.T, b)


def both_turned(a: Any, b: Any) -> Any:
    return sums(a.T, b.T)


def rhs_turned(a: Any, b: Any) -> Any:
    return sums(a, b.T)


def scaled(a: Any, b: Any) -> Any:
    """In NumPy's dtypes: i32 times a number of Python is f64."""
    return sums(a, b) * 0.25 + 1


def complex_(a: Any, b: Any) -> Any:
    return sums(a, b) * 0.25j


def product(a: Any, b: Any) -> Any:
    return a @ b


def product_turned(a: Any, b: Any) -> Any:
    return a.T @ b.T


def wide_product(a: Any, b: Any) -> Any:
    """What the sums are, not rounded to bf16."""
    return a.astype(np.float32) @ b.astype(np.float32)


def words(row: str, group: int) -> str:
    dtype = ", i8" if row == "mmla_s8" else ""
    return (
        f"pack(b, panels 8, group {group}{dtype}, team), block(m, 24, team),"
        f" pack(a, panels 12, group {group}{dtype}), register(m 12, n 8), via({row}),"
        " edge(k, pack), grain(2048)"
    )


@dataclass(frozen=True)
class Case:
    """A product of factors of these shapes, cut by words or as the compiler chooses."""

    function: Callable[..., Any]
    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    dtype: str = "i8"
    words: str | None = None

    @property
    def row(self) -> str:
        return "mmla_s8" if self.dtype == "i8" else "mmla_bf16"

    def levels(self, target: str = "mmla") -> Any:
        specs = (spec(*shape, dtype=self.dtype) for shape in (self.lhs, self.rhs))
        return planned(self.function, *specs, target=target, schedule=self.words)

    def arrays(self) -> list[Array]:
        rng = np.random.default_rng(11)
        if self.dtype == "i8":
            found = [rng.integers(-128, 128, s).astype(np.int8) for s in (self.lhs, self.rhs)]
            for x in found:
                x[..., 0] = -128
            return found
        return [rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in (self.lhs, self.rhs)]


CASES_OF_FUNCTIONS = {
    "even": Case(sums, (96, 128), (128, 64), words=words("mmla_s8", 8)),
    "odd": Case(sums, (37, 135), (135, 51), words=words("mmla_s8", 8)),
    "depth below a group": Case(sums, (33, 5), (5, 40), words=words("mmla_s8", 8)),
    "one row and one column past a tile": Case(sums, (25, 64), (64, 17), words=words("mmla_s8", 8)),
    "lhs turned": Case(turned, (135, 37), (135, 51), words=words("mmla_s8", 8)),
    "rhs turned": Case(rhs_turned, (37, 135), (51, 135)),
    "both turned": Case(both_turned, (135, 37), (51, 135)),
    "batched": Case(sums, (3, 29, 70), (3, 70, 22), words=f"block(g, 1), {words('mmla_s8', 8)}"),
    "deep": Case(sums, (50, 2101), (2101, 40)),
    "bf16": Case(product, (48, 64), (64, 32), "bf16"),
    "bf16 odd": Case(product, (37, 135), (135, 51), "bf16"),
    "bf16 depth below a group": Case(product, (33, 3), (3, 40), "bf16", words("mmla_bf16", 4)),
    "bf16 turned": Case(product_turned, (135, 37), (51, 135), "bf16"),
    "bf16 batched": Case(product, (3, 29, 70), (3, 70, 22), "bf16"),
    "bf16 sums": Case(wide_product, (37, 135), (135, 51), "bf16"),
    "to f64": Case(scaled, (37, 135), (135, 51), words=words("mmla_s8", 8)),
    "to c128": Case(complex_, (37, 135), (135, 51), words=words("mmla_s8", 8)),
}


def check(case: Case, found: Array, arrays: list[Array]) -> None:
    """Integers to the bit; of floats one rounding of the result, and the sums' own error."""
    if case.dtype == "i8":
        np.testing.assert_array_equal(found, case.function(*arrays))
        return
    exact = case.function(*(x.astype(np.float64) for x in arrays))
    rounding = 2.0**-8 if found.dtype.itemsize == 2 else 2.0**-20
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=rounding, atol=1e-4)


@pytest.mark.parametrize("name", CASES_OF_FUNCTIONS)
def test_programs_mean_the_product(name: str) -> None:
    """Edges of all axes, and every layout: the interpreter runs the instruction's meaning."""
    case = CASES_OF_FUNCTIONS[name]
    tiles, arrays = case.levels().at("tiles"), case.arrays()
    assert f"via {case.row}" in str(tiles)
    (found,) = interpret(tiles, arrays, workers=2)
    check(case, np.asarray(found), arrays)


@pytest.mark.parametrize("name", CASES_OF_FUNCTIONS)
def test_code_computes_what_programs_mean(name: str) -> None:
    """The same bits as the interpreter's, of floats as well, with one thread and with two."""
    case, host = CASES_OF_FUNCTIONS[name], host_target()
    if not any(row.name == case.row for row in rows_of(host)):
        pytest.skip(f"{host.name} has no {case.row}")
    arrays = case.arrays()
    levels = case.levels("host")
    assert f"via {case.row}" in levels.text("tiles")
    (meant,) = interpret(levels.at("tiles"), arrays, workers=2)
    for threads in (1, 2):
        run: Any = mlc.compile(threads=threads, schedule=case.words)(case.function)
        np.testing.assert_array_equal(run(*arrays), np.asarray(meant))


@pytest.mark.parametrize(
    ("case", "instruction"),
    [
        (Case(sums, (512, 512), (512, 512)), "smmla"),
        (Case(product, (512, 512), (512, 512), "bf16"), "bfmmla"),
    ],
    ids=["smmla", "bfmmla"],
)
def test_the_loop_keeps_its_sums_in_registers(case: Case, instruction: str) -> None:
    """6 x 4 matrices of sums, and the loads of their 10 operands, two by two."""
    lines = case.levels().asm().split("\n")
    at = [k for k, line in enumerate(lines) if f"\t{instruction}\t" in line]
    assert len(at) == 24
    start = max(k for k in range(at[0]) if lines[k].startswith(".LBB"))
    end = next(k for k in range(at[-1], len(lines)) if re.match(r"\tb\.?\w*\t", lines[k]))
    loop = [line for line in lines[start + 1 : end + 1] if not line.lstrip().startswith("//")]
    assert not [line for line in loop if "sp" in line or "\tmov\t" in line]
    assert sum(line.startswith("\tldp\tq") for line in loop) == 5
    assert len(loop) <= 24 + 5 + 5  # and what counts, moves on, compares and branches


REFUSED = {
    "pack(b, panels 8, group 8, i8), register(m 2, n 4), via(mmla_s8)":
        "expected the lhs in panels: pack(a, panels N, group 8)",
    "pack(b, panels 8, group 8, i8), pack(a, panels 3, group 8, i8), register(m 2, n 4),"
    " via(mmla_s8)": "expected the lhs in panels: pack(a, panels N, group 8)",
    "pack(b, panels 7, group 8, i8), pack(a, panels 2, group 8, i8), register(m 2, n 4),"
    " via(mmla_s8)": "expected the rhs in panels: pack(b, panels N, group 8)",
    "pack(b, panels 8, group 8, i8), pack(a, panels 2, group 8, i8), register(m 3, n 4),"
    " via(mmla_s8)": "a tile of 3x4 by mmla_s8, which makes 2x2 at a time",
}  # fmt: skip


@pytest.mark.parametrize("said", REFUSED)
def test_words_for_panels_that_no_load_takes_say_why(said: str, tmp_path: Path) -> None:
    """Two rows or two columns must lie side by side, in one panel."""
    case = replace(CASES["i8 by smmla"], words=said)
    with pytest.raises(MlcError, match=re.escape(REFUSED[said])):
        levels_of(case.text("mmla"), tmp_path, "mmla").at("loops")
