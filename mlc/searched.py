"""
`mlc.compile(discover=…)`: the program that a search by rules finds, in place of the one that was
written. What was found stays beside compiled code: a machine searches once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from io import StringIO
from math import inf

from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer

from mlc.dialects.errors import CompilerBug, MlcError
from mlc.dialects.program import entry_function, symbols_of
from mlc.fingerprint import fingerprint
from mlc.options import ASSUMED_SIZE, By, Options, RuleFile
from mlc.passes.cost.ops import apart_seconds
from mlc.passes.remarks import remark, unheard
from mlc.passes.report.report import plan_of
from mlc.passes.rules.load import parsed_rules
from mlc.passes.rules.rule import Rule
from mlc.passes.rules.saturate import Saturated, saturate
from mlc.passes.rules.search import (
    ALPHA,
    PLANS,
    Judge,
    Search,
    allowed_rules,
    applied,
    clean,
    matchers_of,
    op_at,
    search,
)
from mlc.passes.tensor.rules import limited
from mlc.rule_files import checked
from mlc.runtime.cache import object_cache, object_key
from mlc.text import parse_text
from mlc.waiting import progress

Planned = Callable[[ModuleOp], ModuleOp]
"""The plan of a program, which may be rewritten."""
_Steps = tuple[float, int, Sequence[tuple[int, int, float]]]
_Program = tuple[float, int, float, Sequence[tuple[str, str]], str]


def searched(module: ModuleOp, options: Options, planned: Planned) -> None:
    """
    In place, what `options.discover` finds: as it stands where no program should gain enough.
    RuleError where a rule makes no sense or is refuted.
    """
    assert options.discover is not None
    find, replay = WAYS[options.discover.by]
    key = object_key(b"superopt", options.key().encode(), fingerprint(module))
    known = object_cache().get(key)
    if known is None:
        known = json.dumps(find(module, options, planned)).encode()
        object_cache().put(key, known)
    found = json.loads(known)
    start_s, judged, *_, made = found
    if not made:
        said = f"discover: no program of {judged} should gain a tenth on {_us(start_s)}"
        remark(entry_function(module), said)
        return
    replay(module, options.discover, found)


def found_by(
    by: By,
    module: ModuleOp,
    rules: Sequence[Rule],
    judge: Judge,
    options: Options,
    *,
    plans: int = PLANS,
    alpha: float = ALPHA,
) -> Search | Saturated:
    """The best program that these rules and those of mlc lead to; `module` is cleaned."""
    if by == "search":
        return search(
            module, matchers_of(module, rules), judge, plans=plans, alpha=alpha, progress=progress
        )
    estimate = partial(apart_seconds, target=options.target, threads=options.thread_count())
    return saturate(
        module, allowed_rules(module, rules), judge, estimate, plans=plans, alpha=alpha,
        progress=progress,
    )  # fmt: skip


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


def _found(module: ModuleOp, options: Options, planned: Planned) -> Search | Saturated:
    assert options.discover is not None
    rules = rules_of(options.discover)
    sizes = dict.fromkeys(symbols_of(entry_function(module)), ASSUMED_SIZE)
    with unheard():
        judge = judge_of(options, sizes, planned)
        return found_by(options.discover.by, module.clone(), rules, judge, options)


# By steps: matcher, op and seconds of each


def _steps(module: ModuleOp, options: Options, planned: Planned) -> _Steps:
    found = _found(module, options, planned)
    assert isinstance(found, Search)
    return found.start_s, found.judged, [(x.matcher, x.op, x.predicted_s) for x in found.steps]


def _go(module: ModuleOp, file: RuleFile, found: _Steps) -> None:
    before_s, judged, steps = found
    matchers = matchers_of(module, _parsed(file))
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


# As a whole: the program's text, with its lines


def _program(module: ModuleOp, options: Options, planned: Planned) -> _Program:
    found = _found(module, options, planned)
    assert isinstance(found, Saturated)
    text = ""
    if found.modules:
        stream = StringIO()
        Printer(stream, print_debuginfo=True).print_op(found.best)
        text = stream.getvalue()
    return found.start_s, found.judged, found.best_s, found.rules, text


def _put(module: ModuleOp, file: RuleFile, found: _Program) -> None:
    start_s, judged, best_s, rules, text = found
    function = entry_function(module)
    said = f"{_us(start_s)} -> {_us(best_s)} ({len(rules)} rules, {judged} plans judged)"
    remark(function, f"discover: saturation: {said}")
    for rule, at in rules:
        remark(function, f"discover: {rule} at {at}")
    for op in list(module.body.block.ops):
        op.detach()
        op.erase(safe_erase=False)
    for op in list(parse_text(text, str(file.path)).body.block.ops):
        op.detach()
        module.body.block.add_op(op)


WAYS: Mapping[By, tuple[Callable[..., _Steps | _Program], Callable[..., None]]] = {
    "search": (_steps, _go),
    "saturation": (_program, _put),
}
"""What finds a program, as it is kept, and what makes it of the one that was written."""


def rules_of(file: RuleFile) -> list[Rule]:
    """A file's rules, each verified now; RuleError where one makes no sense or is refuted."""
    return checked(_parsed(file), file.path)


def _parsed(file: RuleFile) -> list[Rule]:
    return parsed_rules(file.text, file.path)


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us"
