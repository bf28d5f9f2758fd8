"""Rules are read, printed, refused with a line, and driven by xDSL as by our own driver."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriteWalker

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import F32
from mlc.dialects.program import entry_function
from mlc.dialects.tensor.elementwise import AddOp, MulOp, NegOp, SubOp
from mlc.dialects.tensor.op import OpBuilder
from mlc.dialects.tensor.reduce import ContractOp
from mlc.dialects.tensor.shape import TransposeOp
from mlc.passes.gpu import expand_positions
from mlc.passes.rules.check import faults
from mlc.passes.rules.load import FAMILIES, FOLDER, family, rules_of
from mlc.passes.rules.match import Matcher, root_classes
from mlc.passes.rules.pattern import RulePattern
from mlc.passes.rules.rule import Rule
from mlc.passes.rules.spell import spell
from mlc.passes.rules.text import RuleError, asked, chunks, parse, roots
from mlc.passes.rules.vocabulary import FORMS
from mlc.passes.tensor import (
    divide_factors,
    exchange_sums,
    expand_partition,
    fold_views,
    sum_products,
)
from mlc.passes.tensor.canonicalize import _rules  # pyright: ignore[reportPrivateUsage]
from mlc.passes.tensor.dce import DcePass
from mlc.rule_files import table
from mlc.runtime.interpret import interpret
from tests.every_op.native import Argument, function_module

DOCS = Path(__file__).parent.parent.parent / "docs"
DATA = Path(__file__).parent.parent / "data" / "rules"
WITH_RULES = (
    divide_factors, exchange_sums, expand_partition, expand_positions, fold_views, sum_products,
)  # fmt: skip
WRITTEN = [rule for name in FAMILIES for rule in family(name)]

ASSOCIATIVE = """
rule associate
  class approximate
  dims m, k, l, n
  given %x [m, k], %y [k, l], %z [l, n] : float int
  left
    %p = contract "mk,kl->ml" %x, %y
    yield contract "ml,ln->mn" %p, %z
  right
    yield contract "mk,kn->mn" %x, (contract "kl,ln->kn" %y, %z)
  ways both
"""

TWO_RESULTS = """
rule share_the_square
  class approximate
  given %x, %y : float int
  left
    %s = sub %x, %y
    yield mul %s, %s, mul (sub %y, %x), %x
  right
    %n = sub %y, %x
    yield mul %n, %n, mul %n, %x
"""


def test_written_rules_make_sense() -> None:
    assert not [f"{rule.name}: {fault}" for rule in WRITTEN for fault in faults(rule)]
    names = [rule.name for rule in WRITTEN]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("rule", WRITTEN, ids=[rule.name for rule in WRITTEN])
def test_a_printed_rule_is_read_again(rule: Rule) -> None:
    assert parse(spell([rule])) == [rule]


@pytest.mark.parametrize("text", [ASSOCIATIVE, TWO_RESULTS])
def test_several_forms_are_read_again(text: str) -> None:
    rules = parse(text)
    assert parse(spell(rules)) == rules
    assert not list(faults(rules[0]))


def test_the_ops_of_roots_are_found_without_reading_a_rule() -> None:
    for name in FAMILIES:
        text = spell(family(name))
        found = [roots(lines) for _, lines in chunks(text, name)]
        assert [tuple(FORMS[op].op for op in ops) for ops in found] == [
            root_classes(rule) for rule in family(name)
        ]


@pytest.mark.parametrize("name", ["right", "wrong", *FAMILIES])
def test_what_makes_operands_is_found_without_reading_a_rule(name: str) -> None:
    path = FOLDER / f"{name}.rules" if name in FAMILIES else DATA / f"{name}.rules"
    text = path.read_text("utf-8")
    found = [asked(lines) for _, lines in chunks(text, name)]
    assert found == [Matcher(rule).asked() for rule in parse(text)]
    assert any(found)


RIGHT = """\
rule r
  class exact
  given %x : float
  left
    yield neg (neg %x)
  right
    yield %x
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rule r", "rules r", "f.rules:1: found 'rules r'; expected `rule NAME`"),
        ("class exact", "class exactly", "f.rules:2: found 'exactly'; expected 'exact' or 'reass"),
        ("  class exact\n", "", "f.rules:1: rule r has no `class`"),
        ("neg %x)", "nag %x)", "f.rules:5: found 'nag'; expected an op: one of neg, exp"),
        ("neg %x)", "add %x)", "f.rules:5: found ')'; expected 2 operands of add"),
        ("yield %x", "yield %x %x", "f.rules:7: found '%x'; expected the end of the line"),
        ("yield %x", "yield const(1 +)", "f.rules:7: found ')'; expected a number or a name"),
        (": float", ": floats", "f.rules:3: found 'floats'; expected 'float' or 'int'"),
        ("  left", "  where nice(%x)\n  left", "expected a comparison, or a predicate: argument"),
        ("  left", "  wherever 1 < 2\n  left", "f.rules:4: found 'wherever'; expected one of says"),
        ("yield %x", "yield transpose %x", "expected letters such as"),
        ("yield %x", 'yield reduce "som" "a->" %x', "expected one of sum, prod, max, min"),
        ("yield %x", "yield %x\nrule r\n", "f.rules:8: rule r has no `class`"),
        ("class exact", "class exact\n  class exact", "f.rules:3: `class` stands twice in rule r"),
        ("yield %x", "yield %x $", "found '$'; expected a name, a number"),
    ],
)
def test_wrong_text_is_refused_with_its_line(old: str, new: str, message: str) -> None:
    with pytest.raises(RuleError) as error:
        parse(RIGHT.replace(old, new, 1), "f.rules")
    assert message in str(error.value)


def test_a_file_may_hold_no_rule() -> None:
    assert parse("# none\n", "f.rules") == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("yield %x", "yield %y", "`right` reads %y, which `left` does not have"),
        ("given %x : float", "given %y : float", "%x has no `given`"),
        ("yield %x", "yield const(a)", "a is not declared"),
        ("yield neg (neg %x)", "yield %x", "`left` yields what is no op"),
        ("yield %x", "yield %x, %x", "`left` yields 1 values, `right` 2"),
        ("class exact", "class exact\n  letters of %p", "`letters of %p`, which `left` does not"),
        ("yield %x", 'yield transpose "P->Q" %x', "`right` has the letter P"),
        (
            "yield neg (neg %x)\n  right\n    yield %x",
            "%p = neg %x\n    yield %p\n  right\n    yield abs %p",
            "`right` reads %p, which `left` yields",
        ),
        ("yield neg (neg %x)", "yield add %x, const(1 + 1)", "`left` has const(…) of an express"),
    ],
)
def test_what_makes_no_sense_is_said(old: str, new: str, message: str) -> None:
    (rule,) = parse(RIGHT.replace(old, new, 1))
    assert message in "; ".join(faults(rule))


def test_sizes_on_the_right_are_known_on_the_left() -> None:
    text = RIGHT.replace("given", "dims n\n  given").replace(
        "yield %x", "yield reshape %x size [n]"
    )
    assert "`right` has n, which nothing in `left` says" in "; ".join(faults(parse(text)[0]))


def test_a_rule_of_two_ways_makes_sense_both_ways() -> None:
    (rule,) = parse(RIGHT.replace("  left", "  ways both\n  left"))
    assert "from right to left: `left` yields what is no op" in "; ".join(faults(rule))
    (rule,) = parse(ASSOCIATIVE)
    assert not list(faults(rule))
    back = rule.reversed()
    assert (back.left, back.right) == (rule.right, rule.left)


def test_a_name_stands_once() -> None:
    with pytest.raises(RuleError, match="rule r stands in line 1 already"):
        parse(RIGHT + RIGHT)


def test_the_table_of_rules_is_that_of_the_docs() -> None:
    """`mlc rules table` writes what stands below the heading of docs/rules-table.md."""
    page = (DOCS / "rules-table.md").read_text("utf-8")
    assert page.split("\n\n", 2)[2] == table(WRITTEN)


def test_functions_that_are_no_patterns_are_listed_with_the_reason() -> None:
    included = [_rules(16, 16), *(module.RULES for module in WITH_RULES)]
    names = {entry.name for rules in included for entry in rules.entries()}
    page = (DOCS / "rules.md").read_text("utf-8")
    rows = page.split("| function | why it is no pattern |")[1].split("\n\n")[0]
    listed = {
        name for row in rows.splitlines() for name in re.findall(r"`(\w+)`", row[1:].split("|")[0])
    }
    assert names - {rule.name for rule in WRITTEN} == listed


# Matching


def in_fast_numerics(module: ModuleOp) -> None:
    module.attributes["mlc.numerics"] = StringAttr("fast")


def argument(*sizes: int) -> Argument:
    return Argument(F32, tuple(map(Dim.const, sizes)))


def drawn(*sizes: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.random.default_rng(3).integers(-3, 4, sizes).astype(np.float32)


def test_letters_of_an_op_are_renamed() -> None:
    """The inner op's letters are its own; the outer one's name the axes."""
    module = function_module(
        [argument(2, 3), argument(3, 4), argument(4, 5)],
        lambda b, x: [
            b(ContractOp, b(ContractOp, x[0], x[1], letters="qp,pz->qz"), x[2], letters="ab,bc->ac")
        ],
    )
    in_fast_numerics(module)
    rules_of(parse(ASSOCIATIVE)).sweep(module)
    assert 'contract "ap,pc->ac"' in str(module)
    arrays = [drawn(2, 3), drawn(3, 4), drawn(4, 5)]
    np.testing.assert_array_equal(interpret(module, arrays)[0], arrays[0] @ arrays[1] @ arrays[2])


def test_two_letters_of_a_pattern_are_two_letters() -> None:
    text = ASSOCIATIVE.replace("ml,ln->mn", "ml,nl->mn").replace("kl,ln->kn", "kl,nl->kn")
    text = text.replace("%z [l, n]", "%z [n, l]")
    module = function_module(
        [argument(2, 3), argument(3, 4), argument(4, 5)],
        lambda b, x: [
            b(ContractOp, b(ContractOp, x[0], x[1], letters="qp,pz->qz"), x[2], letters="ab,bc->ac")
        ],
    )
    in_fast_numerics(module)
    before = str(module)
    rules_of(parse(text)).sweep(module)
    assert str(module) == before


def test_a_rule_of_two_results_rewrites_both() -> None:
    def body(b: OpBuilder, x: Sequence[SSAValue]) -> list[SSAValue]:
        first, second = x
        s = b(SubOp, first, second)
        return [b(MulOp, s, s), b(MulOp, b(SubOp, second, first), first)]

    module = function_module([argument(4), argument(4)], body)
    arrays = [drawn(4), drawn(4)[::-1]]
    wanted = interpret(module, arrays)
    in_fast_numerics(module)
    rules_of(parse(TWO_RESULTS)).sweep(module)
    again = interpret(module, arrays)
    for found, value in zip(again, wanted, strict=True):
        np.testing.assert_array_equal(found, value)
    returned = entry_function(module).body.block.last_op
    assert returned is not None
    square, product = (x.owner for x in returned.operands)
    assert isinstance(square, MulOp)
    assert isinstance(product, MulOp)
    assert square.lhs is product.lhs


def test_xdsl_drives_the_same_rules() -> None:
    """One sweep of ours, and xDSL's greedy driver: the same text."""

    def body(b: OpBuilder, x: Sequence[SSAValue]) -> list[SSAValue]:
        first, second = x
        inner = b(NegOp, b(NegOp, first))
        turned = b(TransposeOp, second, letters="ab->ba")
        return [b(AddOp, inner, b(NegOp, b(TransposeOp, turned, letters="ab->ba")))]

    ours, theirs = (function_module([argument(3, 4)] * 2, body) for _ in range(2))
    rules_of(WRITTEN).sweep(ours)
    patterns = GreedyRewritePatternApplier([RulePattern(r) for r in WRITTEN], dce_enabled=False)
    PatternRewriteWalker(patterns).rewrite_module(theirs)
    for module in (ours, theirs):
        DcePass().apply(Context(), module)
    assert str(ours) == str(theirs)
    assert "mlc.sub" in str(ours)
