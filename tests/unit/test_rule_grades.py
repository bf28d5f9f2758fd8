"""Rules that are true have a grade, those that only look so are refused with a counterexample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.dims import Dim, tensor_type
from mlc.dialects.dtypes import F32, I32
from mlc.dialects.program import entry_function
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.elementwise import AddOp, DivOp, ExpOp, MulOp, NegOp, SubOp
from mlc.dialects.tensor.op import OpBuilder
from mlc.dialects.tensor.placing import PadOp
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tensor.shape import ConcatOp, SliceOp, TransposeOp
from mlc.passes.rules.degrees import degree_of
from mlc.passes.rules.grade import verify
from mlc.passes.rules.instances import instances
from mlc.passes.rules.load import FAMILIES, FOLDER, family, read_rules
from mlc.passes.rules.proofs import read_proofs
from mlc.passes.rules.residues import PAIR, PRIME, ROOT, Residues, ZeroDivisorError
from mlc.passes.rules.rule import Rule
from mlc.passes.rules.spell import spell, with_grades
from mlc.passes.rules.text import parse
from mlc.runtime.interpret import interpret
from tests.every_op.native import Argument, function_module

DATA = Path(__file__).parent.parent / "data" / "rules"
WRITTEN = [rule for name in FAMILIES for rule in family(name)]
RIGHT = read_rules(DATA / "right.rules")
FILES = [*(FOLDER / f"{name}.rules" for name in FAMILIES), DATA / "right.rules"]
OFTEN = len(WRITTEN) + 49  # that many in every run, of the others each fourth
PROOFS = {name: found for path in FILES for name, found in read_proofs(path).items()}
WRONG = read_rules(DATA / "wrong.rules")


def names(rules: Sequence[Rule]) -> list[str]:
    return [rule.name for rule in rules]


def test_every_family_is_listed() -> None:
    assert sorted(FAMILIES) == sorted(path.stem for path in FOLDER.glob("*.rules"))


GRADED = [
    pytest.param(rule, id=rule.name, marks=[] if k < OFTEN or k % 4 == 0 else pytest.mark.slow)
    for k, rule in enumerate([*WRITTEN, *RIGHT])
]


@pytest.mark.parametrize("rule", GRADED)
def test_rules_have_the_grade_that_verification_gives(rule: Rule) -> None:
    """One without a grade stays out: `mlc rules verify FILE --write` gives it."""
    verdict = verify(rule, interpret, PROOFS)
    assert verdict.grade is not None, str(verdict)
    assert rule.grade is not None, "no grade"
    assert rule.grade == verdict.grade, str(verdict)
    assert (verdict.bound is None) == (rule.grade.tests == 0)
    assert verdict.bound is not None or verdict.why_tested
    assert all(PROOFS.get(name) == found for name, found in verdict.derivations), "no derivation"
    assert bool(verdict.derivations) == (rule.grade.name == "axiomatic")


@pytest.mark.parametrize("rule", WRONG, ids=names(WRONG))
def test_wrong_rules_are_refused_with_a_counterexample(rule: Rule) -> None:
    verdict = verify(rule, interpret)
    assert verdict.grade is None, str(verdict)
    assert "where" in verdict.counterexample or "matched none" in verdict.counterexample
    assert f"{rule.name}: refuted: " in str(verdict)


def test_wrong_rules_are_wrong_in_all_ways() -> None:
    assert len(WRONG) >= 60
    found = " ".join(rule.says for rule in WRONG)
    kinds = ("sign", "axis", "off by one", "broadcasting", "true at one shape", "modulo p only",
             "NaN and inf", "empty dims", "class too strong", "order of results")  # fmt: skip
    assert not [kind for kind in kinds if kind not in found]


def test_every_rule_has_a_derivation() -> None:
    """What could have none would be listed here, with the reason, and in docs/rules.md."""
    unproven: dict[str, str] = {}
    grades = {rule.name: rule.grade for rule in (*WRITTEN, *RIGHT)}
    found = {name for name, grade in grades.items() if grade and grade.name == "axiomatic"}
    assert grades.keys() - found == unproven.keys()


def test_a_rule_without_a_derivation_is_probabilistic_or_tested() -> None:
    """What the axioms do not say is left to residues, and what these cannot to numbers."""
    unsaid = """
rule roots_of_exponentials
  class approximate
  given %x : float
  left
    yield mul (sqrt (exp %x)), (sqrt (exp (neg %x)))
  right
    yield const(1)

rule sum_by_cases
  class approximate
  given %x, %y : float
  left
    yield add (max %x, %y), (neg (abs (sub %x, %y)))
  right
    yield min %x, %y
"""
    found = [verify(rule, interpret) for rule in parse(unsaid)]
    grades = [verdict.grade and verdict.grade.name for verdict in found]
    assert grades == ["tested", "probabilistic"]
    assert all("no derivation: the sides end as" in str(verdict) for verdict in found)


def test_what_has_arithmetic_modulo_a_prime_is_tried_there() -> None:
    """Of bits, roundings, powers, roots and logarithms, and long comparisons there is none."""
    alone = {rule.name for rule in WRITTEN if rule.grade is not None and rule.grade.tests == 0}
    assert alone == {
        "round_twice", "complement_twice", "same_twice", "first_power", "zeroth_power", "square",
        "root_of_positive", "root_of_square", "logarithm_of_exponential",
        "exponential_of_logarithm", "root", "root_times_itself", "reduce_of_broadcast",
        "reduce_of_transpose", "reduce_of_transpose_turned", "reduce_twice",
    }  # fmt: skip


def test_grades_are_written_into_a_file() -> None:
    text = "# a file\n\n" + spell(RIGHT[:3]).replace("  grade ", "  # grade ")
    grades = {rule.name: rule.grade for rule in RIGHT[:3]}
    assert parse(with_grades(text, grades)) == RIGHT[:3]
    assert with_grades(with_grades(text, grades), grades) == with_grades(text, grades)
    assert with_grades(text, grades).startswith("# a file\n\nrule ")


def test_instances_are_the_same_in_every_run() -> None:
    rule = next(rule for rule in RIGHT if rule.name == "conv_of_concat")
    assert [c.text for c in instances(rule)] == [c.text for c in instances(rule)]
    assert any(0 in c.sizes() for c in instances(rule))
    assert any(1 in c.sizes() for c in instances(rule))


# Residues and degrees

Body = Callable[[OpBuilder, Sequence[SSAValue]], SSAValue]


def program(body: Body, *shapes: tuple[int, ...], dtype: Any = I32) -> Any:
    arguments = [Argument(dtype, tuple(map(Dim.const, shape))) for shape in shapes]
    return function_module(arguments, lambda b, x: [body(b, x)])


def parts(module: Any) -> tuple[list[SSAValue], list[Operation], SSAValue]:
    block = entry_function(module).body.block
    ops = list(block.ops)
    end = ops.pop()
    return list(block.args), ops, end.operands[0]


def sliced(b: OpBuilder, x: SSAValue) -> SSAValue:
    one = (Dim.const(1), Dim.const(-1))
    return b(SliceOp, x, offsets=(Dim.const(1), Dim.const(2)), steps=one,
             declared=tensor_type(I32.ir, (Dim.const(2), Dim.const(3))))  # fmt: skip


PROGRAMS: dict[str, tuple[Body, tuple[tuple[int, ...], ...]]] = {
    "contract": (lambda b, x: b(ContractOp, *x, letters="mk,kn->mn"), ((2, 3), (3, 4))),
    "sum": (lambda b, x: b(ReduceOp, x[0], monoid="sum", letters="abc->b"), ((2, 3, 4),)),
    "prod": (lambda b, x: b(ReduceOp, x[0], monoid="prod", letters="ab->b"), ((3, 4),)),
    "nothing": (lambda b, x: b(ReduceOp, x[0], monoid="prod", letters="ab->b"), ((0, 4),)),
    "arithmetic": (
        lambda b, x: b(
            AddOp, b(MulOp, *x), b(NegOp, b(SubOp, x[0], full(b, 3, I32, (Dim.const(5),))))
        ),
        ((5,), (5,)),
    ),
    "concat": (lambda b, x: b(ConcatOp, *x, axis=1), ((2, 3), (2, 1))),
    "slice": (lambda b, x: sliced(b, x[0]), ((4, 3),)),
    "transpose": (lambda b, x: b(TransposeOp, x[0], letters="ab->ba"), ((2, 3),)),
    "pad": (
        lambda b, x: b(
            PadOp, x[0], full(b, 7, I32, ()), low=(Dim.const(1),), high=(Dim.const(-1),)
        ),
        ((3,),),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_residues_are_what_the_reference_says_of_small_numbers(name: str) -> None:
    body, shapes = PROGRAMS[name]
    module = program(body, *shapes)
    arguments, ops, result = parts(module)
    rng = np.random.default_rng(4)
    arrays = [rng.integers(-5, 6, shape).astype(np.int32) for shape in shapes]
    run = Residues((PRIME,), 1, "difference")
    for value, array in zip(arguments, arrays, strict=True):
        run.values[value] = (array.astype(np.int64) % PRIME).astype(np.uint64)[..., None]
    run.run(ops, {})
    wanted = interpret(module, arrays)[0].astype(np.int64) % PRIME
    np.testing.assert_array_equal(run.values[result][..., 0].astype(np.int64), wanted)


def test_exponentials_turn_sums_into_products() -> None:
    p, q = PAIR
    assert (p - 1) % q == 0
    assert pow(ROOT, q, p) == 1 != ROOT
    rule = next(rule for rule in WRITTEN if rule.name == "multiply_exponentials")
    assert verify(rule, interpret).bound is not None


def test_a_divisor_of_zero_is_no_number() -> None:
    module = program(lambda b, x: b(DivOp, x[0], b(SubOp, x[0], x[0])), (2,), dtype=F32)
    arguments, ops, _ = parts(module)
    run = Residues((PRIME,), 1, "difference")
    run.values[arguments[0]] = np.array([[3], [4]], np.uint64)
    with pytest.raises(ZeroDivisorError):
        run.run(ops, {})


def test_constants_are_rational_numbers() -> None:
    run = Residues((PRIME,), 1, "difference")
    third = int(run.number(Fraction(1, 3))[0])
    assert third * 3 % PRIME == 1


DEGREES: list[tuple[Body, tuple[tuple[int, ...], ...], int]] = [
    (lambda b, x: b(MulOp, x[0], x[0]), ((3,),), 2),
    (lambda b, x: b(AddOp, x[0], b(MulOp, *x)), ((3,), (3,)), 2),
    (lambda b, x: b(ContractOp, *x, letters="mk,kn->mn"), ((2, 3), (3, 4)), 2),
    (lambda b, x: b(ReduceOp, x[0], monoid="prod", letters="ab->b"), ((3, 4),), 3),
    (lambda b, x: b(DivOp, x[0], b(MulOp, *x)), ((3,), (3,)), 2),
    (lambda b, x: b(ExpOp, b(AddOp, *x)), ((3,), (3,)), 2),
    (lambda b, x: b(TransposeOp, x[0], letters="ab->ba"), ((3, 2),), 1),
]


@pytest.mark.parametrize(("body", "shapes", "degree"), DEGREES)
def test_degrees(body: Body, shapes: tuple[tuple[int, ...], ...], degree: int) -> None:
    """Of a program beside 0."""
    arguments, ops, result = parts(program(body, *shapes, dtype=F32))
    zero = Block()
    nothing = full(OpBuilder(zero.add_op), 0, F32, ())
    assert degree_of([*ops, *zero.ops], arguments, [(result, nothing)]) == degree
