"""Contractions whose schedule is a list of words: through tile programs, with today's bits."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from xdsl.dialects import func

import mlc
from mlc.dialects.errors import MlcError
from mlc.executable import Executable, compile_module
from mlc.frontend.importers.mlir import read_module
from mlc.options import Options
from mlc.profile import profiled_loops
from mlc.programs import options_of_module
from tests.plans import RUNNABLE, planned

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(5)


@dataclass(frozen=True)
class Case:
    """A product, and the words that cut it as its numbers do."""

    function: Callable[..., Any]
    shapes: tuple[tuple[int | str, ...], ...]
    words: str
    dtype: str = "f32"


def normal(*shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def sizes_of(shape: tuple[int | str, ...]) -> tuple[int, ...]:
    return tuple(37 if isinstance(d, str) else d for d in shape)


def text_of(case: Case) -> str:
    """The plan."""
    specs = [mlc.TensorSpec(*shape, dtype=case.dtype) for shape in case.shapes]
    return planned(case.function, *specs, target=RUNNABLE).text("plan")


def with_words(text: str, words: str) -> str:
    """The plan with these words for its one contraction."""
    lines = text.split("\n")
    begin = next(k for k, line in enumerate(lines) if '"contraction"' in line)
    end = next(k for k in range(begin, len(lines)) if "schedule = " in lines[k])
    lines[end] = re.sub(r"#mlc\.schedule<[^>]*>", f"#mlc.schedule<[{words}]>", lines[end], count=1)
    return "\n".join(lines)


def built(text: str, folder: Path, threads: int) -> Executable:
    path = folder / "program.mlir"
    path.write_text(text)
    module, signature = read_module(path)
    target = options_of_module(module, {}).target
    return compile_module(module, signature, Options(target=target, threads=threads))


def compiled(text: str, folder: Path, threads: int) -> Callable[..., Array]:
    return cast("Callable[..., Array]", built(text, folder, threads))


BLOCKED = (
    "block(n, 96), block(k, 64), pack(b, panels 16, team), block(m, 12, team),"
    " register(m 4, n 16), via(fma), edge(m, clamp), prefetch(c), grain(2048)"
)
WHOLE = "pack(b, panels 16, team), block(m, 12, team), register(m 4, n 16), via(fma), grain(2048)"
IN_PLACE = "block(m, 4, team), register(m 4, n 16), via(fma), edge(m, clamp), grain(2048)"
BOTH = (
    "block(n, 96), block(k, 64), pack(b, panels 16, team), block(m, 12, team),"
    " pack(a, panels 4), register(m 4, n 16), via(fma), prefetch(b, 2), grain(2048)"
)
OWN = "pack(b, panels 16), register(m 4, n 16), via(fma), edge(m, clamp), grain(2048)"
SUMS = "sums(scratch), "
TAKEN = (
    "block(n, 32, team, dynamic), block(m, 20, team, dynamic), block(k, 64), pack(b, panels 16),"
    " register(m 4, n 16), via(fma), edge(m, clamp), grain(2048)"
)
SPLIT = "split(k, 5), register(m 4, n 16), via(fma), edge(m, clamp), edge(n, mask), grain(2048)"
SPLIT_AND_PACKED = (
    "split(k, 3), block(k, 16), pack(b, panels 16), register(m 4, n 16), via(fma), edge(m, clamp),"
    " grain(2048)"
)


def relu_of_sum(x: Any, w: Any, bias: Any) -> Any:
    return np.maximum(x @ w + bias, 0.0)


def product(a: Any, b: Any) -> Any:
    return a @ b


def lhs_turned(a: Any, b: Any) -> Any:
    return a.T @ b


def rhs_turned(a: Any, b: Any) -> Any:
    return a @ b.T


def prologues(a: Any, b: Any) -> Any:
    return np.abs(a) @ (b * 2.0)


def residual(a: Any, b: Any, c: Any) -> Any:
    return a @ b + c


CASES = {
    "blocked": Case(product, ((60, 130), (130, 112)), BLOCKED),
    "odd": Case(product, ((61, 131), (131, 109)), BLOCKED),
    "both packed": Case(product, ((61, 131), (131, 109)), BOTH),
    "in place": Case(product, ((61, 131), (131, 109)), IN_PLACE),
    "lhs turned": Case(lhs_turned, ((131, 61), (131, 109)), BLOCKED),
    "rhs turned": Case(rhs_turned, ((61, 131), (109, 131)), BLOCKED),
    "bias": Case(relu_of_sum, ((61, 131), (131, 109), (109,)), BLOCKED),
    "prologues": Case(prologues, ((61, 131), (131, 109)), BLOCKED),
    "residual": Case(residual, ((61, 131), (131, 109), (61, 109)), BLOCKED),
    "rows by name": Case(product, (("M", 131), (131, 109)), BLOCKED),
    "depth by name": Case(product, ((61, "K"), ("K", 109)), WHOLE),
    "batch": Case(product, ((3, 61, 131), (3, 131, 109)), f"block(g, 1), {BLOCKED}"),
    "batches whole": Case(product, ((7, 21, 131), (7, 131, 109)), f"block(g, 1, team), {OWN}"),
    "taken": Case(product, ((61, 131), (131, 109)), TAKEN),
    "taken and curved": Case(relu_of_sum, ((61, 131), (131, 109), (109,)), SUMS + TAKEN),
    "taken of rows by name": Case(product, (("M", 131), (131, 109)), TAKEN),
    "batches taken": Case(
        product, ((7, 21, 131), (7, 131, 109)), f"block(g, 1, team, dynamic), {OWN}"
    ),
    "split": Case(product, ((61, 131), (131, 109)), SPLIT),
    "split and packed": Case(lhs_turned, ((131, 61), (131, 109)), SPLIT_AND_PACKED),
    "split with more": Case(relu_of_sum, ((61, 131), (131, 109), (109,)), SPLIT),
    "split of few": Case(residual, ((3, 131), (131, 5), (3, 5)), SPLIT),
    "one row": Case(product, ((1, 131), (131, 109)), IN_PLACE),
    "one column": Case(product, ((61, 131), (131, 1)), IN_PLACE),
    "f64": Case(product, ((61, 131), (131, 109)), BLOCKED.replace(" 16", " 8"), dtype="f64"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_words_give_the_product(name: str, threads: int, tmp_path: Path) -> None:
    """Every route gives NumPy's product, the same for one thread and for two."""
    case = CASES[name]
    arguments = [normal(*sizes_of(shape)) for shape in case.shapes]
    if case.dtype == "f64":
        arguments = [x.astype(np.float64) for x in arguments]
    text = with_words(text_of(case), case.words)
    found = compiled(text, tmp_path, threads)(*arguments)
    wide = case.function(*(x.astype(np.float64) for x in arguments))
    np.testing.assert_allclose(found, wide, rtol=2e-4, atol=2e-4)
    alone = compiled(text, tmp_path, 1)(*arguments)
    np.testing.assert_array_equal(found, alone)


@pytest.mark.parametrize(("row", "rest"), [("fma", 2.0**-24), ("mul_add", 0.0)])
def test_rows_round_as_they_say(row: str, rest: float, tmp_path: Path) -> None:
    """A product with its rounded self taken away leaves what the row did not round."""
    a, b = np.zeros((61, 131), np.float32), np.zeros((131, 109), np.float32)
    x = np.float32(1 + 2.0**-12)
    a[:, 0], a[:, 1] = -(x * x), x
    b[0], b[1] = 1, x
    case = CASES["odd"]
    text = with_words(text_of(case), IN_PLACE.replace("fma", row))
    np.testing.assert_array_equal(compiled(text, tmp_path, 1)(a, b), np.full((61, 109), rest))


def test_products_of_nothing(tmp_path: Path) -> None:
    """Where nothing is summed results are written, and where there is nothing none are."""
    for columns, depth in ((109, 0), (0, 131)):
        shapes = ((61, depth), (depth, columns))
        text = text_of(Case(product, shapes, ""))
        found = compiled(text, tmp_path, 2)(*(normal(*shape) for shape in shapes))
        np.testing.assert_array_equal(found, np.zeros((61, columns)))


REFUSED = {
    "block(q, 4), register(m 4, n 16)": "the product has no axis 'q'; expected one of m, n, k",
    "split(m, 4)": r"split\(m, 4\): m is not summed; expected k",
    "block(n, 32), split(k, 4)": "stands behind other words; expected it before them",
    "block(n, 32, team), block(m, 4, team, dynamic)": "the loop that it joins is dealt",
    "raster(4)": r"raster\(4\) is no word of kernels on avx2; expected one of block",
    "register(m 4, n 16), unroll(4)": r"unroll\(4\) is for nests that have no words of a product",
    "pack(b, panels 16, team), block(g, 1)": "the product has no axis 'g'",
    "register(m 4, n 16), via(dot_bf16)": "dot_bf16",
    "edge(k, clamp)": "k is no axis of the result; expected one of m, n",
}


@pytest.mark.parametrize("words", REFUSED)
def test_words_that_cannot_be_applied_say_why(words: str, tmp_path: Path) -> None:
    """The error names the axis, or the rule."""
    text = with_words(text_of(CASES["odd"]), words)
    with pytest.raises(MlcError, match=REFUSED[words]):
        compiled(text, tmp_path, 1)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_panels_across_rows_are_turned_in_registers(dtype: str, tmp_path: Path) -> None:
    """Squares of whole vectors, of which no element is read by itself; then what is left."""
    kind = {"f32": np.float32, "f64": np.float64}[dtype]
    words = BLOCKED.replace("pack(b, panels 16, team)", "pack(b, panels 16)")
    words = words.replace("team), register", "team), pack(a, panels 4), register")
    words = words.replace(" 16", f" {64 // np.dtype(kind).itemsize}")
    for depth, gathers in ((64, False), (67, True)):
        case = Case(rhs_turned, ((60, depth), (48, depth)), words, dtype)
        arguments = [normal(*sizes_of(shape)).astype(kind) for shape in case.shapes]
        exe = built(with_words(text_of(case), words), tmp_path, 1)
        loops = exe.levels.text("loops")
        assert ("mlc_vec.gather" in loops) == gathers
        assert "vector.shuffle" in loops
        found = cast("Callable[..., Array]", exe)(*arguments)
        np.testing.assert_allclose(found, arguments[0] @ arguments[1].T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("words", [BLOCKED, IN_PLACE])
@pytest.mark.parametrize("name", ["bias", "residual"])
def test_an_epilogue_as_a_loop_gives_the_same_bits(name: str, words: str, tmp_path: Path) -> None:
    """What follows the product stands in the code once, on one row of the tile."""
    case = CASES[name]
    arguments = [normal(*sizes_of(shape)) for shape in case.shapes]
    texts = [with_words(text_of(case), x) for x in (words, f"{words}, epilogue(loop)")]
    found = [compiled(text, tmp_path, 2)(*arguments) for text in texts]
    np.testing.assert_array_equal(found[0], found[1])
    levels = built(texts[1], tmp_path, 1).levels
    assert re.search(r"for %row in 4 .*mlc.no_unroll", levels.text("tiles"))
    assert re.search(r"mlc_tile.map\(.*frag<1x16xf32>", levels.text("tiles"))


def two_products(x: Any, w: Any, v: Any) -> Any:
    h = np.tanh(x @ w) + 1.0
    return np.exp(h @ v).sum(axis=0), h


@pytest.mark.parametrize("words", [BLOCKED, IN_PLACE])
def test_one_team_runs_programs_and_kernels(words: str, tmp_path: Path) -> None:
    """Programs take part in the team of the call, and give the same bits for every team."""
    shapes = ((61, 131), (131, 109), (109, 130))
    text = text_of(Case(two_products, shapes, ""))
    text = re.sub(r"#mlc\.schedule<\[[^>]*via[^>]*>", f"#mlc.schedule<[{words}]>", text)
    text = re.sub(r"grain\(\d+\)", "grain(1024)", text)
    levels = built(text, tmp_path, 2).levels
    tiles = levels.text("tiles")
    assert (tiles.count("mlc_tile.call"), tiles.count("mlc.wait")) == (2, 2)
    assert levels.text("loops").count("mlc_par.region") == 1
    arguments = [normal(*sizes_of(shape)) for shape in shapes]
    results = [cast("Any", built(text, tmp_path, n)(*arguments)) for n in (1, 2, 3, 16)]
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def powers(x: Any, w: Any) -> Any:
    def step(_: Any, x: Any) -> Any:
        return np.maximum(x @ w, 0.0)

    return mlc.fori_loop(0, 5, step, x)


def test_programs_write_where_no_live_value_lies(tmp_path: Path) -> None:
    """What a program makes for the next trip of a loop goes into a slot that is free then."""
    shapes = ((61, 61), (61, 61))
    text = text_of(Case(powers, shapes, ""))
    assert "#mlc.buffer<arena 0, 1>" in text
    text = with_words(text, "pack(b, panels 16, team), block(m, 12, team), register(m 4, n 16),"
                      " via(fma), edge(m, clamp), grain(2048)")  # fmt: skip
    x, w = (normal(*shape) / 8 for shape in shapes)
    expected = x
    for _ in range(5):
        expected = np.maximum(expected @ w, 0.0)
    for threads in (1, 3):
        exe = built(text, tmp_path, threads)
        assert "mlc_tile.call" in exe.levels.text("tiles")
        np.testing.assert_allclose(cast("Any", exe(x, w)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("words", "regions"),
    [(IN_PLACE, 1), (IN_PLACE.replace(", team", ""), 0), (f"{IN_PLACE[:-1]}000)", 0)],
)
def test_programs_that_nobody_shares_have_no_workers(
    words: str, regions: int, tmp_path: Path
) -> None:
    """Without a word for the team, or with too little work, one worker runs the program."""
    text = with_words(text_of(CASES["odd"]), words)
    loops = built(text, tmp_path, 2).levels.text("loops")
    assert loops.count("mlc_par.region") == regions


def test_a_profile_runs_the_programs(tmp_path: Path) -> None:
    """Clocks stand around the kernels that a call runs, and the report has what they pack."""
    exe = built(with_words(text_of(CASES["odd"]), BOTH), tmp_path, 1)
    loops, count = profiled_loops(exe.levels.plan(), phases=False)
    called = [str(op.callee.string_value()) for op in loops.walk() if isinstance(op, func.CallOp)]
    assert count == 1
    assert called[::2] == ["mlc_profile_begin", "mlc_profile_end"]
    assert f"@{called[1]}(" in exe.levels.text("loops")
    (packs,) = exe.plan().copies
    assert packs.bytes == (61 * 131 + 131 * 109) * 4


def test_memory_of_words_is_that_of_their_scratch(tmp_path: Path) -> None:
    """What a report says of the arena is what the packed panels need."""
    path = tmp_path / "plan.mlir"
    path.write_text(with_words(text_of(CASES["odd"]), BLOCKED))
    module, signature = read_module(path)
    exe = compile_module(module, signature, options_of_module(module, {"target": RUNNABLE}))
    assert exe.memory().arena_bytes == 96 * 64 * 4
