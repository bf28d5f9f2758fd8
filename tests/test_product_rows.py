"""Products by instructions beside FMA, reached by words: bytes, pairs, what is widened first."""

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
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.attribute import ATTRIBUTE
from mlc.dialects.target.intrinsics import rows_of
from mlc.dialects.target.known import CPUS
from mlc.executable import compile_module
from mlc.frontend.importers.mlir import read_module
from mlc.levels import Levels
from mlc.options import Options
from mlc.programs import open_program
from mlc.runtime import objects
from mlc.runtime.interpret import interpret
from mlc.runtime.objects import CompiledObject
from mlc.runtime.probe import host_target
from tests.plans import RUNNABLE, planned, spec
from tests.software_tiles import in_software
from tests.test_tile_programs import compiled, with_words

Array = np.ndarray[Any, Any]
M, N, K = 37, 50, 135


def sums_of_integers(a: Any, b: Any) -> Any:
    return a.astype(np.int32) @ b.astype(np.int32)


def lhs_turned(a: Any, b: Any) -> Any:
    return sums_of_integers(a.T, b)


def product(a: Any, b: Any) -> Any:
    return a @ b


def relu_of_sum(a: Any, b: Any, bias: Any) -> Any:
    return np.maximum(a @ b + bias, 0)


@dataclass(frozen=True)
class Case:
    """A product of factors of these dtypes, cut by these words for one instruction."""

    dtypes: tuple[str, str]
    row: str
    instruction: str
    target: str
    words: str
    function: Callable[..., Any] = sums_of_integers
    lhs: tuple[int, int] = (M, K)
    depth: int = K

    def text(self, target: str) -> str:
        """The plan."""
        specs = [spec(*self.lhs, dtype=self.dtypes[0]), spec(self.depth, N, dtype=self.dtypes[1])]
        return with_words(planned(self.function, *specs, target=target).text("plan"), self.words)

    def arrays(self) -> list[Array]:
        """What it is called with."""
        rng = np.random.default_rng(7)
        shapes = (self.lhs, (self.depth, N))
        return [_draw(rng, s, d) for s, d in zip(shapes, self.dtypes, strict=True)]

    def runnable(self) -> str:
        """The machine to compile it for here; skips where this one has no such instruction."""
        host = host_target()
        known = {row.name: row for row in CPUS} | {"host": host}
        for name in (RUNNABLE, "host"):
            if any(row.name == self.row for row in rows_of(known[name])):
                return name
        pytest.skip(f"{host.name} has no {self.instruction}")


def _draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    named = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}
    if dtype in named:
        return rng.standard_normal(shape).astype(named[dtype])
    kind = {"i8": np.int8, "u8": np.uint8, "i16": np.int16}[dtype]
    ends = np.iinfo(kind)
    values = rng.integers(ends.min, ends.max + 1, shape).astype(kind)
    values[0] = ends.min  # the extremes meet
    return values


def words(m: int, n: int, a: str, b: str, row: str, *, blocks: bool = True) -> str:
    """A blocked product whose panels are for one instruction."""
    return (
        f"{'block(k, 64), ' if blocks else ''}pack(b, panels {n}, {b}, team), block(m, {3 * m},"
        f" team), pack(a, panels {m}, {a}), register(m {m}, n {n}), via({row}), edge(m, clamp),"
        " edge(k, pack), grain(2048)"
    )


BYTES = words(4, 16, "group 4, u8", "group 4, i8", "dot_u8s8")
PAIRS = words(4, 16, "group 2, i16", "group 2, i16", "dot_i16")
MADD = words(4, 16, "group 2, i16", "group 2, i16", "madd_i16")
SDOT = words(4, 8, "group 4, i8", "group 4, i8", "dot_s8")
SMMLA = words(8, 8, "group 8, i8", "group 8, i8", "mmla_s8")
BFMMLA = words(8, 8, "group 4", "group 4", "mmla_bf16", blocks=False)
HALVES = words(6, 6, "group 8, i8", "group 8, i8", "mmla_s8")  # vectors of half a register
BEGUN_SMMLA, BEGUN_BFMMLA, BEGUN_HALVES = (
    f"sums(scratch, init), {'' if 'block(k' in x else 'block(k, 64), '}{x}"
    for x in (SMMLA, BFMMLA, HALVES)
)
BF16 = words(4, 32, "group 2", "group 2", "dot_bf16", blocks=False)
WIDE = words(4, 16, "f32", "f32", "fma", blocks=False)
AMX_BYTES = words(32, 32, "group 4, depth 64, i8, rows", "group 4, depth 64, i8", "amx_s8")
AMX_BF16 = words(32, 32, "group 2, depth 32, rows", "group 2, depth 32", "amx_bf16", blocks=False)
BEGUN_BYTES, BEGUN_BF16 = (
    f"sums(out, init), {AMX_BYTES}",
    f"sums(scratch, init), block(k, 64), {AMX_BF16}",
)
CASES = {
    "i8 by vpdpbusd": Case(("i8", "i8"), "dot_u8s8", "vpdpbusd", "avx512", BYTES),
    "u8 by vpdpbusd": Case(("u8", "i8"), "dot_u8s8", "vpdpbusd", "avx512", BYTES),
    "i8 by vpdpwssd": Case(("i8", "i8"), "dot_i16", "vpdpwssd", "avx512", PAIRS),
    "i8 by vpmaddwd": Case(("i8", "i8"), "madd_i16", "vpmaddwd", "avx2", MADD),
    "turned i8": Case(("i8", "i8"), "madd_i16", "vpmaddwd", "avx2", MADD, lhs_turned, (K, M)),
    "i16 by vpmaddwd": Case(("i16", "i16"), "madd_i16", "vpmaddwd", "avx2", MADD),
    "i8 by sdot": Case(("i8", "i8"), "dot_s8", "sdot", "neon", SDOT),
    "i8 by smmla": Case(("i8", "i8"), "mmla_s8", "smmla", "mmla", SMMLA),
    "turned i8 by smmla": Case(("i8", "i8"), "mmla_s8", "smmla", "mmla", SMMLA, lhs_turned, (K, M)),
    "i8 by smmla in halves": Case(("i8", "i8"), "mmla_s8", "smmla", "mmla", HALVES),
    "i8 by smmla from sums": Case(("i8", "i8"), "mmla_s8", "smmla", "mmla", BEGUN_SMMLA),
    "i8 by smmla in halves from sums": Case(("i8", "i8"), "mmla_s8", "smmla", "mmla", BEGUN_HALVES),
    "bf16 by bfmmla": Case(("bf16", "bf16"), "mmla_bf16", "bfmmla", "mmla", BFMMLA, product),
    "bf16 by bfmmla from sums": Case(
        ("bf16", "bf16"), "mmla_bf16", "bfmmla", "mmla", BEGUN_BFMMLA, product
    ),
    "bf16 by vdpbf16ps": Case(("bf16", "bf16"), "dot_bf16", "vdpbf16ps", "avx512", BF16, product),
    "i8 by tdpbssd": Case(("i8", "i8"), "amx_s8", "tdpbssd", "amx", AMX_BYTES),
    "bf16 by tdpbf16ps": Case(("bf16", "bf16"), "amx_bf16", "tdpbf16ps", "amx", AMX_BF16, product),
    "i8 from sums": Case(("i8", "i8"), "amx_s8", "tdpbssd", "amx", BEGUN_BYTES),
    "bf16 from sums": Case(("bf16", "bf16"), "amx_bf16", "tdpbf16ps", "amx", BEGUN_BF16, product),
    "whole tiles": Case(
        ("bf16", "bf16"), "amx_bf16", "tdpbf16ps", "amx", BEGUN_BF16, product, (64, 160), 160
    ),
    "bf16 widened": Case(("bf16", "bf16"), "fma", "vfmadd", "avx2", WIDE, product),
    "f16 widened": Case(("f16", "f16"), "fma", "vfmadd", "avx2", WIDE, product),
}


def levels_of(text: str, folder: Path, target: str) -> Levels:
    path = folder / "plan.mlir"
    path.write_text(text)
    return open_program(str(path), None, {"target": target}).levels


def check(case: Case, found: Array, arrays: list[Array]) -> None:
    """Integers are exact; of floats the result is rounded once, and sums as f32 are."""
    if case.function is not product:
        np.testing.assert_array_equal(found, case.function(*arrays))
        return
    exact = product(*(x.astype(np.float64) for x in arrays))
    assert found.dtype == arrays[0].dtype
    rounding = {"bfloat16": 2.0**-8, "float16": 2.0**-11}[found.dtype.name]
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=rounding, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_code_gives_the_product(name: str, tmp_path: Path) -> None:
    """Edges of all axes, extremes of the dtypes; the same bits for one thread and for two."""
    case = CASES[name]
    text, arrays = case.text(case.runnable()), case.arrays()
    one, two = (compiled(text, tmp_path, threads)(*arrays) for threads in (1, 2))
    check(case, one, arrays)
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("name", CASES)
def test_the_program_means_the_product(name: str, tmp_path: Path) -> None:
    """Whatever machine it is for: the interpreter runs the instruction's meaning."""
    case = CASES[name]
    levels, arrays = levels_of(case.text(case.target), tmp_path, case.target), case.arrays()
    (found,) = interpret(levels.at("tiles"), arrays, workers=2)
    check(case, np.asarray(found), arrays)


@pytest.mark.parametrize("name", CASES)
def test_the_assembly_has_the_instruction(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    asm = levels_of(case.text(case.target), tmp_path, case.target).asm()
    assert re.search(rf"\b{case.instruction}", asm)


def test_sums_of_tile_registers_are_rounded_by_an_instruction(tmp_path: Path) -> None:
    """None is subnormal, which is all that the instruction rounds otherwise."""
    cases = (CASES["bf16 by tdpbf16ps"], CASES["bf16 by vdpbf16ps"])
    found = [levels_of(case.text("amx"), tmp_path, "amx").asm() for case in cases]
    assert ["vcvtneps2bf16" in asm for asm in found] == [True, False]


IN_PLACE = (
    "pack(b, panels 32, group 2, depth 32, team), register(m 32, n 32), via(amx_bf16), grain(2048)"
)
TILES = {
    "bytes": CASES["i8 by tdpbssd"],
    "bf16": CASES["bf16 by tdpbf16ps"],
    "bytes from sums": CASES["i8 from sums"],
    "bf16 from sums": CASES["bf16 from sums"],
    "whole tiles": CASES["whole tiles"],
    "in place": replace(CASES["bf16 by tdpbf16ps"], words=IN_PLACE, lhs=(64, 160), depth=160),
}


@pytest.mark.parametrize("name", TILES)
def test_code_for_tile_registers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is loaded, multiplied and stored: with tile instructions in software, on any machine."""
    case = TILES[name]
    arrays = case.arrays()
    check(case, run_in_software(case.text("amx"), tmp_path, monkeypatch)(*arrays), arrays)


def test_sums_in_tile_registers_begin_with_what_the_text_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tile whose region has a zero, but yields another number, is no tile of zeros."""
    case = TILES["whole tiles"]
    text = levels_of(case.text("amx"), tmp_path, "amx").text("tiles")
    zero = re.search(r"(%\d+) = mlc.constant dense<0.0+e\+00> : tensor<f32>\n *(.*yield) \1", text)
    assert zero is not None
    one = "%one = mlc.constant dense<1.0> : tensor<f32>"
    edited = text.replace(zero[0], f"{zero[1]} = mlc.constant dense<0.0> : tensor<f32>\n{one}\n"
                                   f"{zero[2]} %one")  # fmt: skip
    arrays = case.arrays()
    found = run_in_software(edited, tmp_path, monkeypatch)(*arrays)
    exact = product(*(x.astype(np.float64) for x in arrays)) + 1
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=2.0**-8, atol=1e-4)


def run_in_software(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A text's program for this machine, with tile instructions in software."""
    host = host_target()
    if host.arch != "x86_64":
        pytest.skip(f"{host.name} has no tile registers")
    made = objects.object_of

    def object_of(text: str, target: CpuTarget, **options: Any) -> CompiledObject:
        return made(in_software(text), target, **options)

    monkeypatch.setattr(objects, "object_of", object_of)
    path = folder / "program.mlir"
    path.write_text(text)
    module, signature = read_module(path)
    module.attributes.pop(ATTRIBUTE)
    own = [x for x in host.extensions.split(",") if x.startswith("avx512")]
    target = replace(host, extensions=",".join(["amx-bf16,amx-int8,amx-tile", *own]))
    return compile_module(module, signature, Options(target=target, threads=2))


EINSUMS = {
    "bmhk,bhkn->bhmn": "heads between rows and what is summed",
    "bkml,bkln->nbm": "two summed axes, of which a factor has the inner one in rows",
    "lkm,klqn->qnm": "neither factor as the other",
    "pbmk,kbn->bmpn": "rows of two axes, which do not follow one another",
    "mkl,kln->mn": "few rows that fill no tile",
}


@pytest.mark.parametrize("letters", EINSUMS, ids=EINSUMS.values())
def test_axes_in_any_order_for_tile_registers(
    letters: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {**dict(zip("bhpql", (2, 3, 3, 2, 4), strict=True)), "m": 64, "n": 96, "k": 64}
    if "mkl" in letters:
        sizes["m"] = 33

    def product(a: Any, b: Any) -> Any:
        return np.einsum(letters, a, b)

    shapes = [tuple(sizes[c] for c in word) for word in letters.split("->")[0].split(",")]
    rng = np.random.default_rng(11)
    arrays = [_draw(rng, shape, "bf16") for shape in shapes]
    text = planned(product, *(spec(*x, dtype="bf16") for x in shapes), target="amx").text("plan")
    assert "via(amx_bf16)" in text
    found = run_in_software(text, tmp_path, monkeypatch)(*arrays)
    exact = product(*(x.astype(np.float64) for x in arrays))
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=2.0**-8, atol=1e-4)


REFUSED = {
    "pack(b, panels 16, group 2, i8), pack(a, panels 4, group 4, i8)":
        "the other factor lies in groups of 2 summed elements; expected group 2",
    "block(k, 6), pack(b, panels 16, group 4, i8)":
        "blocks of k have 6 elements; expected a multiple of 4",
    "pack(b, panels 16, group 4, u8)": "u8 does not hold the values of i8; expected a wider dtype",
    "register(m 4, n 16), via(dot_u8s8)": "dot_u8s8 for i32, i8, i32",
}  # fmt: skip


@pytest.mark.parametrize("said", REFUSED)
def test_panels_that_cannot_be_made_say_why(said: str, tmp_path: Path) -> None:
    case = Case(("i8", "i8"), "dot_u8s8", "vpdpbusd", "amx", said)
    with pytest.raises(MlcError, match=REFUSED[said]):
        levels_of(case.text("amx"), tmp_path, "amx").at("loops")


@pytest.mark.parametrize("rows", [1, 2, 5, 6, 14])
def test_groups_of_all_rows_are_permuted_at_once(rows: int, tmp_path: Path) -> None:
    """
    Two registers as a table of lanes: for each vector of a panel one permutation a row more; LLVM
    makes a few of them blends.
    """
    said = words(rows, 16, "group 4, u8", "group 4, i8", "dot_u8s8")
    case = Case(("i8", "i8"), "dot_u8s8", "vpdpbusd", "avx512", said, depth=203, lhs=(M, 203))
    asm = levels_of(case.text("avx512"), tmp_path, "avx512").asm()
    assert rows * (rows - 1) * 2 // 3 <= len(re.findall(r"vperm[it]2d", asm)) <= rows * (rows - 1)
    arrays = case.arrays()
    check(case, compiled(case.text(case.runnable()), tmp_path, 2)(*arrays), arrays)


def test_sums_of_bytes_have_no_spills(tmp_path: Path) -> None:
    """The loop of a full register tile keeps all sums in registers."""
    text = CASES["i8 by vpdpbusd"].text("amx").replace("panels 4", "panels 12")
    text = text.replace("m 4, n 16", "m 12, n 32").replace("panels 16", "panels 32")
    lines = levels_of(text, tmp_path, "amx").asm().split("\n")
    at = [k for k, line in enumerate(lines) if "vpdpbusd" in line]
    assert len(at) == 2 + 24  # what is taken off is summed before the loop over rows
    loop = lines[at[2] : at[-1]]
    assert not [line for line in loop if "%rsp" in line]
    assert sum("vpbroadcastd" in line for line in loop) >= 11


@dataclass(frozen=True)
class Chosen:
    """The instruction that the compiler takes for a product of 256 on a machine."""

    target: str
    dtype: str
    function: Callable[..., Any]
    row: str
    packs: tuple[str, ...]


CHOSEN = [
    Chosen("avx2", "i8", sums_of_integers, "madd_i16", ("a", "b")),
    Chosen("amx", "i8", sums_of_integers, "amx_s8", ("b",)),
    Chosen("amx", "i8", lhs_turned, "amx_s8", ("b", "a")),
    Chosen("neon", "i8", lhs_turned, "dot_s8", ("a", "b")),
    Chosen("neon", "i8", sums_of_integers, "dot_s8", ("b",)),
    Chosen("mmla", "i8", sums_of_integers, "mmla_s8", ("b", "a")),
    Chosen("avx2", "bf16", product, "fma", ("b", "a")),
    Chosen("avx512", "f16", product, "fma", ("b", "a")),
    Chosen("avx512", "bf16", product, "dot_bf16", ("b",)),
    Chosen("avx512", "i8", sums_of_integers, "dot_u8s8", ("a", "b")),
    Chosen("amx", "bf16", product, "amx_bf16", ("b",)),
    Chosen("mmla", "bf16", product, "mmla_bf16", ("a", "b")),
]


@pytest.mark.parametrize("case", CHOSEN, ids=[f"{c.dtype} on {c.target}" for c in CHOSEN])
def test_what_a_function_is_compiled_to(case: Chosen) -> None:
    """Each machine's instruction; what is converted before the product goes."""
    square = spec(256, 256, dtype=case.dtype)
    tiles = planned(case.function, square, square, target=case.target).text("tiles")
    assert f"via {case.row}" in tiles
    assert tuple(re.findall(r"-> %packed_(\w) ", tiles)) == case.packs
    assert ("mlc.convert" in tiles) == (case.row in ("fma", "madd_i16", "dot_u8s8"))


def test_products_of_narrow_dtypes_from_functions() -> None:
    """Compiled for this machine: every layout, what surrounds products, what is not plain."""
    rng = np.random.default_rng(3)
    a, b = (_draw(rng, s, "i8") for s in ((70, 130), (130, 90)))
    x, y = (_draw(rng, s, "bf16") for s in ((70, 130), (130, 90)))
    bias = _draw(rng, (90,), "bf16")
    run: Any = mlc.compile(sums_of_integers)
    for left, right in ((a, b), (a, np.asfortranarray(b)), (np.asfortranarray(a), b)):
        np.testing.assert_array_equal(run(left, right), sums_of_integers(left, right))
    relu: Any = mlc.compile(relu_of_sum)
    exact = np.maximum(x.astype(np.float64) @ y.astype(np.float64) + bias.astype(np.float64), 0)
    np.testing.assert_allclose(relu(x, y, bias).astype(np.float64), exact, rtol=0.02, atol=0.1)
    p, q = (_draw(rng, s, "i8") for s in ((5, 40, 70), (5, 70, 50)))
    np.testing.assert_array_equal(run(p, q), sums_of_integers(p, q))
