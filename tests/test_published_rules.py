"""Published substitutions follow from the rules that discovery finds, where its ops say them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlc.discovery import Worker
from mlc.passes.discovery.find import discover, speaks_of
from mlc.passes.discovery.normal import Normal
from mlc.passes.discovery.order import WEIGHTS
from mlc.passes.discovery.terms import Pair, Term
from mlc.passes.discovery.words import DOCUMENTS, spaces
from mlc.passes.rules.load import read_rules
from mlc.passes.rules.rule import Constant, Node, Number, Rule, Variable
from mlc.passes.rules.rule import Term as RuleTerm
from mlc.passes.rules.spell import spell_letters

FILE = Path(__file__).parent / "data" / "rules" / "right.rules"
NO_SLICES = 21
"""Of the 96 those that have ops of the documents' set alone, and no slices."""


class OtherOpError(Exception):
    """A rule says something that is not enumerated."""


def as_pair(rule: Rule) -> Pair:
    """A rule of the ops that are enumerated as a pair of terms. Raises OtherOpError."""
    inputs = {name: k for k, name in enumerate(n for g in rule.given for n, _ in g.names)}
    ranks = {len(shape or "mn") for given in rule.given for _, shape in given.names}
    chosen = {name: known[0] for name, known in rule.choices}
    sides = [tuple(as_term(t, inputs, chosen) for t in side) for side in (rule.left, rule.right)]
    return Pair(sides[0], sides[1], tuple((k, max(ranks)) for k in inputs.values()))


def as_term(term: RuleTerm, inputs: dict[str, int], chosen: dict[str, str]) -> Term:
    if isinstance(term, Variable) and term.name in inputs:
        return inputs[term.name]
    if not isinstance(term, Node):
        raise OtherOpError(str(term))
    op = chosen.get(term.op, term.op)
    if op == "max" and term.operands[1] == Constant(Number(0)):
        return ("relu", as_term(term.operands[0], inputs, chosen))
    operands = tuple(as_term(x, inputs, chosen) for x in term.operands)
    return (_name(term, op), *operands)


def _name(term: Node, op: str) -> str:
    if op in ("add", "mul"):
        return op
    if op == "concat" and len(term.operands) == 2:
        axis = term.field("axis")
        assert isinstance(axis, Number)
        return f"concat{axis.value}"
    if term.letters is not None and not any(w.isupper() for w in spell_letters(term.letters)):
        words = ["".join(x.name for x in w.letters()) for w in term.letters.words()]
        if op == "transpose" and len(words[0]) == 2:
            return op
        if op == "contract" and words[0][1:] == words[1][:1] and len(words[2]) == 2:
            return "matmul"
        scales = [x.scale for w in term.letters.words() for x in w.letters()]
        if op == "conv" and len(words[1]) == 4 and set(scales) == {Number(1)}:
            return op
    raise OtherOpError(op)


@pytest.mark.slow
def test_published_substitutions_follow_from_discovered_rules() -> None:
    """At three ops; each side is rewritten, and both become one term."""
    with Worker(1, "here", None, None) as work:
        found = discover(spaces(DOCUMENTS), 3, None, work)
    normal = {len(space.inputs[0]): Normal(WEIGHTS, {"add", "mul"}) for space in spaces(DOCUMENTS)}
    for space in spaces(DOCUMENTS):
        for pair in found.rules:
            if speaks_of(pair, space):
                normal[len(space.inputs[0])].add(pair)
    derived: list[str] = []
    for rule in read_rules(FILE):
        try:
            pair = as_pair(rule)
        except OtherOpError:
            continue
        assert normal[max(rank for _, rank in pair.ranks)].is_joined(pair), rule.name
        derived.append(rule.name)
    assert len(derived) == NO_SLICES
    (space, _) = spaces(DOCUMENTS)
    first = Pair((("add", 0, 1),), (("mul", 0, 1),), ())
    assert speaks_of(first, space)
    assert not normal[2].is_joined(first)  # the check can fail
