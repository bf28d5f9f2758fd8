"""
Certificates: what was rewritten from the traced program to the end of the tensor level, change by
change, with what each change rests on. `mlc.check` reads them, and shares no code with passes.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from mlc.certificate_ops import Json
from mlc.certificate_text import Text
from mlc.check import DERIVATIVES, SIZE, CertificateError, Terms, graded
from mlc.levels import Levels
from mlc.passes.rules.load import FAMILIES, family
from mlc.passes.rules.rule import Constant, Node, Rule, Term, Variable
from mlc.passes.tensor.rules import Entry, limited
from mlc.pipeline import apply_step, prepare, steps_of
from mlc.version import __version__

FAR = (99, 99)
LOOKS = ((0, 0), (1, 0), (2, 0), (1, 1), (0, 1), (3, 0), (2, 2), (5, 0), (4, 4), (8, 8), FAR)
"""How many ops before a value a claim looks at, before and after: the first that are enough."""
NEAR = 3  # of these, which cost little
NOT_COVERED = ("plan", "tiles", "loops", "code", "rounding, NaN and errors of probabilistic steps")


def certificate(levels: Levels) -> str:
    """
    The certificate of a program: what the passes of the tensor level do, for the target and the
    options of `levels`. It is the same text each time. What no claim can be made for says "none".
    """
    options, (module, writer) = levels.options, _traced(levels)
    for step in steps_of("tensor", options):
        with limited(heard=writer.rule):
            writer.step_name = step.name
            module = apply_step(step, module, options, Context())
        writer.rest(module)
    header = {
        "certificate": 2,
        "compiler": f"mlc {__version__}",
        "function": levels.name,
        "target": options.target.name,
        "numerics": options.numerics,
        "sizes": writer.text.sizes,
        "not_covered": NOT_COVERED,
    }
    return writer.written(header, module)


def lines_of(levels: Levels) -> list[str]:
    """A program as it was traced, as certificates have it."""
    _, writer = _traced(levels)
    return list(map(json.dumps, writer.records))


def _traced(levels: Levels) -> tuple[ModuleOp, _Writer]:
    """A program as it was traced, and what writes it down."""
    module = levels.at_trace()
    prepare(module, levels.options)
    return module, _Writer(module, dict.fromkeys(levels.signature.symbols, SIZE))


class _Writer:
    """Steps, as they are found."""

    def __init__(self, module: ModuleOp, sizes: Mapping[str, int]) -> None:
        self.terms = Terms()
        self.text = Text(self.terms, sizes)
        self.step_name, self.steps = "", 0
        self.rules: dict[str, Entry] = {}
        self.roots: dict[str, set[str]] = {}
        self.head = self.text.program(module)
        self.records: list[Any] = [*self.text.taken(), self.head]
        self.seen = self.text.seen()
        self.looks = _looks(module)

    def rule(
        self, entry: Entry, op: Operation, value: SSAValue, built: Sequence[Operation]
    ) -> None:
        """A rule was applied. Where ops are not as they were last, `rest` finds what it did."""
        state, level = self.text.state(), _level(op)
        try:
            was = self.text.names[op.results[0]]
            for x in built:
                if x.parent is not None:
                    self.text.op(x, level)
            now = self.text.names[value]
            if self.terms.of([self.text.op(op, level)[0]]) != self.terms.of([was]):
                raise LookupError(was)
            self.text.names[op.results[0]] = was
        except LookupError:
            self.text.go_back(state)
            return
        self.rules[entry.name] = entry
        self.roots.setdefault(entry.name, set()).add(op.name.removeprefix("mlc."))
        kept = self.seen - set(self.terms.of([was]))
        self._step()
        self.records += self.text.taken()
        self.records.append({"rule": entry.name, **self._claim(was, now, LOOKS[0], kept)})

    def rest(self, module: ModuleOp) -> None:
        """What else a pass has done."""
        if (now := _looks(module)) == self.looks:
            return
        self.looks = now
        state = self.text.state()
        head = self.text.program(module)
        ends = [self.terms.of(x["results"]) for x in (self.head, head)]
        if self.text.lines or ends[0] != ends[1]:
            search = _Search(self.text, self.seen & self.text.seen())
            for was, now in zip(self.head["results"], head["results"], strict=True):
                search.proven(*self.terms.of([was, now]), must=True)
            kept = {self.text.called[x] for x in search.kept if x in self.text.called}
            self.text.go_back(state)
            self._again(module, search.claims, kept)
        else:
            self.head = head
        self.seen = self.text.seen()

    def _again(
        self,
        module: ModuleOp,
        wanted: Sequence[tuple[str, tuple[int, int], tuple[int, int]]],
        kept: set[str],
    ) -> None:
        """The program with claims as soon as there is what they are about."""
        self._step()

        def visited(visit: int, names: Sequence[str]) -> None:
            for was, (at, which), looks in wanted:
                if at == visit:
                    self.records += self.text.taken()
                    known = set(self.terms.of([x for x in kept if x in self.terms.names]))
                    self.records.append(self._claim(was, names[which], looks, known))

        self.text.heard = visited
        self.head = self.text.program(module)
        self.text.heard = None
        self.records += self.text.taken()

    def _step(self) -> None:
        self.steps += 1
        self.records.append({"step": self.steps, "pass": self.step_name})

    def _claim(self, was: str, now: str, looks: tuple[int, int], kept: set[int]) -> Json:
        """A claim, from which on values are equal."""
        found = _graded(self.text, was, now, kept, looks)
        found.pop("looks")
        self.text.same(was, now)
        return {"was": was, "is": now, **found}

    def written(self, header: Json, module: ModuleOp) -> str:
        """The certificate."""
        known = {rule.name: rule for name in FAMILIES for rule in family(name)}
        rules = [
            _rule(entry, known.get(name), self.roots[name])
            for name, entry in sorted(self.rules.items())
        ]
        last = Text(Terms(), self.text.sizes, len(self.terms.names))
        head = last.program(module)
        records = [header, *rules, *self.records, *last.taken(), head]
        lines = [json.dumps(x) for x in records]
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        return "\n".join([*lines, json.dumps({"digest": digest})]) + "\n"


def _looks(module: ModuleOp) -> list[tuple[Any, ...]]:
    """What a module is made of: whoever changes it changes this."""
    return [
        (op, *op.operands, *op.properties.items(), *(x for r in op.regions for x in r.block.args))
        for op in module.walk()
    ]


def _level(op: Operation) -> int:
    """How many regions an op is in."""
    parent = op.parent_op()
    return 0 if parent is None or isinstance(parent, FuncOp) else 1 + _level(parent)


class _Search:
    """Which values must be claimed to be equal, so that two programs are: as few as are enough."""

    def __init__(self, text: Text, kept: set[int]) -> None:
        self.text, self.terms, self.kept = text, text.terms, kept
        self.claims: list[tuple[str, tuple[int, int], tuple[int, int]]] = []
        self.failed: set[tuple[int, int]] = set()
        self._latest = self._newest()

    def _newest(self) -> dict[int, int]:
        return {self.terms.find(k): k for k in range(len(self.terms.terms))}

    def proven(self, was: int, now: int, *, must: bool = False) -> bool:
        """Whether values are equal, for which operands are looked at first."""
        was, now = self.terms.find(was), self.terms.find(now)
        if was == now:
            return True
        if not must and (was, now) in self.failed:
            return False
        a, b = (self.terms.terms[self._latest[x]] for x in (was, now))
        which = self._latest[was] - a.results.start == self._latest[now] - b.results.start
        if which and _alike(a, b):
            pairs = [*zip(a.operands, b.operands, strict=True)]
            for (_, x), (_, y) in zip(a.bodies, b.bodies, strict=True):
                pairs += zip(x, y, strict=True) if len(x) == len(y) else ()
            tried = [self.proven(*pair) for pair in pairs]  # each of them, for each is a claim
            if all(tried) and self.terms.find(was) == self.terms.find(now):
                return True
        names = self.text.called[self.terms.find(was)], self.text.called[self.terms.find(now)]
        found = _graded(self.text, *names, self.kept)
        if found["grade"] == "none" and not must:
            self.failed.add((was, now))
            return False
        self.claims.append((names[0], self.text.visit(names[1]), found["looks"]))
        self.text.same(*names)
        self._latest = self._newest()
        return True


def _alike(a: Any, b: Any) -> bool:
    """Whether two ops are of one kind."""
    kinds = [(x.name, x.props, len(x.operands), len(x.bodies)) for x in (a, b)]
    return kinds[0] == kinds[1]


def _graded(
    text: Text, was: str, now: str, kept: set[int], hint: tuple[int, int] = LOOKS[0]
) -> Json:
    """Grade and bound of a claim, with the nearest look that gives the best grade."""
    found = _tried(text, was, now, kept, hint)
    name = text.terms.terms[text.terms.names[was]].name
    if found["grade"] not in ("none", "tested") or name in DERIVATIVES:
        return found
    for number, looks in enumerate(LOOKS):
        if number == NEAR and _tried(text, was, now, kept, FAR)["grade"] == "none":
            return found  # what is wrong in the whole program is wrong from each place on
        better = _tried(text, was, now, kept, looks)
        if better["grade"] not in ("none", "tested"):
            return better
        found = better if found["grade"] == "none" else found
    return found


def _tried(text: Text, was: str, now: str, kept: set[int], looks: tuple[int, int]) -> Json:
    over = set[int]()
    for name, depth in zip((was, now), looks, strict=True):
        over |= _around(text.terms, text.terms.names[name], kept, depth)
    claim = {"was": was, "is": now, "over": [text.called[x] for x in sorted(over)]}
    try:
        grade, bound = graded(text.terms, claim, "")
    except Exception as error:  # noqa: BLE001 - whatever it is, there is no evidence
        return {"over": [], "looks": FAR, "grade": "none", "bound": None, "why": str(error)}
    return {"over": claim["over"], "looks": looks, "grade": grade, "bound": bound}


def _around(terms: Terms, value: int, kept: set[int], depth: int) -> set[int]:
    """Of what a value is computed from, what is `kept` and just more than so many ops away."""
    best, pending, over = dict[int, int](), [(value, depth)], set[int]()
    while pending:
        number, left = pending.pop()
        term, number = terms.terms[number], terms.find(number)
        if number in kept and number != terms.find(value):
            left -= 1
        if left < 0:
            over.add(number)
        elif best.get(number, -1) < left:
            best[number] = left
            if _is_unknown(term) and number != terms.find(value):
                over.add(number)
                continue
            inner = [x for _, ends in term.bodies for x in ends]
            pending += [(x, left) for x in (*term.operands, *inner)]
    return {x for x in over if terms.terms[x].name != "arg"}


def _is_unknown(term: Any) -> bool:
    """Whether the checker has no meaning of an op."""
    if term.bodies:
        return term.name not in ("for", "batch")
    return term.props.get("is", [""])[0] == "unknown"


def _rule(entry: Entry, rule: Rule | None, roots: set[str]) -> Json:
    """What a certificate says of a rule; of one that is a function, the ops that it rewrote."""
    grade, left, right = "function", ["|".join(sorted(roots))], ""
    if rule is not None:
        grade = "none" if rule.grade is None else f"{rule.grade.name}, {rule.grade.shapes}"
        choices = dict(rule.choices)
        left, right = (_side(side[0], choices) for side in (rule.left, rule.right))
    said = {"rule": entry.name, "class": entry.equivalence, "grade": grade}
    return {**said, "left": left, "right": right}


def _side(term: Term, choices: Mapping[str, Sequence[str]]) -> Any:
    """A side of a rule: an op with its operands, a variable, or "" for a constant."""
    match term:
        case Node():
            return [
                "|".join(choices.get(term.op, (term.op,))),
                *(_side(x, choices) for x in term.operands),
            ]
        case Variable():
            return term.name
        case Constant():
            return ""


def said(found: Json, *, partial: bool = False) -> str:
    """
    What `mlc.check` finds, in words. CertificateError where something is claimed without evidence,
    unless `partial`.
    """
    grades = Counter(claim["grade"] for claim in found["claims"])
    if grades["none"] and not partial:
        first = next(claim["why"] for claim in found["claims"] if claim["grade"] == "none")
        raise CertificateError(f"{grades['none']} claims without evidence; first: {first}")
    missed = sum(x["bound"] for x in found["claims"] if x["grade"] == "probabilistic")
    return (
        f"accepted: {found['function']} for {found['target']}, numerics {found['numerics']}\n"
        f"{found['steps']} changes; claims: {grades['identical']} identical,"
        f" {grades['probabilistic']} probabilistic (any is wrong with probability <= {missed:.1e}),"
        f" {grades['tested']} tested, {grades['none']} without evidence\n"
        f"not covered: {', '.join(found['not_covered'])}"
    )
