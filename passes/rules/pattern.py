"""Rules as xDSL's rewrite patterns: any driver of xDSL can apply them."""

from __future__ import annotations

from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mlc.passes.rules.match import Matcher, root_classes
from mlc.passes.rules.rule import Rule
from mlc.passes.tensor.rules import Rewrite


class RulePattern(RewritePattern):
    """A rule as a pattern; what it writes is what `Rules.sweep` writes."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._classes, self._rewrite = root_classes(rule), Matcher(rule).rewriter()

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Replaces an op that the rule matches."""
        if type(op) not in self._classes or op.results[0].first_use is None:
            return
        rewrite = Rewrite()
        rewrite.anchor = op
        value = self._rewrite(op, rewrite)
        if value is not None:
            for new in rewrite.built:
                rewriter.handle_operation_insertion(new)
            rewriter.replace(op, [], [value])
