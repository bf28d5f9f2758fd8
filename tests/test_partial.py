"""Programs that are wrong in some regions: which are found, and what corrections make of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Region, SSAValue

from mlc.dialects.dims import shape_of
from mlc.dialects.plan import KernelOp
from mlc.dialects.program import entry_function
from mlc.executable import compile_module
from mlc.frontend.call.compile import settings_of
from mlc.frontend.call.lowered import options_of
from mlc.frontend.importers.mlir import signature_of
from mlc.passes.partial.compare import (
    Pair,
    PartialError,
    compare,
    enumerate_positions,
    pair_of,
    share_at,
    wrong_positions,
)
from mlc.passes.partial.correct import corrected, wrong_boxes
from mlc.passes.partial.mutants import mutants
from mlc.pipeline import prepare, run_pipeline
from mlc.runtime.interpret import interpret
from mlc.text import parse_text
from tests.mutant_programs import (
    CASES,
    Case,
    added,
    conv,
    mask,
    padded,
    program,
    read,
    transposed,
    vectors,
    x,
)
from tests.random_partial import random_pair

MAX = """%m = mlc.reduce "max" "a->" %x : tensor<24xf64> -> tensor<f64>
%r = mlc.broadcast "->a" %m : tensor<f64> -> tensor<8xf64>
"""
OPEN = """func.func @f(%x: tensor<?xf32, #mlc.dims<"N">>) -> tensor<?xf32, #mlc.dims<"N">> {
  %r = mlc.neg %x : tensor<?xf32, #mlc.dims<"N">>
  func.return %r : tensor<?xf32, #mlc.dims<"N">>
}
"""


def pair(case: Case) -> Pair:
    functions = [entry_function(parse_text(t, "f.mlir")) for t in (case.original, case.mutant)]
    return pair_of(*functions)


def sizes(value: SSAValue) -> tuple[int, ...]:
    return tuple(n.evaluate({}) for n in shape_of(value.type))


@pytest.mark.parametrize("name", CASES)
def test_exactly_the_wrong_regions_are_found(name: str) -> None:
    case = CASES[name]
    both = pair(case)
    found = compare(both)
    assert not found.why
    wrong = wrong_boxes(found)
    said = sorted(",".join(map(str, box)) for box in wrong)
    assert said == sorted(case.wrong)
    # by enumeration: right regions are right everywhere, wrong ones wrong but where both meet
    listed = enumerate_positions(both)
    shape = sizes(both.left)
    regions = mask(shape, wrong)
    positions = mask(shape, [box for box, is_right in listed.regions() if not is_right])
    assert not (positions & ~regions).any()
    assert (regions & ~positions).sum() == case.agrees
    assert found.bound < 1e-14


@pytest.mark.parametrize("name", CASES)
def test_corrections_make_it_the_original(name: str) -> None:
    case = CASES[name]
    both = pair(case)
    found = compare(both)
    module = corrected(both, found, "f")
    module.verify()
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(sizes(x)) for x in both.arguments]
    (wanted,) = interpret(parse_text(case.original, "f.mlir"), arrays)
    (result,) = interpret(parse_text(str(module), "f.mlir"), arrays)
    if found.equivalence == "exact":
        assert np.array_equal(result, wanted)
    else:
        np.testing.assert_allclose(result, wanted, rtol=1e-12, atol=1e-12)


def test_one_position_of_a_region_proves_nothing() -> None:
    """Nor do two, where sums are of two reads: as many are tested as there are slopes."""
    both = pair(CASES["sums of two, equal at two positions"])
    found = compare(both)
    differs, _, _ = wrong_positions(both)
    assert differs.tolist() == [False, False, True, True]
    assert found.tested == len({1, -1, 2, -2})
    assert compare(pair(CASES["equal at the first position"])).tested == 2


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_pairs_against_enumeration(first: int) -> None:
    check_pairs(range(first, first + 20))


@pytest.mark.slow
def test_more_random_pairs_against_enumeration() -> None:
    check_pairs(range(60, 3000))


def check_pairs(seeds: Sequence[int]) -> None:
    """No wrong position in a right region, a wrong one in each wrong region, and corrections."""
    rng = np.random.default_rng(2)
    for seed in seeds:
        both = random_pair(seed)
        found, listed = compare(both), enumerate_positions(both)
        shape = sizes(both.left)
        positions = mask(shape, [box for box, is_right in listed.regions() if not is_right])
        for box, is_right in found.regions():
            assert positions[mask(shape, [box])].any() != is_right, (seed, box)
        module = corrected(both, found, "f")
        arrays = [rng.integers(-9, 9, sizes(x)).astype(float) for x in both.arguments]
        (wanted,), (result,) = interpret(as_module(both), arrays), interpret(module, arrays)
        assert np.array_equal(result, wanted), seed


def as_module(both: Pair) -> ModuleOp:
    """The original, which is taken out of the pair."""
    both.block.add_op(ReturnOp(both.left))
    kinds = [x.type for x in both.arguments]
    return ModuleOp([FuncOp("f", (kinds, [both.left.type]), Region(both.block))])


FAULTS: dict[str, tuple[str, str, str]] = {
    "other arguments": (
        vectors(x(0, 1)),
        transposed("mk,kn->mn"),
        "the mutant takes (tensor<4x4xf64>, tensor<4x4xf64>); expected (tensor<24xf64>,",
    ),
    "another result": (
        vectors(x(0, 1)),
        vectors(x(0, 1, 9), 9),
        "the mutant gives tensor<9xf64>; expected tensor<8xf64>, as the original",
    ),
    "open sizes": (
        OPEN,
        OPEN,
        "@f: mlc.neg; expected tensor ops on sizes that are known, without loops",
    ),
    "too many comparisons": (
        vectors(MAX),
        vectors(MAX.replace("%x", "%z")),
        "46 comparisons of numbers meet in an element",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_cannot_be_compared_is_refused(name: str) -> None:
    original, mutant, said = FAULTS[name]
    with pytest.raises(PartialError) as error:
        compare(pair(Case(original, mutant, ())))
    assert said in str(error.value)


def test_functions_that_are_no_sums_are_enumerated() -> None:
    """max(x[v], z[v]) and max(x[2 v], z[2 v]); the doubt that comparisons leave is in the bound."""
    sides = [
        x(0, step, 8, "a") + read("z", 0, step, 8, 24, "b") + added("a", "b", 8, op="max")
        for step in (1, 2)
    ]
    found = compare(pair(Case(vectors(sides[0]), vectors(sides[1]), ())))
    assert "mlc.max" in found.why
    assert [",".join(map(str, box)) for box in wrong_boxes(found)] == ["1:8"]
    assert found.tests > 20
    assert found.doubt <= found.bound < 1e-8


IMAGES = {
    "dilated": ("nc(y+2i)(x+2j),fcij->nfyx", "2x3x13x12", "4x3x3x3", "2x4x9x8"),
    "strided": ("nc(2y+i)(2x+j),fcij->nfyx", "2x3x11x10", "4x3x3x3", "2x4x5x4"),
    "grouped": ("ngc(y+2i)(x+j),gfcij->ngfyx", "2x2x3x11x6", "2x4x3x3x3", "2x2x4x7x4"),
    "a line": ("nyc(x+3i),fic->nyfx", "2x3x2x19", "4x4x2", "2x3x4x10"),
}
FEWEST = {"dilated": 25, "strided": 20, "grouped": 12, "a line": 12}
RIGHT = {
    "dilated": ("in 2 phases", "in 2 phases as images", "as one axis with the batch"),
    "strided": ("in 2 phases that are summed", "as one axis with the batch"),
    "grouped": ("in 2 phases", "in 2 phases as images", "as one axis with the batch"),
    "a line": ("in 3 phases", "in 3 phases as images", "as one axis with the batch"),
}


@pytest.mark.parametrize("name", IMAGES)
def test_mutants_of_convolutions(name: str) -> None:
    """All have the type; those of the documents are right at most positions, and corrected."""
    letters, image, weights, result = IMAGES[name]
    original = conv(letters, *(f"{dims}xf64" for dims in (image, weights, result)))
    function = entry_function(parse_text(original, "f.mlir"))
    found = list(mutants(function))
    assert len(found) >= FEWEST[name]
    rng = np.random.default_rng(3)
    arrays = [rng.integers(-4, 5, sizes(x)).astype(float) for x in function.body.block.args]
    (wanted,) = interpret(parse_text(original, "f.mlir"), arrays)
    right: set[str] = set()
    for mutant in found:
        mutant.function.verify()
        both = pair_of(function, mutant.function)
        if share_at(both, 16) < 0.6:
            continue
        comparison = compare(both)
        assert not comparison.why
        right.add(mutant.says.partition(", dilation ")[2].partition(", ")[2])
        (y,) = interpret(corrected(both, comparison, "f"), arrays)
        assert np.array_equal(y, wanted), mutant.says
    assert right >= set(RIGHT[name])


def test_zeros_around_images_are_left_out_and_put_back() -> None:
    """The border is wrong, and what is in it is computed by ops that read the zeros."""
    function = entry_function(parse_text(padded(1, 1), "f.mlir"))
    ending = "axis 2 with stride 1, dilation 1, without its zeros"
    (found,) = (m for m in mutants(function) if m.says.endswith(ending))
    wrong = wrong_boxes(compare(pair_of(function, found.function)))
    assert {",".join(map(str, box)) for box in wrong} == {"0:2,0:4,0", "0:2,0:4,8"}


def test_corrections_are_planned_like_any_other_op() -> None:
    """Slices of corrections, and what moves images, are read where they are needed."""
    case = CASES["seams between images"]
    both = pair(case)
    kernels: list[int] = []
    for fusion in ("none", "exact"):
        module = corrected(both, compare(both), "f")
        options = options_of(settings_of({"target": "avx512", "fusion": fusion}))
        prepare(module, options)
        planned = run_pipeline(module, options, until="plan")
        kernels.append(sum(isinstance(op, KernelOp) for op in planned.walk()))
    assert kernels[1] < kernels[0]


def test_what_both_end_in_is_left_out() -> None:
    """A bias and an activation: theorem 1 holds of what is before them."""
    end = "%b = mlc.add %a, %c : tensor<8xf64>\n%r = mlc.max %b, %c : tensor<8xf64>\n"
    bias = read("z", 1, 1, 8, 24, "c")
    sides = [vectors(bias + parts_of + end) for parts_of in (x(4, 1, 8, "a"), x(0, 2, 8, "a"))]
    found = compare(pair(Case(sides[0], sides[1], ())))
    assert (found.why, found.tested, found.tests) == ("", 2, 2)
    assert [",".join(map(str, box)) for box in wrong_boxes(found)] == ["0:8"]
    same = compare(pair(Case(sides[0], sides[0], ())))
    assert not same.wrong


def test_results_of_one_element_and_of_none() -> None:
    """A sum in another order is the same products; nothing is right everywhere."""
    total = '%r = mlc.reduce "sum" "ab->" %m : tensor<4x6xf64> -> tensor<f64>\n'
    rows = "%m = mlc.reshape %x : tensor<24xf64> -> tensor<4x6xf64>\n"
    columns = (
        "%n = mlc.reshape %x : tensor<24xf64> -> tensor<6x4xf64>\n"
        '%m = mlc.transpose "ab->ba" %n : tensor<6x4xf64> -> tensor<4x6xf64>\n'
    )
    sides = [program("%x: tensor<24xf64>", body + total, "f64") for body in (rows, columns)]
    found = compare(pair(Case(sides[0], sides[1], ())))
    assert (found.wrong, found.tested, found.equivalence) == (frozenset(), 1, "reassociating")
    first, second = (vectors(read("x", k, 1, 0, 24, "r"), 0) for k in (0, 1))
    nothing = pair(Case(first, second, ()))
    assert not compare(nothing).wrong
    corrected(nothing, compare(nothing), "f").verify()


@pytest.mark.parametrize("name", ["dilation by phases", "seams between images"])
def test_compiled_corrections_have_the_bits_of_the_original(name: str) -> None:
    """Of whole numbers, whose sums are exact in any order."""
    case = CASES[name]
    both = pair(case)
    rng = np.random.default_rng(4)
    arrays = [rng.integers(-9, 9, sizes(x)).astype(float) for x in both.arguments]
    results: list[Any] = []
    for module in (parse_text(case.original, "f.mlir"), corrected(both, compare(both), "f")):
        options = options_of(settings_of({}), runs=True)
        prepare(module, options)
        call = compile_module(module, signature_of(entry_function(module)), options)
        results.append(call(*arrays))
    assert np.array_equal(results[0], results[1])


@pytest.mark.parametrize(("factor", "wrong"), [(0.1, ()), (0.2, ("0:8",))])
def test_constants_that_are_no_small_fractions_are_variables(
    factor: float, wrong: tuple[str, ...]
) -> None:
    """0.1 x[v + 1], and a factor times what a longer product has from its second element on."""
    sides = [
        vectors(
            x(start, 1, count, "a")
            + f"%c = mlc.constant dense<{number}> : tensor<{count}xf64>\n"
            + added("a", "c", count, "r" if count == 8 else "p", "mul")
            + (read("p", 1, 1, 8, count, "r") if count != 8 else "")
        )
        for start, count, number in ((1, 8, 0.1), (0, 9, factor))
    ]
    found = compare(pair(Case(sides[0], sides[1], ())))
    assert (found.why, found.equivalence) == ("", "exact")
    assert found.degree == 2
    assert tuple(",".join(map(str, box)) for box in wrong_boxes(found)) == wrong
