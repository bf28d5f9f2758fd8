"""Files of rewrite rules: verified, written with their grades, printed as a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mlc.passes.rules.derive import Proofs
from mlc.passes.rules.grade import Verdict, verify
from mlc.passes.rules.load import FAMILIES, FOLDER, read_rules, rules_of
from mlc.passes.rules.pdl import pdl, why_not
from mlc.passes.rules.proofs import proofs_path, read_proofs, spell_proofs
from mlc.passes.rules.rule import Rule
from mlc.passes.rules.spell import spell_expression, spell_guard, spell_side, with_grades
from mlc.passes.rules.tokens import RuleError
from mlc.passes.tensor.rules import Rules
from mlc.runtime.interpret import interpret


def checked_rules(path: str | Path, name: str | None = None) -> Rules:
    """`verified`, as the driver takes them."""
    return rules_of(verified(path, name))


def verified(path: str | Path, name: str | None = None) -> list[Rule]:
    """
    A file's rules, or the one of this name, each verified now, whatever grade it has there. Raises
    RuleError with the counterexample of one that is refuted, and OSError where the file cannot be
    read.
    """
    rules = read_rules(path, name)
    if name is not None and not rules:
        raise RuleError(f"{path}: no rule is called {name!r}; see `mlc rules table {path}`")
    return checked(rules, path)


def checked(rules: list[Rule], path: str | Path) -> list[Rule]:
    """The rules, which are of this file, each verified now; RuleError where one is refuted."""
    for rule in rules:
        verdict = verify(rule, interpret)
        if verdict.grade is None:
            said = f"rule {rule.name} is refuted: {verdict.counterexample}"
            raise RuleError(f"{path}:{rule.line}: {said}")
    return rules


def of_command_line(action: str, files: Sequence[str], *, writes: bool) -> int:
    """`mlc rules …`; the exit status."""
    paths = [Path(file) for file in files] or [FOLDER / f"{name}.rules" for name in FAMILIES]
    if action == "table":
        print(table([rule for path in paths for rule in read_rules(path)]), end="")
        return 0
    if action == "pdl":
        print(patterns([rule for path in paths for rule in read_rules(path)]), end="")
        return 0
    return max([_judged(path, writes=writes) for path in paths])


def patterns(rules: Sequence[Rule]) -> str:
    """Rules as a module of PDL patterns, with the reason of each that cannot be one."""
    lines = [f"  // {rule.name} is no pattern: {why}\n" if (why := why_not(rule)) else pdl(rule)
             for rule in rules]  # fmt: skip
    return "builtin.module {\n" + "".join(lines) + "}\n"


def _judged(path: Path, *, writes: bool) -> int:
    """Prints a verdict for each rule of a file; 1 where one is refuted, or has not this grade."""
    status = 0
    proofs = read_proofs(path)
    verdicts = [verify(rule, interpret, proofs) for rule in read_rules(path)]
    for verdict in verdicts:
        print(verdict)
        if verdict.grade is None or not (writes or _is_graded(verdict, proofs)):
            status = 1
    if writes:
        text = path.read_text(encoding="utf-8")
        grades = {verdict.rule.name: verdict.grade for verdict in verdicts}
        path.write_text(with_grades(text, grades), encoding="utf-8")
        found = {name: d for verdict in verdicts for name, d in verdict.derivations}
        if found:
            proofs_path(path).write_text(spell_proofs(found), encoding="utf-8")
        elif proofs:
            proofs_path(path).unlink()
    return status


def _is_graded(verdict: Verdict, proofs: Proofs) -> bool:
    """Whether the file says the grade, and that of proofs the derivation; else that is said."""
    said, found = verdict.rule.grade, verdict.grade
    if found is None:
        return True
    if said != found:
        has = "none" if said is None else f"another, {said.name} at {said.instances} instances"
        print(f"  the file has {has}: `mlc rules verify FILE --write` puts this one there")
        return False
    if any(proofs.get(name) != steps for name, steps in verdict.derivations):
        print("  no derivation stands beside the file: `mlc rules verify FILE --write` writes it")
        return False
    return True


def table(rules: Sequence[Rule]) -> str:
    """Rules as a table in Markdown."""
    lines = ["| rule | left | right | where | class | grade |", "|---|---|---|---|---|---|"]
    for rule in rules:
        left, right = (_cell("; ".join(spell_side(side))) for side in (rule.left, rule.right))
        arrow = " (both ways)" if rule.is_two_way else ""
        grade = "none" if rule.grade is None else f"{rule.grade.name}, {rule.grade.shapes}"
        name = f"`{rule.name}`{arrow}"
        cells = (name, left, right, _conditions(rule), rule.equivalence, grade)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _conditions(rule: Rule) -> str:
    """Of which dtypes a rule is, and what else must hold."""
    kinds = dict.fromkeys(", ".join(given.kinds) for given in rule.given)
    said = [*kinds, *(_cell(f"{name} : {' '.join(known)}") for name, known in rule.choices)]
    said += [_cell(f"{name} = {spell_expression(value)}") for name, value in rule.lets]
    return "; ".join([*said, *(_cell(spell_guard(guard)) for guard in rule.where)])


def _cell(text: str) -> str:
    return f"`{text.replace('yield ', '').replace('|', chr(92) + '|')}`"
