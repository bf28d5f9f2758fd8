"""
`mlc superopt`: rewrites that the passes do not make by themselves, tried in any order and judged by
the plan that follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mlc.backends import RULES
from mlc.levels import Levels
from mlc.options import By
from mlc.passes.rules.rule import Rule
from mlc.passes.rules.saturate import Saturated
from mlc.passes.rules.search import ALPHA, PLANS, Search
from mlc.pipeline import apply_step, judge_by_plans, prepare
from mlc.searched import found_by, rules_of


def superopt(
    levels: Levels,
    rules: Sequence[Rule] = (),
    *,
    by: By = "search",
    plans: int = PLANS,
    alpha: float = ALPHA,
) -> Search | Saturated:
    """
    `search`, or `saturate`, with `rules`, those that `levels` is compiled with (`discover=`) and
    those that come with mlc, from the program on as it was written, judged by the plan that
    follows, fusion included.
    """
    own = levels.options.discover
    module = levels.at_trace()
    prepare(module, levels.options)
    for step in RULES:
        module = apply_step(step, module, levels.options, Context())
    judge = judge_by_plans(levels.options, levels.known_sizes({}))
    every = [*rules, *(rules_of(own) if own else ())]
    return found_by(by, module, every, judge, levels.options, plans=plans, alpha=alpha)


def compiled(levels: Levels, module: ModuleOp) -> Callable[..., object]:
    """A program of a search as code in this process."""
    from mlc.executable import compile_module

    options = replace(levels.options, discover=None)  # it is what was found
    return compile_module(module.clone(), levels.signature, options)
