"""
Files of derivations, beside those of rules: `algebra.proofs` has those of `algebra.rules`.

```
proof subtract_negated
  result 0
  left unfold, unfold 0, unfold 1.1, numbers_first 1
  right unfold, unfold 0, unfold 1
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mlc.passes.rules.derive import Derivation, Proofs, Step
from mlc.passes.rules.tokens import RuleError

_RESULT = re.compile(r"  result (\d+)(?: for (\w+=\w+(?:, \w+=\w+)*))?")
_STEP = re.compile(r"(\w+)(?: (\d+(?:\.\d+)*))?")


def proofs_path(rules: Path) -> Path:
    """Where the derivations of a file of rules are."""
    return rules.with_suffix(".proofs")


def read_proofs(rules: Path) -> Proofs:
    """Those of a file of rules; nothing where there is no file. Raises RuleError."""
    path = proofs_path(rules)
    return parse_proofs(path.read_text(encoding="utf-8"), str(path)) if path.exists() else {}


def spell_proofs(proofs: Proofs) -> str:
    """The text of derivations."""
    return "\n".join(
        "\n".join([f"proof {name}", *(line for d in found for line in _lines(d))]) + "\n"
        for name, found in proofs.items()
    )


def _lines(derivation: Derivation) -> Iterator[str]:
    chosen = ", ".join(f"{name}={value}" for name, value in derivation.chosen)
    yield f"  result {derivation.root}" + (f" for {chosen}" if chosen else "")
    for side, steps in (("left", derivation.left), ("right", derivation.right)):
        yield f"  {side} {', '.join(map(str, steps))}".rstrip()


def parse_proofs(text: str, file: str = "<proofs>") -> Proofs:
    """Derivations as they are printed. Raises RuleError."""
    found: dict[str, tuple[Derivation, ...]] = {}
    lines = [(k + 1, line) for k, line in enumerate(text.splitlines()) if line]
    name, at = "", 0
    while at < len(lines):
        number, line = lines[at]
        if line.startswith("proof "):
            name, at = line.removeprefix("proof "), at + 1
            found[name] = ()
            continue
        match = _RESULT.fullmatch(line)
        sides = [lines[k][1] if k < len(lines) else "" for k in (at + 1, at + 2)]
        if match is None or name not in found:
            raise RuleError(f"{file}:{number}: found {line!r}; expected `proof` or `  result`")
        if not (sides[0].startswith("  left") and sides[1].startswith("  right")):
            raise RuleError(f"{file}:{number}: expected lines `  left` and `  right` behind this")
        pairs = [pair.split("=") for pair in (match[2] or "").split(", ") if pair]
        chosen = tuple((key, value) for key, value in pairs)
        left, right = (_steps(side[7:], f"{file}:{number + 1 + k}") for k, side in enumerate(sides))
        found[name] = (*found[name], Derivation(chosen, int(match[1]), left, right))
        at += 3
    return found


def _steps(text: str, where: str) -> tuple[Step, ...]:
    steps: list[Step] = []
    for said in filter(None, (part.strip() for part in text.split(","))):
        match = _STEP.fullmatch(said)
        if match is None:
            raise RuleError(
                f"{where}: found {said!r}; expected an axiom and a place, as `choice 0.1`"
            )
        place = tuple(int(k) for k in (match[2] or "").split(".") if k)
        steps.append(Step(match[1], place))
    return tuple(steps)
