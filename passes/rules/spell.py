"""Rules printed, as `text.py` reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlc.passes.rules.rule import (
    Apply,
    Constant,
    Expr,
    Grade,
    Guard,
    Letters,
    Listed,
    Node,
    Number,
    Rule,
    Symbol,
    Term,
    Variable,
    Word,
    terms,
)
from mlc.passes.rules.vocabulary import FORMS, INFIX

SIGNS = {predicate: sign for sign, predicate in INFIX.items()}
STRENGTH = {"+": 1, "-": 1, "*": 2, "/": 2}


def spell(rules: Sequence[Rule]) -> str:
    """The text of rules."""
    return "\n".join(map(spell_rule, rules))


def spell_rule(rule: Rule) -> str:
    """The text of one rule."""
    lines = [f"rule {rule.name}"]
    lines += [f"  {name} {text}" for name in ("says", "origin") if (text := getattr(rule, name))]
    lines.append(f"  class {rule.equivalence}")
    for name, known in rule.choices:
        kind = "op" if all(each in FORMS for each in known) else "name"
        lines.append(f"  {kind} {name} : {' '.join(known)}")
    declared = {
        "dims": rule.sizes, "int": rule.integers, "const": rule.constants, "vec": rule.vectors,
    }  # fmt: skip
    lines += [f"  {name} {', '.join(names)}" for name, names in declared.items() if names]
    for given in rule.given:
        names = ", ".join(
            name if shape is None else f"{name} [{', '.join(map(spell_expression, shape))}]"
            for name, shape in given.names
        )
        lines.append(f"  given {names} : {' '.join(given.kinds)}")
    lines += [f"  let {name} = {spell_expression(value)}" for name, value in rule.lets]
    if rule.where:
        lines.append(f"  where {', '.join(map(spell_guard, rule.where))}")
    if rule.letters_of is not None:
        lines.append(f"  letters of {rule.letters_of}")
    for side, roots in (("left", rule.left), ("right", rule.right)):
        lines += [f"  {side}", *(f"    {line}" for line in spell_side(roots))]
    if rule.is_two_way:
        lines.append("  ways both")
    if rule.grade is not None:
        lines.append(spell_grade(rule.grade))
    return "\n".join(lines) + "\n"


def spell_grade(grade: Grade) -> str:
    """The line of a grade."""
    found = f"  grade {grade.name} instances {grade.instances}"
    if grade.tests:
        found += f" degree {grade.degree} tests {grade.tests}"
    return f"{found} shapes {grade.shapes}"


def with_grades(text: str, grades: Mapping[str, Grade | None]) -> str:
    """The text of a rule file with these grades of its rules, by name, and no others."""
    found: list[str] = []
    name = ""
    for line in (*text.splitlines(), "rule "):
        if line.startswith("rule ") and (grade := grades.get(name)) is not None:
            last = max(k for k, each in enumerate(found) if each and not each.startswith("#"))
            found.insert(last + 1, spell_grade(grade))
        name = line.removeprefix("rule ").strip() if line.startswith("rule ") else name
        if not line.startswith("  grade "):
            found.append(line)
    return "\n".join(found[:-1]) + "\n"


def spell_side(roots: Sequence[Term]) -> list[str]:
    """A side's statements."""
    named = {
        t.name: t for root in roots for t in terms(root) if not isinstance(t, Variable) and t.name
    }
    lines = [f"{name} = {_plain(term)}" for name, term in named.items()]
    several = len(roots) > 1
    return [
        *lines,
        f"yield {', '.join((spell_term if several else _root)(root) for root in roots)}",
    ]


def _root(term: Term) -> str:
    return _plain(term) if isinstance(term, Node) and not term.name else spell_term(term)


def spell_term(term: Term) -> str:
    """A term as an operand."""
    if isinstance(term, Variable) or term.name:
        return str(term.name)
    return f"({_plain(term)})" if isinstance(term, Node) else _plain(term)


def _plain(term: Node | Constant) -> str:
    if isinstance(term, Constant):
        return f"const({spell_expression(term.value)})"
    parts = [term.op]
    parts += [f'"{n}"' if isinstance(n, str) else spell_expression(n) for n in term.names]
    if term.letters is not None:
        parts.append(f'"{spell_letters(term.letters)}"')
    before = [value for name, value in term.fields if name == "axis"]
    parts += map(spell_expression, before)
    parts.append(", ".join(map(spell_term, term.operands)))
    parts += [f"{name} {spell_expression(v)}" for name, v in term.fields if name != "axis"]
    return " ".join(parts)


def spell_letters(letters: Letters) -> str:
    """Index letters as a rule has them."""
    return f"{','.join(map(_word, letters.operands))}->{_word(letters.result)}"


def _word(word: Word) -> str:
    found = ""
    for axis in word.axes:
        each: list[str] = []
        for letter in axis:
            if isinstance(letter.scale, Number):
                scale = "" if letter.scale.value == 1 else str(letter.scale.value)
            else:
                scale = f"{{{spell_expression(letter.scale)}}}"
            each.append(scale + letter.name)
        found += each[0] if len(each) == 1 else f"({'+'.join(each)})"
    return found


def spell_guard(guard: Guard) -> str:
    """A condition."""
    arguments = [
        x.name if isinstance(x, Variable) else spell_expression(x) for x in guard.arguments
    ]
    if (sign := SIGNS.get(guard.predicate)) is not None:
        return f" {sign} ".join(arguments)
    return f"{guard.predicate}({', '.join(arguments)})"


def spell_expression(expression: Expr, strength: int = 0) -> str:
    """An expression; in parentheses where what it stands in binds as strongly."""
    match expression:
        case Number(value):
            return str(value)
        case Symbol(name):
            return name
        case Listed(items):
            return f"[{', '.join(map(spell_expression, items))}]"
        case Apply("neg", (inner,)):
            return f"-{spell_expression(inner, 3)}"
        case Apply(function, arguments) if function not in STRENGTH:
            return f"{function}({', '.join(map(spell_expression, arguments))})"
        case Apply(function, (left, right)):
            own = STRENGTH[function]
            text = f"{spell_expression(left, own)} {function} {spell_expression(right, own + 1)}"
            return f"({text})" if own < strength else text
        case _:
            raise AssertionError(expression)
