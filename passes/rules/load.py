"""Rules that come with mlc: their files, and what the driver gets of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from mlc.passes.rules.match import Matcher, Rewriter, root_classes, root_names
from mlc.passes.rules.rule import Rule
from mlc.passes.rules.text import Asked, RuleError, asked, chunks, parse, parse_rule, roots
from mlc.passes.rules.vocabulary import FORMS
from mlc.passes.tensor.constants import may_be_splat
from mlc.passes.tensor.rules import Ask, Deferred, Equivalence, Rules

T = TypeVar("T")
FOLDER = Path(__file__).parent
FAMILIES = ("algebra", "strength", "views", "fold_views")
"""The files of this folder, without `.rules`."""


def family(name: str) -> list[Rule]:
    """The rules of a family that comes with mlc."""
    path = FOLDER / f"{name}.rules"
    return parse(path.read_text(encoding="utf-8"), path.name)


def deferred(name: str, equivalence: Equivalence | None = None) -> Rules:
    """
    The rules of a family, each of which is read when the first op that it is for is met; those of
    one class only, where it is given.
    """
    path = FOLDER / f"{name}.rules"
    rules = Rules()
    for line, lines in chunks(path.read_text(encoding="utf-8"), path.name):
        if equivalence is not None and f"  class {equivalence}" not in lines:
            continue
        entry = Deferred(partial(_read, line, lines, path.name), partial(_asks_of_text, lines))
        for op in roots(lines):
            rules.add(FORMS[op].op, entry)
    return rules


def _read(line: int, lines: Sequence[str], file: str) -> tuple[Rewriter, Equivalence]:
    rule = parse_rule(line, [x for x in lines if not x.startswith("  grade ")], file)
    return Matcher(rule).rewriter(), rule.equivalence


def _asks_of_text(lines: Sequence[str]) -> tuple[Ask, ...]:
    return _asks(asked(lines), roots(lines))


def _asks(found: tuple[Asked, ...], ops: tuple[str, ...]) -> tuple[Ask, ...]:
    is_open = any(FORMS[op].parts is None for op in ops)  # has any number of operands
    return tuple((k, _made_by(makers)) for k, makers in found if k == 0 or not is_open)


def _made_by(makers: tuple[str, ...]) -> Callable[[type], bool]:
    """Whether one of these ops, or a constant, may be of a class."""
    if makers == ("const",):
        return may_be_splat
    return frozenset(FORMS[name].op for name in makers).__contains__


def read_rules(path: str | Path, name: str | None = None) -> list[Rule]:
    """
    A file's rules, or the one of this name alone, each of which makes sense; whether they are true
    is asked of `grade.py`. Raises RuleError, and OSError where the file cannot be read.
    """
    return parsed_rules(Path(path).read_text(encoding="utf-8"), path, name)


def parsed_rules(text: str, path: str | Path, name: str | None = None) -> list[Rule]:
    """As `read_rules`, of a file's text."""
    from mlc.passes.rules.check import faults  # those of mlc make sense: a test has asked

    if name is None:
        rules = parse(text, str(path))
    else:
        found = [chunk for chunk in chunks(text, str(path)) if chunk[1][0].split()[1:] == [name]]
        rules = [parse_rule(line, lines, str(path)) for line, lines in found]
    for rule in rules:
        for fault in faults(rule):
            raise RuleError(f"{path}:{rule.line}: rule {rule.name}: {fault}")
    return rules


def rules_of(found: Sequence[Rule]) -> Rules:
    """The rules as the driver takes them."""
    rules = Rules()
    for rule in found:
        matcher = Matcher(rule)
        made = matcher.rewriter(), rule.equivalence
        asks = _asks(matcher.asked(), root_names(rule))
        entry = Deferred(partial(_same, made), partial(_same, asks))
        for op in root_classes(rule):
            rules.add(op, entry)
    return rules


def _same(known: T) -> T:
    return known
