"""
Rules as patterns of the PDL dialect, where it can say them: one for each choice of ops.

PDL knows values, ops and types by what was matched. It has no words of letters, no sizes, no class
of dtypes and no constants of any type, and xDSL runs no native functions in rewrites; why a rule
has no such pattern is said by `why_not`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from mlc.dialects.tensor.comparison import CompareOp, SelectOp
from mlc.passes.rules.rule import Constant, Node, Rule, Symbol, Term, Variable, terms
from mlc.passes.rules.vocabulary import FORMS

BOOL = "bool"


def pdl(rule: Rule) -> str:
    """The text of the patterns of a rule for which `why_not` is empty."""
    return "".join(
        _Pattern(rule, chosen, f"{rule.name}_{k}" if rule.choices else rule.name).text()
        for k, chosen in enumerate(_choices(rule))
    )


def why_not(rule: Rule) -> str:
    """Why PDL cannot say a rule; empty where it can."""
    every = [t for root in (*rule.left, *rule.right) for t in terms(root)]
    nodes = [t for t in every if isinstance(t, Node)]
    if len(rule.left) > 1:
        return "several results: a pattern has one root"
    if rule.where:
        return f"the guard {rule.where[0].predicate}: no native constraint goes with a text"
    if any(node.letters is not None for node in nodes):
        return "index letters: PDL compares texts, and letters have any names"
    if any(node.fields for node in nodes):
        return "sizes: attributes of the match are compared or kept, and nothing is computed"
    if any(isinstance(t, Constant) for t in every):
        return "a constant: its attribute has a type, which is any here"
    try:
        for chosen in _choices(rule):
            _Pattern(rule, chosen, rule.name).text()
    except _UnsaidError as error:
        return str(error)
    return ""


class _UnsaidError(Exception):
    """What a pattern cannot say."""


def _choices(rule: Rule) -> Iterator[dict[str, str]]:
    names = [name for name, _ in rule.choices]
    for chosen in product(*(known for _, known in rule.choices)):
        yield dict(zip(names, chosen, strict=True))


class _Pattern:
    def __init__(self, rule: Rule, chosen: Mapping[str, str], name: str) -> None:
        self.rule, self.chosen, self.name = rule, chosen, name
        self.types = {x: f"T{k}" for k, given in enumerate(rule.given) for x, _ in given.names}
        self.kinds = {f"T{k}": set(given.kinds) for k, given in enumerate(rule.given)}
        self.kinds[BOOL] = {BOOL}
        self.may_be: dict[str, set[str]] = {}
        self.known: dict[Term, tuple[str, str]] = {}  # the value of a term, and its type
        self.lines: list[str] = []
        self.typed: set[str] = set()
        self.count = 0

    def text(self) -> str:
        """The pattern."""
        (left,), (right,) = self.rule.left, self.rule.right
        root = self.value(left, "    ")
        for kind, found in self.may_be.items():
            if not found <= self.kinds[kind]:
                other = ", ".join(sorted(found - self.kinds[kind]))
                raise _UnsaidError(f"dtypes: its ops have {other}, too, of which the rule is not")
        matched = list(self.lines)
        self.lines, on_left = [], set(self.typed)
        result = self.value(right, "      ", on_left)
        op = root.replace("%r", "%o")
        new = [*self.lines, f"      pdl.replace {op} with ({result} : !pdl.value)"]
        head = f"  // {self.rule.says or self.rule.name} ({self.rule.equivalence})"
        body = [*matched, f"    pdl.rewrite {op} {{", *new, "    }"]
        return "\n".join([head, f"  pdl.pattern @{self.name} : benefit(1) {{", *body, "  }\n"])

    def value(self, term: Term, indent: str, on_left: set[str] | None = None) -> str:
        """A term's value; on the right its type must be one of those on the left."""
        key = Variable(term.name) if term.name is not None else term
        if key in self.known:
            return self.known[key][0]
        if isinstance(term, Variable):
            kind = self._type(self.types[term.name])
            found = f"%v{len(self.known)}"
            self.lines.append(f"    {found} = pdl.operand : %{kind}")
        else:
            assert isinstance(term, Node)
            found, kind = self._op(term, indent, on_left)
        self.known[key] = found, kind
        return found

    def _op(self, node: Node, indent: str, on_left: set[str] | None) -> tuple[str, str]:
        op = FORMS[self.chosen.get(node.op, node.op)].op
        values = [self.value(x, indent, on_left) for x in node.operands]
        by_value = dict(self.known.values())
        kinds = [by_value[value] for value in values]
        numbers = kinds[1:] if op is SelectOp else kinds
        if op is SelectOp:
            self.may_be[kinds[0]] = {BOOL}
        for kind in numbers:
            self.may_be[kind] = self.may_be.get(kind, set(op.KINDS)) & set(op.KINDS)
        result = BOOL if op is CompareOp else numbers[-1]
        if on_left is not None and result not in on_left:
            raise _UnsaidError("a type that no value of the left side has")
        self._type(result)
        number, self.count = self.count, self.count + 1
        said = ""
        if node.names:
            name = node.names[0]
            text = name if isinstance(name, str) else self._name(name)
            self.lines.append(f'{indent}%a{number} = pdl.attribute = "{text}"')
            said = f' {{"predicate" = %a{number}}}'
        given = f"({', '.join(values)} : {', '.join(['!pdl.value'] * len(values))})"
        self.lines += [
            f'{indent}%o{number} = pdl.operation "{op.name}" {given}{said}'
            f" -> (%{result} : !pdl.type)",
            f"{indent}%r{number} = pdl.result 0 of %o{number}",
        ]
        return f"%r{number}", result

    def _name(self, name: object) -> str:
        if isinstance(name, Symbol):
            return self.chosen[name.name]
        raise _UnsaidError("a property that is computed")

    def _type(self, kind: str) -> str:
        if kind not in self.typed:
            self.typed.add(kind)
            self.lines.insert(0, f"    %{kind} = pdl.type")
        return kind
