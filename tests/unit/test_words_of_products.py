"""Which contractions a plan cuts by words, and by which."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.parser import Parser

import mlc
from mlc import registry
from mlc.backends import backend_of
from mlc.dialects.dtypes import named_dtype
from mlc.dialects.plan import KernelOp, Schedule, ScheduleAttr
from mlc.dialects.target.known import AMX, AVX2, AVX512
from mlc.dialects.tensor.reduce import Product
from mlc.dialects.tensor.tiles import is_phase
from mlc.dialects.tile.words import (
    Block,
    Case,
    Edge,
    Epilogue,
    Grain,
    Pack,
    Prefetch,
    Via,
    Words,
    cases_of,
    is_shared,
    parse_list,
    spell,
    words_at,
)
from mlc.executable import compile_module
from mlc.options import Options
from mlc.passes.plan.tiling.form_tiles import FormTilesPass
from mlc.passes.tile.choose import AHEAD, choose_schedule
from mlc.passes.tile.operands import STREAMS
from mlc.passes.tile.problem import Problem
from mlc.passes.tile.products import WordsOf, refusal
from mlc.passes.tile.teams import of_one_and_all
from mlc.pipeline import prepare
from mlc.text import parse_text
from tests.plans import HOSTED, TARGETS, planned, spec
from tests.sweeps import covering


def product(a: Any, b: Any) -> Any:
    return a @ b


def transposed_product(a: Any, b: Any) -> Any:
    return a.T @ b


def _multiplies(kernel: KernelOp) -> bool:
    return any(isinstance(op, Product) for op in kernel.block.ops)


def kernel_of(f: Callable[..., Any], *specs: Any, target: str, **options: Any) -> KernelOp:
    levels = planned(f, *specs, target=target, **options)
    found = [x for x in levels.plan().walk() if isinstance(x, KernelOp) and _multiplies(x)]
    (kernel,) = found
    return kernel


def words_of(f: Callable[..., Any], *specs: Any, target: str, **options: Any) -> Words:
    kernel = kernel_of(f, *specs, target=target, **options)
    assert kernel.schedule is not None
    return kernel.schedule.data.cuts


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("target", TARGETS)
def test_products_of_every_size_have_words(target: str, dtype: str) -> None:
    for m, n, k in ((16, 16, 16), (64, 64, 64), (300, 300, 300), (1000, 5, 64), (32, 4096, 1024)):
        words = words_of(product, spec(m, k, dtype=dtype), spec(k, n, dtype=dtype), target=target)
        assert words, (m, n, k)


def convolution(x: Any, w: Any) -> Any:
    return mlc.nn.conv(x, w, padding=1)


def channels_last(x: Any, w: Any) -> Any:
    return mlc.nn.conv(x, w, padding=1, stride=2, layout="channels_last")


def gradients_of_convolution(x: Any, w: Any) -> Any:
    def loss(x: Any, w: Any) -> Any:
        y: Any = mlc.nn.conv(x, w, padding=1)
        return (y * y).sum()

    return mlc.grad(loss, (0, 1))(x, w)


@pytest.mark.parametrize("target", TARGETS)
def test_convolutions_have_words(target: str) -> None:
    """Either layout, and both gradients."""
    first = spec(4, 32, 28, 28), spec(48, 32, 3, 3)
    last = spec(4, 28, 28, 32), spec(3, 3, 32, 48)
    for f, shapes, count in (
        (convolution, first, 1), (channels_last, last, 1), (gradients_of_convolution, first, 3),
    ):  # fmt: skip
        levels = planned(f, *shapes, target=target)
        found = [x for x in levels.plan().walk() if isinstance(x, KernelOp) and _multiplies(x)]
        assert len(found) == count
        assert all(x.schedule is not None and x.schedule.data.cuts for x in found)


@pytest.mark.parametrize("target", TARGETS)
def test_words_are_those_for_any_team(target: str) -> None:
    """Bits do not depend on how many workers there are."""
    shapes = (spec(500, 700), spec(700, 600))
    found = {words_of(product, *shapes, target=target, threads=n) for n in (1, 2, 16)}
    assert len(found) == 1


@pytest.mark.parametrize("target", ["avx2", "avx512"])
def test_workers_share_batches_whose_copies_fit_their_caches(target: str) -> None:
    """Of fewer than there are cores they share the rows of each."""
    for batch, size, teams in ((8, 128, ["g"]), (2, 1024, ["m"])):
        words = words_of(product, *[spec(batch, size, size)] * 2, target=target, threads=4)
        blocks = [word for word in words if isinstance(word, Block)]
        assert (blocks[0].axis, blocks[0].step) == ("g", 1)
        assert [word.axis for word in blocks if word.team] == teams, spell(words)
        packs = [word for word in words if isinstance(word, Pack) and word.operand == "b"]
        assert all(word.team == (teams == ["m"]) for word in packs)


def _apart(a: Any, b: Any) -> Any:
    return np.einsum("ijk,kjl->il", a, b)


def _gelu(x: Any, w: Any, b: Any) -> Any:
    h = x @ w + b
    return 0.5 * h * (1.0 + np.tanh(0.79788456 * (h + 0.044715 * h * h * h)))


@pytest.mark.parametrize("target", TARGETS)
def test_words_for_kernels_of_every_form(target: str) -> None:
    """Several letters, of which some lie apart; few rows; long code after the product."""
    apart = words_of(_apart, spec(64, 80, 90), spec(90, 80, 64), target=target)
    assert apart, "blocks of the summed axes cut the first of them"
    assert all(x.step <= 80 for x in apart if isinstance(x, Block) and x.axis == "k")
    shapes = (spec(300, 2000), spec(2000, 400), spec(400))
    assert Epilogue("loop") in words_of(_gelu, *shapes, target=target)


def test_workers_share_columns_of_few_rows() -> None:
    """Each packs its own, right before it reads them."""
    words = words_of(transposed, spec(64, 784), spec(512, 784), target="amx")
    assert spell(words).startswith("[block(n, 64, team), block(k, 128), pack(b, panels 64), ")


def test_few_rows_read_vectors_where_they_lie() -> None:
    """With their lines asked for, unless those on their way fill a set of level 1."""
    words = words_of(product, spec(64, 784), spec(784, 512), target="amx")
    assert not any(isinstance(word, Pack) for word in words)
    assert Prefetch("b", AHEAD) in words
    near = replace(AMX, l1d_ways=8, l1d_bytes=32 << 10)
    for n, asked in ((512, True), (1024, False)):
        (best, *_) = choose_schedule(Problem(m=16, n=n, k=512), near)
        assert (Prefetch("b", AHEAD) in best.words) == asked


@pytest.mark.parametrize("numerics", ["standard", "strict"])
@pytest.mark.parametrize("target", TARGETS)
def test_rows_by_name_and_strict_sums_have_words(target: str, numerics: str) -> None:
    """The last tile of rows reads the last row again; strict products are rounded."""
    words = words_of(product, spec("M", 300), spec(300, 200), target=target, numerics=numerics)
    assert Edge("m", "clamp") in words
    assert Via("mul_add" if numerics == "strict" else "fma") in words


def transposed(a: Any, b: Any) -> Any:
    return a @ b.T


def both_transposed(a: Any, b: Any) -> Any:
    return (b @ a).T


def with_code_after(a: Any, b: Any) -> Any:
    return np.maximum(a @ b, 0.5) * 2 + 1


ANY_SIZE: dict[str, tuple[Callable[[Any, Any], Any], tuple[str, str]]] = {
    "product": (product, ("MK", "KN")),
    "transposed": (transposed, ("MK", "NK")),
    "both transposed": (both_transposed, ("KN", "MK")),
    "with code after": (with_code_after, ("MK", "KN")),
    "batches": (product, ("3MK", "3KN")),
    "any batches": (product, ("BMK", "BKN")),
}


@pytest.mark.parametrize(
    ("name", "numerics"), covering([*ANY_SIZE], ["standard", "strict"], strength=1)
)
def test_products_of_any_size(name: str, numerics: Any) -> None:
    """No size is known: of nothing, of less than a vector, of several blocks of each axis."""
    function, letters = ANY_SIZE[name]
    shapes = [[int(c) if c.isdigit() else c for c in word] for word in letters]
    specs = [spec(*shape) for shape in shapes]
    assert words_of(function, *specs, target="avx2", numerics=numerics)
    random = np.random.default_rng(3)
    compiled: Any = mlc.compile(numerics=numerics, threads=2)(function)
    run = compiled.lower(*specs).compile()
    none = ((0, 3, 4), (3, 0, 4), (3, 4, 0))
    for m, n, k in (*none, (1, 1, 1), (37, 70, 53), (9, 70, 1500), (130, 4200, 1500)):
        sizes = {"M": m, "N": n, "K": k, "B": 2}
        arguments = [
            random.standard_normal([sizes[d] if d in sizes else int(d) for d in word]).astype(
                np.float32
            )
            for word in letters
        ]
        if n > 1000 and ("batches" in name or numerics == "strict"):
            continue
        found = run(*arguments)
        if numerics == "strict":
            np.testing.assert_array_equal(found, compiled.reference(*arguments))
        np.testing.assert_allclose(found, function(*arguments), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f64", "c64", "i32"])
def test_products_of_any_size_and_dtype(dtype: str) -> None:
    """Groups of summed elements end with zeros wherever the depth ends."""
    specs = spec("M", "K", dtype=dtype), spec("K", "N", dtype=dtype)
    assert words_of(product, *specs, target="avx512")
    compiled: Any = mlc.compile(threads=2)(product)
    run = compiled.lower(*specs).compile()
    random = np.random.default_rng(3)
    for m, n, k in ((5, 7, 9), (100, 130, 77)):
        numbers = [random.integers(-3, 4, shape) for shape in ((m, k), (k, n))]
        a, b = (x.astype(named_dtype(dtype).numpy) for x in numbers)
        np.testing.assert_array_equal(
            np.asarray(run(a, b)).astype(complex), numbers[0] @ numbers[1]
        )


def of_columns(a: Any, b: Any) -> Any:
    return a.swapaxes(-1, -2) @ b


@pytest.mark.parametrize(
    ("target", "f", "a", "b"),
    [
        ("avx512", product, (3, "M", 1500), (3, 1500, 2000)),
        ("avx512", product, ("B", "M", 1500), ("B", 1500, 2000)),
        ("avx2", of_columns, (3, "K", "M"), (3, "K", 400)),
    ],
)
def test_cases_share_the_room_for_copies(target: str, f: Any, a: Any, b: Any) -> None:
    """One case runs: each may fill the cache, and every chosen list makes a valid program."""
    levels = planned(f, spec(*a), spec(*b), target=target)
    assert "mlc_tile.case" in str(levels.at("tiles"))


def test_few_rows_have_a_schedule_of_their_own() -> None:
    """They are read where they lie, where how many there are is known when the program runs."""
    words = words_of(product, spec("M", 1000), spec(1000, 1000), target="avx2")
    rest, cases = cases_of(words)
    assert any(isinstance(word, Pack) for word in rest)
    for (case, own), below, rows in zip(cases[:2], (4, 14), (1, 9), strict=True):
        assert case == Case("m", below)
        assert not any(isinstance(word, Pack) for word in own)
        assert words_at(words, {"m": rows, "n": 1000, "k": 1000}) == own
    assert words_at(words, {"m": 1000, "n": 1000, "k": 1000}) == rest


@pytest.mark.parametrize("numerics", ["standard", "strict"])
def test_products_of_any_number_of_rows(numerics: Any) -> None:
    """With the bits of the reference where numerics are strict."""
    random = np.random.default_rng(3)
    b = random.standard_normal((70, 40)).astype(np.float32)
    compiled: Any = mlc.compile(numerics=numerics, threads=2)(product)
    run = compiled.lower(spec("M", 70), spec(70, 40)).compile()
    for rows in (0, 1, 13, 130):
        a = random.standard_normal((rows, 70)).astype(np.float32)
        if numerics == "strict":
            np.testing.assert_array_equal(run(a, b), compiled.reference(a, b))
        np.testing.assert_allclose(run(a, b), a @ b, rtol=1e-4, atol=1e-4)


def _attention(q: Any, k: Any, v: Any) -> Any:
    scores = np.einsum("hqd,hkd->hqk", q, k) * 0.125
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.einsum("hqk,hkd->hqd", weights / weights.sum(axis=-1, keepdims=True), v)


@pytest.mark.parametrize("target", TARGETS)
def test_products_in_tile_loops_have_words_of_one_worker(target: str) -> None:
    """Workers share the trips; memory beside them is the worker's own."""
    plan = planned(_attention, *[spec(8, 1024, 64)] * 3, target=target).plan()
    found = [x for x in plan.walk() if isinstance(x, KernelOp) and _multiplies(x)]
    assert len(found) == 2
    for kernel in found:
        assert is_phase(kernel)
        assert kernel.schedule is not None
        assert kernel.schedule.data.cuts
        assert not is_shared(kernel.schedule.data.cuts)


@pytest.mark.parametrize("rows", [300, 512])
def test_products_in_tile_loops_have_the_bits_of_one_worker(rows: int) -> None:
    random = np.random.default_rng(4)
    q, k, v = (random.standard_normal((2, rows, 64)).astype(np.float32) for _ in range(3))
    found: list[Any] = []
    for threads in (1, 2, 3):
        compiled: Any = mlc.compile(threads=threads)(_attention)
        found.append(compiled(q, k, v))
    np.testing.assert_allclose(found[0], _attention(q, k, v), rtol=1e-4, atol=1e-5)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


@pytest.mark.parametrize(
    ("shapes", "options", "why"),
    [
        ([(64, 0), (0, 64)], {}, "nothing is there"),
    ],
)
def test_why_no_words_cut_a_contraction(shapes: Any, options: dict[str, str], why: str) -> None:
    kernel = kernel_of(product, *(spec(*x) for x in shapes), target="avx512", **options)
    assert why in str(refusal(kernel))
    assert kernel.schedule is not None
    assert not kernel.schedule.data.cuts


@pytest.mark.parametrize("m", [4, 8, 16])
@pytest.mark.parametrize("target", ["avx2", "avx512", "neon"])
def test_a_large_factor_of_few_rows_is_read_once_where_it_lies(target: str, m: int) -> None:
    words = words_of(product, spec(m, 4096), spec(4096, 4096), target=target, threads=2)
    blocks = {word.axis: word for word in words if isinstance(word, Block)}
    assert blocks["k"].step == STREAMS
    assert blocks["n"].team
    assert blocks["n"].step >= 512
    assert not any(isinstance(word, Pack) for word in words)


@pytest.mark.parametrize("target", HOSTED)
def test_few_rows_give_equal_bits_for_any_team(target: str) -> None:
    rng = np.random.default_rng(5)
    a = rng.standard_normal((7, 515), np.float32)
    b = rng.standard_normal((515, 3001), np.float32)
    words = words_of(product, spec(*a.shape), spec(*b.shape), target=target, threads=2)
    assert Block("k", STREAMS) in words
    found = [mlc.compile(product, target=target, threads=n)(a, b) for n in (1, 2, 3)]
    np.testing.assert_allclose(found[0], a @ b, rtol=1e-3, atol=1e-3)
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()


@pytest.mark.parametrize(("m", "n", "k"), [(1024, 1024, 1024), (2048, 2048, 2048)])
def test_workers_of_many_cores_take_blocks_one_by_one(m: int, n: int, k: int) -> None:
    """On 16 cores: four blocks for each, which copy what they read."""
    words = words_of(product, spec(m, k), spec(k, n), target="amx")
    columns, rows = words[:2]
    assert isinstance(columns, Block)
    assert isinstance(rows, Block)
    assert (columns.axis, rows.axis) == ("n", "m")
    assert columns.dynamic
    assert rows.dynamic
    assert -(-n // columns.step) * -(-m // rows.step) >= 4 * 16
    assert not any(isinstance(word, Pack) and word.team for word in words)


@pytest.mark.parametrize("target", ["avx2", "avx512", "amx", "neon"])
def test_a_transposed_factor_is_copied_once_for_blocks_that_workers_take(target: str) -> None:
    """Where it is copied for each block of columns, it is so often."""
    words = words_of(transposed_product, spec(1024, 1024), spec(1024, 1024), target=target)
    assert isinstance(words[0], Pack)
    assert (words[0].operand, words[0].team) == ("a", True)
    assert isinstance(words[1], Block)
    assert words[1].dynamic


def test_two_workers_take_blocks_as_well() -> None:
    """The larger of two shares' times is a seventh above the mean: more than blocks cost."""
    target = replace(AVX512, cores=2)
    problem, rest = Problem(m=1000, n=997, k=1003), "via(fma), edge(m, clamp), edge(n, mask)"
    shares = f"[pack(b, panels 48, team), block(m, 63, team), register(m 9, n 48), {rest}]"
    blocks = "block(n, 48, team, dynamic), block(m, 504, team, dynamic), pack(b, panels 48)"
    static, dynamic = (
        of_one_and_all(problem, tuple(parse_list(Parser(Context(), text))), target)
        for text in (shares, f"[{blocks}, register(m 8, n 48), {rest}]")
    )
    assert dynamic < static < 1.2 * dynamic


@pytest.mark.parametrize("target", HOSTED)
@pytest.mark.parametrize("dynamic", [False, True])
def test_blocks_of_columns_and_rows_give_equal_bits_for_any_team(
    target: str, *, dynamic: bool
) -> None:
    rng = np.random.default_rng(6)
    a = rng.standard_normal((250, 300), np.float32)
    b = rng.standard_normal((300, 333), np.float32)
    tile = "register(m 4, n 16)" if target == "avx2" else "register(m 6, n 64)"
    panels = tile[-3:-1]
    how = "team, dynamic" if dynamic else "team"
    blocks = f"block(n, {2 * int(panels)}, {how}), block(m, 48, {how})"
    deep = f"block(k, 128), pack(b, panels {panels}{'' if dynamic else ', team'})"
    cut = f"{blocks}, {deep}" if dynamic else f"{deep}, {blocks}"
    text = f"[{cut}, {tile}, via(fma), edge(m, clamp), edge(n, mask)]"
    found: list[Any] = []
    for threads in (1, 2, 3):
        compiled: Any = mlc.compile(product, target=target, threads=threads)
        levels = compiled.lower(spec(*a.shape), spec(*b.shape)).levels
        module = levels.at("plan")
        words = parse_list(Parser(Context(), text))
        for kernel in (x for x in module.walk() if isinstance(x, KernelOp) and _multiplies(x)):
            schedule = Schedule((*words, Grain(1000)))
            kernel.properties["schedule"] = ScheduleAttr(schedule)
        found.append(compile_module(module, levels.signature, levels.options).builtin(a, b))
    np.testing.assert_allclose(found[0], a @ b, rtol=1e-4, atol=1e-3)
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()


LOOPS = {
    "avx2 f32": "vfmadd", "avx2 i8": "vpmaddwd", "avx512 f32": "vfmadd", "amx f32": "vfmadd",
    "amx f64": "vfmadd", "amx bf16": "tdpbf16ps", "amx i8": "tdpbssd", "neon f32": "fmla",
    "neon i8": "sdot", "mmla f32": "fmla", "mmla bf16": "bfmmla", "mmla i8": "smmla",
}  # fmt: skip
"""Of machines and dtypes, the instruction that multiplies."""


def _innermost(assembly: str, instruction: str) -> list[str]:
    """The instructions of the innermost loop with most of these."""
    lines, labels = assembly.splitlines(), dict[str, int]()
    loops: list[list[str]] = []
    for k, line in enumerate(lines):
        if line.startswith(".L"):
            labels = {line.partition(":")[0]: k}  # those of loops around it are forgotten
        found = re.match(r"\t(?:j\w+|b\.\w+|cbn?z|tbn?z)\t.*?(\.L\w+)$", line)
        if found and (start := labels.get(found[1])) is not None:
            loops.append([x for x in lines[start:k] if x.startswith("\t")])
    return max(loops, key=lambda loop: sum(instruction in x for x in loop))


@pytest.mark.parametrize(("name", "turned"), covering([*LOOPS], ["", "a", "b"], strength=1))
def test_the_loop_of_a_product_spills_nothing(name: str, turned: str) -> None:
    """Sums stay in registers for the whole loop over the summed axis."""
    target, dtype = name.split()

    def f(a: Any, b: Any) -> Any:
        x, y = a.T if turned == "a" else a, b.T if turned == "b" else b
        return x.astype(np.int32) @ y.astype(np.int32) if dtype == "i8" else x @ y

    factor = spec(1024, 1024, dtype=dtype)  # four tile registers of sums are the best there
    loop = _innermost(planned(f, factor, factor, target=target).asm(), LOOPS[name])
    assert sum(LOOPS[name] in line for line in loop) >= 4
    assert not [x for x in loop if re.search(r"%rsp.*mm|\b[qvd]\d+, \[sp", x)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["bf16", "f64"])
def test_large_products_keep_to_the_caches(target: str, dtype: str) -> None:
    """Of several results sums wait in scratch, which the check of tile programs counts."""

    def twice(a: Any, b: Any) -> Any:
        x = a @ b
        return x, x.astype(np.float64) * 2

    levels = planned(
        twice, spec(5000, 5000, dtype=dtype), spec(5000, 5000, dtype=dtype), target=target
    )
    assert "mlc_tile.dot" in str(levels.at("tiles"))


ONE_NUMBER = """
func.func @f(%s: tensor<f32>, %w: tensor<2x1x2xf32>) -> tensor<3x2x1xf32>
    attributes {mlc.entry, mlc.symbols = []} {
  %0 = mlc.broadcast "->dcb" %s : tensor<f32> -> tensor<3x1x5xf32>
  %1 = mlc.slice %0[<2, 0, 1>, <-1, -1, 1>] : tensor<3x1x5xf32> -> tensor<3x1x4xf32>
  %2 = mlc.conv "dc(2a+2g),hcg->dha" %1, %w
     : tensor<3x1x4xf32>, tensor<2x1x2xf32> -> tensor<3x2x1xf32>
  func.return %2 : tensor<3x2x1xf32>
}
"""


def test_a_factor_may_be_one_number() -> None:
    """Of which nothing lies beside anything; random programs found it in loops over tiles."""
    module = parse_text(ONE_NUMBER, "one_number.mlir")
    options = Options(target=AVX2)
    prepare(module, options)
    for stage in ("tensor", "plan"):
        for step in backend_of(options.target).stage(stage).steps:
            chosen = registry.load(step.name)()
            if isinstance(chosen, FormTilesPass):
                chosen = FormTilesPass(tile=(3, 8))
            chosen.apply(Context(), module)
    kernels = [op for op in module.walk() if isinstance(op, KernelOp) and op.schedule is not None]
    cut = [WordsOf(op, AVX2).problem for op in kernels if refusal(op) is None]
    assert [problem.a_unit for problem in cut] == ["m"]
