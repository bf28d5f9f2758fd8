"""Certificates that are wrong in one place: as an accident leaves them, and as a forger does."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator
from typing import Any

from mlc.check import Worth, seal
from mlc.check_text import CertificateError, after

Records = list[Any]
OTHER = {"mul": "add", "sub": "add", "add": "sub", "div": "mul", "neg": "exp", "exp": "neg"}


def mutations(text: str) -> Iterator[tuple[str, str]]:
    """What is wrong, and the certificate."""
    records: Records = [json.loads(line) for line in text.splitlines()]
    for kind, wrong in _wrong(records):
        yield kind, _written(wrong)
        if kind not in ("step left out", "steps in another order", "end"):
            yield f"{kind}, sealed again", _written(forged(wrong))
    for part in (0.2, 0.5, 0.9):
        yield "cut off", text[: int(len(text) * part)]
    yield "no end", "\n".join(text.splitlines()[:-1])
    yield "bytes", text.replace("reduce", "r\x00du\udcffce", 1)
    yield "more lines", text + '{"step": 1}\n'
    yield "empty", ""


def forged(records: Records) -> Records:
    """With seals and sums that fit again, as far as its changes can be made."""
    found = copy.deepcopy(records)
    lines = [x for x in found if isinstance(x, str)]
    start = next(k for k, x in enumerate(found) if isinstance(x, dict) and "step" in x)
    head = "\n".join(json.dumps(x) for x in found[:start])
    sealed, worth = hashlib.sha256(head.encode()).hexdigest(), Worth()
    for record in found[start:-1]:
        try:
            lines = after(lines, record)
        except CertificateError:
            break
        record["seal"] = sealed = seal(sealed, record, lines)
        worth.add(record["claims"])
    found[-1] = {"end": len(found) - 1 - start, **worth.said(), "seal": sealed}
    return found


def _wrong(records: Records) -> Iterator[tuple[str, Records]]:
    """Records with one thing changed."""
    at = [k for k, x in enumerate(records) if isinstance(x, dict) and "step" in x]
    listed: list[Any] = [x for x in records if isinstance(x, dict) and "left" in x]
    lefts: dict[str, set[str]] = {x["rule"]: set(x["left"][0].split("|")) for x in listed}
    for k in at:
        step = records[k]
        if name := step.get("rule"):
            others = [other for other, ops in lefts.items() if not ops & lefts[name]]
            yield "rule", _with(records, k, rule=others[0] if others else "no_such_rule")
            yield "rule that nobody lists", _with(records, k, rule="trust_me")
        claims = step["claims"]
        if claims:
            yield "claims", _with(records, k, claims=[])
            first = claims[0]
            grade = "identical" if first["grade"] != "identical" else "tested"
            yield "grade", _with(records, k, claims=[{**first, "grade": grade}, *claims[1:]])
            bound = (first["bound"] or 1) / 2
            yield "bound", _with(records, k, claims=[{**first, "bound": bound}, *claims[1:]])
            other = "%0" if first["was"] != "%0" else "%1"
            yield "place", _with(records, k, claims=[{**first, "was": other}, *claims[1:]])
        for n, text in enumerate(step["change"]):
            if isinstance(text, str) and text[0] == "-":
                yield "text before", _with(records, k, change=_put(step, n, text + " %0"))
                break
        for n, text in enumerate(step["change"]):
            if claims and isinstance(text, str) and text[0] == "+" and (worse := _other(text)):
                yield "text after", _with(records, k, change=_put(step, n, worse))
                break
    for k in at[::3]:
        yield "step left out", [x for n, x in enumerate(records) if n != k]
    for k in at[:-1:3]:
        turned = list(records)
        turned[k], turned[k + 1] = turned[k + 1], turned[k]
        yield "steps in another order", turned
    yield "end", [*records[:-1], {**records[-1], "tested": 7}]


def _other(line: str) -> str:
    """A line that computes something else; empty where none is known."""
    head, is_op, rest = line.partition(" = ")
    name, space, rest = rest.partition(" ")
    if name == "constant":
        return line.replace('"value": ', '"value": 3')
    return f"{head}{is_op}{OTHER[name]}{space}{rest}" if name in OTHER else ""


def _with(records: Records, at: int, **fields: Any) -> Records:
    return [{**x, **fields} if k == at else x for k, x in enumerate(records)]


def _put(step: Any, at: int, text: str) -> list[Any]:
    return [text if k == at else x for k, x in enumerate(step["change"])]


def _written(records: Records) -> str:
    return "\n".join(map(json.dumps, records)) + "\n"
