"""Rules of a file as a pass that any driver of xDSL can run: `xdsl-opt -p mlc-apply-rules`."""

from __future__ import annotations

from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriteWalker,
    RewritePattern,
)

from mlc.dialects.numerics import MODES, numerics_of
from mlc.lazy_dataclass import dataclass
from mlc.passes.rules.derive import replay
from mlc.passes.rules.load import FAMILIES, FOLDER, read_rules
from mlc.passes.rules.pattern import RulePattern
from mlc.passes.rules.proofs import read_proofs
from mlc.passes.rules.rule import Rule
from mlc.passes.rules.tokens import RuleError
from mlc.passes.tensor.rules import EQUIVALENCE


@dataclass(frozen=True)
class ApplyRulesPass(ModulePass):
    """
    Applies rules, as far as the module's numerics allow their class, by xDSL's own greedy driver.
    Those of a file need a grade; derivations are replayed. What the driver of mlc makes of the same
    rules is the same, and takes less time.
    """

    name = "mlc-apply-rules"

    file: str = ""
    """Of rules; empty: those of mlc."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        allowed = MODES.index(numerics_of(op))
        rules = [rule for rule in _rules(self.file) if _is_allowed(rule, allowed)]
        patterns: list[RewritePattern] = [RulePattern(rule) for rule in rules]
        applier = GreedyRewritePatternApplier(patterns, dce_enabled=False)
        PatternRewriteWalker(applier).rewrite_module(op)


def _is_allowed(rule: Rule, allowed: int) -> bool:
    return EQUIVALENCE.index(rule.equivalence) <= allowed


def _rules(file: str) -> list[Rule]:
    if not file:
        return [x for name in FAMILIES for x in read_rules(FOLDER / f"{name}.rules")]
    rules, proofs = read_rules(file), read_proofs(Path(file))
    for rule in rules:
        if rule.grade is None:
            fault = "it has no grade"
        elif rule.grade.name == "axiomatic" and not replay(rule, proofs.get(rule.name, ())):
            fault = "no derivation that holds stands beside it"
        else:
            continue
        said = f"rule {rule.name}: {fault}; expected what `mlc rules verify FILE --write` writes"
        raise RuleError(f"{file}:{rule.line}: {said}")
    return rules
