"""Rules as patterns of xDSL, and of its PDL dialect: they do what our own driver does."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp, StringAttr
from xdsl.dialects.func import Func
from xdsl.dialects.pdl import PDL, RewriteOp
from xdsl.interpreters.pdl import PDLRewritePattern
from xdsl.parser import Parser
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriteWalker,
    RewritePattern,
)

from mlc.dialects.tensor.registry import MLC
from mlc.passes.rules.apply_rules import ApplyRulesPass
from mlc.passes.rules.instances import instances
from mlc.passes.rules.load import FAMILIES, family, rules_of
from mlc.passes.rules.pattern import RulePattern
from mlc.passes.rules.pdl import why_not
from mlc.passes.rules.rule import Rule
from mlc.passes.rules.text import parse
from mlc.passes.rules.tokens import RuleError
from mlc.passes.tensor.dce import DcePass
from mlc.rule_files import patterns

WRITTEN = [rule for name in FAMILIES for rule in family(name)]
IN_PDL = [rule for rule in WRITTEN if not why_not(rule)]


def context() -> Context:
    """What reads programs and patterns."""
    found = Context()
    for dialect in (Builtin, Func, PDL, MLC):
        found.load_dialect(dialect)
    return found


def by_our_driver(rule: Rule, module: ModuleOp) -> str:
    rules_of([rule]).sweep(module)
    return cleaned(module)


def by_xdsl(found: list[RewritePattern], module: ModuleOp) -> str:
    applier = GreedyRewritePatternApplier(found, dce_enabled=False)
    PatternRewriteWalker(applier).rewrite_module(module)
    return cleaned(module)


def cleaned(module: ModuleOp) -> str:
    DcePass().apply(Context(), module)
    module.verify()
    return str(module)


@pytest.mark.parametrize("rule", WRITTEN, ids=[rule.name for rule in WRITTEN])
def test_both_drivers_do_the_same(rule: Rule) -> None:
    module = instances(rule)[0].module
    module.attributes["mlc.numerics"] = StringAttr("fast")
    before, ours = cleaned(module.clone()), by_our_driver(rule, module.clone())
    assert ours != before
    assert by_xdsl([RulePattern(rule)], module.clone()) == ours
    if rule in IN_PDL:
        text = patterns([rule])
        read = Parser(context(), text).parse_module()
        read.verify()
        found = [
            PDLRewritePattern(op, context()) for op in read.walk() if isinstance(op, RewriteOp)
        ]
        assert found
        assert by_xdsl([*found], module.clone()) == ours


def test_what_pdl_can_say() -> None:
    """Of values of one type without constants: what ops are for no other dtypes than the rule."""
    assert {rule.name for rule in IN_PDL} == {
        "add_negated", "add_to_negated", "subtract_negated", "negate_twice", "extremum_of_one",
        "round_twice", "complement_twice", "same_twice", "logarithm_of_exponential",
        "exponential_of_logarithm", "root_times_itself",
    }  # fmt: skip
    reasons = {why_not(rule).split(":")[0] for rule in WRITTEN} - {""}
    said = ("a constant", "dtypes", "index letters", "sizes")
    assert {x for x in reasons if not x.startswith("the guard ")} == {*said}


def test_rules_of_a_file_need_a_grade_and_their_derivation(tmp_path: Path) -> None:
    text = """
rule negated_twice
  class exact
  given %x : float
  left
    yield neg (neg %x)
  right
    yield %x
"""
    path = tmp_path / "mine.rules"
    (rule,) = parse(text)
    module = instances(rule)[0].module
    for grade, message in (
        ("", "mine.rules:2: rule negated_twice: it has no grade; expected what `mlc rules verify"),
        ("  grade axiomatic instances 4 shapes proven\n", "no derivation that holds"),
    ):
        path.write_text(text + grade)
        with pytest.raises(RuleError, match=message):
            ApplyRulesPass(str(path)).apply(Context(), module)
    path.write_text(f"{text}  grade tested instances 4 shapes instances\n")
    ApplyRulesPass(str(path)).apply(Context(), module)
    assert "mlc.neg" not in cleaned(module)
