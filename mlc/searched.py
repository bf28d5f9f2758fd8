"""
`mlc.compile(discover=…)`: the program that a search by rules finds, in place of the one that was
written. What was found stays beside compiled code: a machine searches once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import cast

from xdsl.dialects.builtin import ModuleOp

from mlc.dialects.errors import CompilerBug, MlcError
from mlc.dialects.program import entry_function, symbols_of
from mlc.fingerprint import fingerprint
from mlc.options import ASSUMED_SIZE, Options, RuleFile
from mlc.passes.remarks import remark, unheard
from mlc.passes.report.report import plan_of
from mlc.passes.rules.load import parsed_rules
from mlc.passes.rules.rule import Rule
from mlc.passes.rules.search import Judge, applied, clean, matchers_of, op_at, search
from mlc.passes.tensor.rules import limited
from mlc.rule_files import checked
from mlc.runtime.cache import object_cache, object_key
from mlc.waiting import progress

Planned = Callable[[ModuleOp], ModuleOp]
"""The plan of a program, which may be rewritten."""
_Found = tuple[float, int, Sequence[tuple[int, int, float]]]


def searched(module: ModuleOp, options: Options, planned: Planned) -> None:
    """
    In place, what the search of `options.discover` finds: as it stands where no program should gain
    enough. RuleError where a rule makes no sense or is refuted.
    """
    assert options.discover is not None
    key = object_key(b"superopt", options.key().encode(), fingerprint(module))
    known = object_cache().get(key)
    if known is None:
        known = json.dumps(_found(module, options, planned)).encode()
        object_cache().put(key, known)
    start_s, judged, steps = cast("_Found", json.loads(known))
    if not steps:
        said = f"discover: no program of {judged} should gain a tenth on {_us(start_s)}"
        remark(entry_function(module), said)
        return
    matchers = matchers_of(module, _parsed(options.discover))
    before_s = start_s
    clean(module)
    for number, (matcher, op, predicted_s) in enumerate(steps, 1):
        root = op_at(module, op)
        name = matchers[matcher].rule.name
        which = f"step {number} of {len(steps)}, {judged} plans judged"
        remark(root, f"discover: {name}: {_us(before_s)} -> {_us(predicted_s)} ({which})")
        if not applied(matchers[matcher], root):
            raise CompilerBug(f"rule {name} was applied by the search, and cannot be any more")
        clean(module)
        before_s = predicted_s


def judge_of(options: Options, sizes: Mapping[str, int], planned: Planned) -> Judge:
    """
    Judges programs by their plans, for these values of symbols: what cannot be planned as the
    options say should take for ever.
    """

    def judged(module: ModuleOp) -> float:
        with unheard(), limited():  # what the passes do there is no part of the compilation
            plan = planned(module.clone())
        return plan_of(plan, options.target, sizes, options.thread_count()).predicted_s

    def judge(module: ModuleOp) -> float:
        try:
            return judged(module)
        except CompilerBug:
            raise
        except MlcError:  # a limit of memory, a schedule for one product
            return inf

    return judge


def _found(module: ModuleOp, options: Options, planned: Planned) -> _Found:
    """Seconds as it is, plans judged, and matcher, op and seconds of each step."""
    assert options.discover is not None
    rules = rules_of(options.discover)
    sizes = dict.fromkeys(symbols_of(entry_function(module)), ASSUMED_SIZE)
    with unheard():
        found = search(
            module.clone(),
            matchers_of(module, rules),
            judge_of(options, sizes, planned),
            progress=progress,
        )
    return found.start_s, found.judged, [(x.matcher, x.op, x.predicted_s) for x in found.steps]


def rules_of(file: RuleFile) -> list[Rule]:
    """A file's rules, each verified now; RuleError where one makes no sense or is refuted."""
    return checked(_parsed(file), file.path)


def _parsed(file: RuleFile) -> list[Rule]:
    return parsed_rules(file.text, file.path)


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us"
