"""Factors of f32 in terms of bf16: the terms, which products are split, and what those compute."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mlc.dialects.dtypes import BF16
from mlc.dialects.target.known import H200
from mlc.dialects.tensor.terms import SCALE, terms
from mlc.frontend.importers.mlir import read_module
from mlc.levels import Levels
from mlc.options import Options
from mlc.pipeline import run_pipeline
from mlc.runtime.interpret import interpret
from mlc.runtime.ptx import emit_ptx
from mlc.text import parse_text
from tests.assembler import checked, needs_ptxas
from tests.gpu_model.faults import ARRIVE, NUMBERS, Fault, verdict
from tests.gpu_model.machine import Model
from tests.plans import planned, spec
from tests.programs_of_terms import FORMS, OfTerms

Array = NDArray[Any]
PROGRAMS = [
    *(OfTerms(136, 264, 136, form=form) for form in FORMS),
    OfTerms(72, 72, 200, relu=True),
    OfTerms(136, 136, 136, narrow=True),
    OfTerms(72, 136, 64, batches=3),
]


def joined(parts: list[Array]) -> Array:
    first, second, third = (x.astype(np.float32) for x in parts)
    rest = (second + third / np.float32(SCALE)) / np.float32(SCALE)
    return np.where(rest == 0, first, first + rest)


def test_terms_are_all_of_a_number() -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 500_000, dtype=np.uint64).astype(np.uint32)
    edges = [0x0, 0x80000000, 0x1, 0x80000001, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000,
             0x7F7F8000, 0x7F7F7FFF, 0x007FFFFF, 0x00800000, 0x00008000, 0x00007FFF]  # fmt: skip
    x = np.concatenate([bits, np.array(edges, np.uint32)]).view(np.float32)
    with np.errstate(invalid="ignore"):
        parts = terms(x)
        found = joined(parts)
    same = (found.view(np.uint32) == x.view(np.uint32)) | (np.isnan(found) & np.isnan(x))
    assert same.all(), x[~same][:5]
    assert ((parts[0] == 0) == (x == 0)).all()
    assert np.isfinite(parts[1].astype(np.float32)).all()


def levels(program: OfTerms, tmp_path: Path) -> Levels:
    path = tmp_path / "product.mlir"
    path.write_text(program.text("cuda:h200"))
    module, signature = read_module(path)
    return Levels(None, "f", signature, Options(target=H200), {}, fresh=module)


def factors(program: OfTerms, *, special: bool) -> tuple[Array, Array]:
    """Random ones with a wide range; `special`: an infinity, NaN and numbers at both ends too."""
    rng = np.random.default_rng(5)
    a, b = (
        (rng.standard_normal(shape) * np.exp2(rng.integers(-8, 8, shape))).astype(np.float32)
        for shape in program.shapes
    )
    if special:
        for x in a, b:
            x.flat[::97] = 0
            x.flat[rng.integers(0, x.size, 6)] = [np.inf, -np.inf, np.nan, 1e-42, 3e34, -1e-38]
    return a, b.astype(BF16.numpy) if program.narrow else b


def expected(program: OfTerms, a: Array, b: Array) -> tuple[Array, Array]:
    """The product, and the sums of magnitudes, in f64."""
    text = FORMS[program.form]
    if program.batches:
        text = re.sub(r"\b(?=[abc])", "g", text)
    wide = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore"):
        found = np.einsum(text, *wide)
        size = np.einsum(text, *map(np.abs, wide))
    return np.maximum(found, 0) if program.relu else found, size


def check(program: OfTerms, found: Array, a: Array, b: Array) -> None:
    """Within what f32 sums of that many products may be from the truth; what is no number is."""
    want, size = expected(program, a, b)
    usual = np.isfinite(size)
    bound = 16 * 2.0**-24 * size[usual] + 1e-45
    assert (np.abs(found[usual] - want[usual]) <= bound).all()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(want))
    infinite = np.isinf(want)
    np.testing.assert_array_equal(found[infinite], want[infinite])


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_the_interpreter_agrees(program: OfTerms, special: bool, tmp_path: Path) -> None:
    module = levels(program, tmp_path).at("tiles")
    assert str(module).count("mlc_tile.dot_start") == (3 if program.narrow else 6)
    a, b = factors(program, special=special)
    with np.errstate(all="ignore"):
        (found,) = interpret(module, [a, b], workers=3, seed=1)
    check(program, found, a, b)


IN_THE_MODEL = [
    OfTerms(72, 72, 136),
    OfTerms(64, 64, 136, form="tt"),
    OfTerms(64, 72, 72, relu=True),
    OfTerms(72, 64, 72, narrow=True),
    OfTerms(64, 64, 64, batches=2),
]


def check_in(model: Model, program: OfTerms) -> None:
    a, b = factors(program, special=False)
    want, _ = expected(program, a, b)
    (found,) = model.call([a, b], [(want.shape, np.float32)])
    check(program, found, a, b)


@pytest.mark.parametrize("program", IN_THE_MODEL, ids=str)
def test_the_model_agrees(program: OfTerms, tmp_path: Path) -> None:
    check_in(Model(parse_text(levels(program, tmp_path).text("loops"), "loops")), program)


TURNING = OfTerms(64, 64, 200)
FAULTS = {
    "the scale of small terms is forgotten": Fault(
        r"dense<3\.906250e-03>", "dense<1.0>", NUMBERS
    ),
    "one term is multiplied for another": Fault(
        r"bulk_load %map_1\[", "bulk_load %map[", NUMBERS
    ),
    "a term is not waited for": Fault(
        r"(barrier_expect %\d+), 49152", r"\1, 40960",
        "not brought yet|nobody has written|nobody can go on",
    ),
    "small sums are used before they are there": Fault(
        r"(wgmma_wait %\d+), 0 ", r"\1, 1 ", "before they are waited for"
    ),
    "terms are released before the last product": Fault(
        rf"(?s)(%\d+ = mlc_gpu\.wgmma_wait (?:(?!wgmma_wait|barrier_arrive).)*)"
        rf"(%\d+ = arith\.cmpi eq, [^\n]*\n\s*{ARRIVE}\n)",
        r"\2\1", "overwritten", -1,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def turning(tmp_path_factory: pytest.TempPathFactory) -> str:
    """In two places, so that they are filled again."""
    found = levels(TURNING, tmp_path_factory.mktemp("terms"))
    plan = parse_text(found.text("plan").replace("stages(4)", "stages(2)"), "plan")
    return str(run_pipeline(plan, found.options, until="loops", done="plan"))


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_terms_are_found(name: str, turning: str) -> None:
    def agrees(model: Model) -> bool:
        try:
            check_in(model, TURNING)
        except AssertionError:
            return False
        return True

    found = verdict(turning, FAULTS[name], agrees)
    assert re.search(FAULTS[name].message, found), found


@needs_ptxas
@pytest.mark.parametrize("form", FORMS)
def test_the_assembler_keeps_both_sums_in_registers(form: str, tmp_path: Path) -> None:
    units = levels(OfTerms(1024, 1024, 1024, form=form, relu=True), tmp_path).units()
    (ptx,) = (x for x in (emit_ptx(unit.text, H200) for unit in units) if "wgmma" in x)
    assert ptx.count("wgmma.mma_async") == 4 * 6
    checked(ptx, H200.sm, tmp_path)


def product(a: Any, b: Any) -> Any:
    return a @ b


def templates(text: str) -> list[str]:
    return re.findall(r'mlc.kernel "([a-z]+)"', text)


def test_large_products_are_split() -> None:
    def kernels(m: int | str, n: int | str, k: int | str, target: str, **options: Any) -> int:
        args = spec(m, k), spec(k, n)
        return len(templates(planned(product, *args, target=target, **options).text("plan")))

    assert kernels(4096, 4096, 4096, "cuda:h200") == 3
    assert kernels(4096, 4096, 4096, "cuda:h200", numerics="fast") == 1
    assert kernels(4096, 4096, 4096, "cuda:sm_80") == 1
    assert kernels(4096, 4095, 4096, "cuda:h200") == 1  # rows begin where no copy may
    assert kernels("M", 4096, 4096, "cuda:h200") == 1
    assert kernels(256, 256, 256, "cuda:h200") == 1


def test_products_share_terms() -> None:
    def gradients(x: Any, w: Any, d: Any) -> Any:
        return x @ w, d @ w.T, x.T @ d

    text = planned(gradients, *[spec(4096, 4096)] * 3, target="cuda:h200").text("plan")
    assert sorted(templates(text)) == ["cell"] * 3 + ["contraction"] * 3
    assert text.count("mlc.term ") == 9


def test_a_computed_factor_is_stored_in_terms_alone() -> None:
    def layers(x: Any, w: Any, v: Any) -> Any:
        return np.maximum(x @ w, 0) @ v

    text = planned(layers, *[spec(4096, 4096)] * 3, target="cuda:h200").text("plan")
    assert sorted(templates(text)) == ["cell"] * 3 + ["contraction"] * 2
    first = text.split('mlc.kernel "contraction"')[1].split("schedule")[0]
    assert first.count("mlc.term ") == 3
    assert "tile(m 128" in text.split('mlc.kernel "contraction"')[1]
