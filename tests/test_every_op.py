"""
Every op of `OPS` on every dtype and shape class: its text reads back, `infer` says what `reference`
gives, and compiled code gives it too, within a stated tolerance. Every run has every case in one
class of shapes, and every op, every form of it and every dtype in each (`covering`); slow tests
have all cases in each class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from mlc.dialects.dtypes import BF16, BOOL, C64, C128, DTYPES, F16, F32, F64, I8, I64, U16, DType
from mlc.dialects.tensor.op import OpBuilder, TensorOp
from mlc.dialects.tensor.registry import OPS
from mlc.runtime.interpret import interpret
from mlc.text import parse_text, verify_text
from tests.every_op.cases import Case
from tests.every_op.covering import covering, dtype_of
from tests.every_op.elementwise import creation, elementwise, ranks, special_pairs, takes
from tests.every_op.facts import raw_references
from tests.every_op.moving import moving
from tests.every_op.native import (
    Argument,
    Array,
    compile_plan,
    evaluate,
    function_module,
    signature_of,
    to_plan,
)
from tests.every_op.ordering import ORDERING
from tests.every_op.reducing import contraction, contractions, reductions
from tests.every_op.shapes import LAYOUTS, SHAPE_CLASSES, SIZES, SYMBOLS, ShapeClass, sizes
from tests.every_op.windows import WINDOWED

Family = Callable[[ShapeClass], Iterator[Case]]

# conversions between all dtypes and the text of each op do not depend on the sizes
THOROUGH = tuple(c for c in SHAPE_CLASSES if c.name in ("odd", "symbolic_strided"))
FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "elementwise": lambda c: elementwise(c.dims("m", "n"), all_forms=c in THOROUGH),
        "ranks": ranks,
        "creation": creation,
        "moving": moving,
        "reductions": reductions,
        "contractions": contractions,
        **ORDERING,
        **WINDOWED,
    }
)
ODD = next(c for c in SHAPE_CLASSES if c.name == "odd")
CASES_PER_FUNCTION = 60


# One function per batch of cases


Batch = tuple[list[Case], tuple[str, ...]]


def _batches(family: str, c: ShapeClass, among: Sequence[ShapeClass] = ()) -> list[Batch]:
    """
    Cases that one function can hold, with the sizes at which all of them are defined: all that the
    family has, or those that are c's among classes that share them.
    """
    groups: dict[tuple[str, ...], list[Case]] = {}
    for case in _shared(family, tuple(among))[c.name] if among else _cases(family, c):
        runs = tuple(run for run in c.runs if case.defined(SIZES[run]))
        groups.setdefault(runs, []).append(case)
    return [
        (cases[k : k + CASES_PER_FUNCTION], runs)
        for runs, cases in groups.items()
        for k in range(0, len(cases), CASES_PER_FUNCTION)
        if runs
    ]


def _cases(family: str, c: ShapeClass) -> list[Case]:
    return [x for x in FAMILIES[family](c) if any(x.defined(SIZES[run]) for run in c.runs)]


@cache
def _shared(family: str, among: tuple[ShapeClass, ...]) -> Mapping[str, list[Case]]:
    return covering({c.name: _cases(family, c) for c in among})


def _module(cases: Sequence[Case], c: ShapeClass) -> ModuleOp:
    """One function that gives the result of every case."""
    arguments: list[Argument] = []
    for case in cases:
        arguments += case.arguments(c.strided)

    def body(b: OpBuilder, values: Sequence[SSAValue]) -> list[SSAValue]:
        rest = iter(values)
        return [case.build(b, [next(rest) for _ in case.operands]) for case in cases]

    if not c.symbolic:
        return function_module(arguments, body)
    # one argument more, which names the sizes
    named = Argument(BOOL, c.dims(*SYMBOLS))
    return function_module([*arguments, named], body, SYMBOLS)


def _arrays(cases: Sequence[Case], c: ShapeClass, run: str, layout: str) -> list[list[Array]]:
    """The arguments of each case, and last those of the function itself."""
    rng = np.random.default_rng([list(SIZES).index(run), list(LAYOUTS).index(layout)])
    arrays = [case.draw(rng, SIZES[run], layout) for case in cases]
    named = [np.zeros([SIZES[run][s] for s in SYMBOLS], bool)] if c.symbolic else []
    return [*arrays, named]


def _flat(arrays: Sequence[Sequence[Array]]) -> list[Array]:
    return [x for group in arrays for x in group]


# Compiled code


FAST = ("zero_inner", "one", "odd", "odd_strided", "symbolic")
"""The shape classes of every run: 0, 1, odd, any and negative strides, symbolic."""
SHARING = tuple(c for c in SHAPE_CLASSES if c.name in FAST)


SHARED = [
    *(pytest.param(c, SHARING, id=c.name) for c in SHARING),
    *(pytest.param(c, (), marks=pytest.mark.slow, id=f"{c.name}-all") for c in SHAPE_CLASSES),
]


@pytest.mark.parametrize(("c", "among"), SHARED)
@pytest.mark.parametrize("family", FAMILIES)
def test_compiled_gives_the_reference(
    family: str, c: ShapeClass, among: Sequence[ShapeClass]
) -> None:
    faults: list[str] = []
    for cases, runs in _batches(family, c, among):
        faults += _compare(cases, c, runs)
    assert not faults, "\n".join(faults)


RUNS = 1
"""Of a call, whose results have the same bits each time."""


def _compare(cases: Sequence[Case], c: ShapeClass, runs: Sequence[str]) -> list[str]:
    """What differs between compiled code and reference, one line per case and run."""
    module = _module(cases, c)
    judge = module.clone()
    call = compile_plan(to_plan(module), signature_of(judge))
    faults: list[str] = []
    for run in runs:
        for layout in LAYOUTS if c.strided else ("contiguous",):
            arrays = _arrays(cases, c, run, layout)
            flat = _flat(arrays)
            wanted = interpret(judge, flat, SIZES[run] if c.symbolic else {})
            found = call(*flat)
            for _ in range(RUNS - 1):
                again = call(*flat)
                pairs = zip(cases, found, again, strict=False)
                faults += [
                    f"{case} [{run}, {layout}]: other bits in another run"
                    for case, x, y in pairs
                    if x.tobytes() != y.tobytes()
                ]
            for case, inputs, got, want in zip(cases, arrays, found, wanted, strict=False):
                if fault := _fault(case, got, want, inputs):
                    faults.append(f"{case} [{run}, {layout}]: {fault}")
    return faults


def _fault(case: Case, got: Array, want: Array, inputs: Sequence[Array]) -> str:
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype}{got.shape}, expected {want.dtype}{want.shape}"
    try:
        case.tolerance.check(got, want, inputs)
    except AssertionError as error:
        return " ".join(str(error).split())[:300]
    return ""


def test_special_values_meet_special_values() -> None:
    cases = list(special_pairs())
    faults = [
        fault
        for k in range(0, len(cases), CASES_PER_FUNCTION)
        for fault in _compare(cases[k : k + CASES_PER_FUNCTION], ODD, ("odd",))
    ]
    assert not faults, "\n".join(faults)


# Packed contractions: sizes around the edges of register tiles and blocks

PACKED = {
    "square": sizes(64, 64, 64),
    "odd": sizes(51, 70, 53),
    "deep": sizes(37, 40, 531),  # more than one block of the summed axis
    "wide": sizes(9, 1100, 29),
    "few_rows": sizes(4, 300, 130),
}
PACKED_LETTERS = (
    "mk,kn->mn",
    "km,kn->mn",
    "mk,nk->mn",
    "mk,kn->nm",
    "bmk,bkn->bmn",
    "bmk,kn->bmn",
    "mk,kbn->mbn",
    "mk,bkn->mbn",
    "mk,kbn->bmn",
    "mkl,kln->mn",
    "mkl,lkn->mn",
    "mkb,kbn->mbn",
)


@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("strided", [False, True], ids=["contiguous", "strided"])
def test_packed_contractions(symbolic: bool, strided: bool) -> None:
    faults: list[str] = []
    dtypes = (F32, F64, I64) if not strided else (F32,)
    groups = [tuple(PACKED)] if symbolic else [(run,) for run in PACKED]
    for runs in groups:
        c = ShapeClass("packed", runs, symbolic, strided)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tests.every_op.shapes.SIZES", {**SIZES, **PACKED})
            patch.setitem(globals(), "SIZES", {**SIZES, **PACKED})
            cases = [contraction(c, text, d) for d in dtypes for text in PACKED_LETTERS]
            if not strided:  # sums in f32, parts apart, wrapping around: other register tiles
                narrow = (BF16, F16, C64, C128, I8, U16)
                cases += [contraction(c, text, d) for d in narrow for text in PACKED_LETTERS[:3]]
            faults += _compare(cases, c, runs)
    assert not faults, "\n".join(faults)


# Facts

SHARED_FACTS = [
    *(pytest.param(c, THOROUGH, id=c.name) for c in THOROUGH),
    *(pytest.param(c, (), marks=pytest.mark.slow, id=f"{c.name}-all") for c in THOROUGH),
]


@pytest.mark.parametrize(("c", "among"), SHARED_FACTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_text_reads_back_and_infer_says_what_reference_gives(
    family: str, c: ShapeClass, among: Sequence[ShapeClass]
) -> None:
    for cases, runs in _batches(family, c, among):
        module = _module(cases, c)
        text = str(module)
        _reads_back(text)
        for run in runs[:: 3 if among else 1]:
            known: Mapping[str, int] = SIZES[run] if c.symbolic else {}
            flat = _flat(_arrays(cases, c, run, "contiguous"))
            for op, raw, value in raw_references(module, flat, known):
                assert value.shape == evaluate(op.shape, known), op
                assert raw.shape == value.shape, op
                assert raw.dtype == op.dtype.numpy, f"{op}: its reference gives {raw.dtype}"
        _reads_back(str(to_plan(module)))


def _reads_back(text: str) -> None:
    module = parse_text(text, "module.mlir")
    verify_text(module, text, "module.mlir")
    assert str(module) == text


def test_every_op_and_dtype_has_a_case(capsys: pytest.CaptureFixture[str]) -> None:
    total = runs_total = 0
    for c in SHAPE_CLASSES:
        covered: set[tuple[type[TensorOp], DType]] = set()
        cases = runs = 0
        for family in FAMILIES:
            for batch, sizes_ in _batches(family, c):
                covered |= {(case.op, dtype_of(case)) for case in batch}
                cases += len(batch)
                runs += len(batch) * len(sizes_) * (len(LAYOUTS) if c.strided else 1)
        missing = [f"{op.name} {d.name}" for op, d in _defined(c) if (op, d) not in covered]
        assert not missing, f"{c.name}: no case for {', '.join(missing)}"
        total, runs_total = total + cases, runs_total + runs
        with capsys.disabled():
            print(f"\n{c.name:>18}: {cases:5} cases, {runs:6} comparisons", end="")
    with capsys.disabled():
        print(f"\n{'all':>18}: {total:5} cases, {runs_total:6} comparisons")


@pytest.mark.parametrize("among", [SHARING, THOROUGH], ids=["compiled", "text"])
@pytest.mark.parametrize("family", FAMILIES)
def test_classes_that_share_the_cases_have_each(family: str, among: tuple[ShapeClass, ...]) -> None:
    every = {c.name: _cases(family, c) for c in among}
    shared = _shared(family, among)
    assert _texts(*shared.values()) == _texts(*every.values())
    for name, cases in shared.items():
        assert _texts(cases) <= _texts(every[name])
        assert _forms(cases) == _forms(every[name])


def _texts(*of_classes: Sequence[Case]) -> set[str]:
    return {str(case) for cases in of_classes for case in cases}


def _forms(cases: Sequence[Case]) -> set[object]:
    """Each op with each label, and with each kind of dtype, and each dtype."""
    forms: set[object] = {(case.op, case.label) for case in cases}
    return forms | {(x.op, dtype_of(x).kind) for x in cases} | {dtype_of(x) for x in cases}


def _defined(c: ShapeClass) -> Iterator[tuple[type[TensorOp], DType]]:
    """Every op with every dtype that it must take."""
    for op in OPS:
        for dtype in DTYPES:
            if op.name == "mlc.constant" and c.symbolic:
                continue
            if op.name in ("mlc.size", "mlc.within", "mlc.some", "mlc.room") and dtype is not I64:
                continue
            if op.name == "mlc.divisor" and dtype not in (I64, F32, F64, C128):  # Python's numbers
                continue
            if c.strided and op.name in ("mlc.constant", "mlc.iota", "mlc.size"):
                continue
            if takes(op, dtype):
                yield op, dtype


# What must raise


@pytest.mark.parametrize("index", [7, -8, 2**62, -(2**63)])
def test_an_index_out_of_range_raises_and_reads_nothing(index: int) -> None:
    c = ShapeClass("symbolic", ("odd",), symbolic=True)
    case = next(x for x in moving(c) if x.op.name == "mlc.gather" and x.label == "n0,k->nk")
    # "n0": rows of n, columns of m; m is 3 in "odd", so 7 and -8 lie outside
    module = _module([case], c)
    call = compile_plan(to_plan(module), signature_of(_module([case], c)))
    rng = np.random.default_rng(0)
    source, positions = case.draw(rng, SIZES["odd"], "contiguous")
    named = np.zeros([SIZES["odd"][s] for s in SYMBOLS], bool)
    call(source, positions, named)
    positions[-1] = index
    with pytest.raises(IndexError, match=f"index {index} .* size 3"):
        call(source, positions, named)
    positions[-1] = 0
    call(source, positions, named)  # the next call is not affected


@pytest.mark.parametrize("monoid", ["max", "min", "argmax", "argmin"])
def test_the_largest_of_nothing_raises(monoid: str) -> None:
    c = ShapeClass("symbolic", ("odd",), symbolic=True)
    label = f"{monoid} mn->m"
    case = next(x for x in reductions(c) if x.label == label and x.operands[0].dtype is F32)
    module = _module([case], c)
    call = compile_plan(to_plan(module), signature_of(_module([case], c)))
    named = np.zeros((3, 0, 1), bool)
    with pytest.raises(IndexError):  # the harness raises one error for every site
        call(np.zeros((3, 0), np.float32), named)
    (empty,) = call(np.zeros((0, 0), np.float32), np.zeros((0, 0, 1), bool))
    assert empty.shape == (0,)
