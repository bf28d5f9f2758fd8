"""Certificates that are wrong in one place: as an accident leaves them, and as a forger does."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

Records = list[Any]
OTHER = {
    "multiply": "add", "subtract": "add", "add": "subtract", "divide": "multiply",
    "negative": "exp", "exp": "negative", "maximum": "minimum", "greater": "less",
}  # fmt: skip


def mutations(text: str) -> Iterator[tuple[str, str]]:
    """What is wrong, and the certificate."""
    records: Records = [json.loads(line) for line in text.splitlines()]
    for kind, wrong in _wrong(records):
        yield kind, _written(wrong)
        yield f"{kind}, sealed again", _written(sealed(wrong))
    for part in (0.2, 0.5, 0.9):
        yield "cut off", text[: int(len(text) * part)]
    yield "no end", "\n".join(text.splitlines()[:-1])
    yield "bytes", text.replace("reduce", "r\x00du\udcffce", 1)
    yield "more lines", text + '{"step": 1}\n'
    yield "empty", ""


def sealed(records: Records) -> Records:
    """With a digest that fits."""
    lines = "\n".join(map(json.dumps, records[:-1]))
    return [*records[:-1], {"digest": hashlib.sha256(lines.encode()).hexdigest()}]


def _wrong(records: Records) -> Iterator[tuple[str, Records]]:
    """Records with one thing changed."""
    first, last = [k for k, x in enumerate(records) if isinstance(x, dict) and "results" in x]
    listed: list[Any] = [x for x in records if isinstance(x, dict) and "left" in x]
    lefts: dict[str, set[str]] = {x["rule"]: set(x["left"][0].split("|")) for x in listed}
    for k, record in enumerate(records):
        if isinstance(record, dict) and "was" in record:
            yield from _claims(records, k, lefts)
        elif isinstance(record, list):
            where = (
                "before" if k < first else "after" if k < last and _is_claimed(records, k) else ""
            )
            where = "at the end" if last > k > _last_claim(records) else where
            if where and (worse := _other(record, is_first=where == "before")):
                yield f"text {where}", _put(records, k, worse)
    for k in (first, last):
        results = [*records[k]["results"], "%0"]
        yield "one more result", _with(records, k, results=results)
        yield "results in another order", _with(records, k, results=results[-2::-1])
        yield "another function", _with(records, k, function=["g"])
    yield "forbidden class", _with(records, records.index(listed[0]), **{"class": "approximate"})


def _claims(records: Records, k: int, lefts: dict[str, set[str]]) -> Iterator[tuple[str, Records]]:
    claim = records[k]
    if name := claim.get("rule"):
        others = [other for other, ops in lefts.items() if not ops & lefts[name]]
        yield "rule", _with(records, k, rule=others[0] if others else "no_such_rule")
        yield "rule that nobody lists", _with(records, k, rule="trust_me")
    grade = "identical" if claim["grade"] != "identical" else "tested"
    yield "grade", _with(records, k, grade=grade)
    yield "bound", _with(records, k, bound=(claim["bound"] or 1) / 2)
    yield "place", _with(records, k, was="%0" if claim["was"] != "%0" else "%1")
    yield "place after", _with(records, k, **{"is": "%0" if claim["is"] != "%0" else "%1"})
    yield "over what is not there", _with(records, k, over=["%99999"])
    if claim["grade"] == "probabilistic":
        yield "claims", [x for n, x in enumerate(records) if n != k]
        yield "claimed of what is claimed", _with(records, k, over=[claim["was"], claim["is"]])


def _is_claimed(records: Records, k: int) -> bool:
    found: list[Any] = [x for x in records if isinstance(x, dict) and "was" in x]
    return any(x["is"] in records[k][0] for x in found)


def _last_claim(records: Records) -> int:
    return max(k for k, x in enumerate(records) if isinstance(x, dict) and "was" in x)


def _other(line: Any, *, is_first: bool) -> Any:
    """
    A line that computes something else; None where none is known. `is_first`: and not what is the
    same all in all, as where 0 is subtracted, or a softmax's largest element is added.
    """
    results, name, props, operands, types, bodies = line
    word, more = props.get("is", [name, {}])
    if word in OTHER and not (is_first and word in ("add", "subtract")):
        word = OTHER[word]
    elif word == "constant":
        more = {"value": [3.5 if x != 3.5 else 4.5 for x in more["value"]]}
    elif "strides" in more and sum(n > 1 for n in types[0][1]) > 1:
        more = {**more, "strides": more["strides"][::-1]}
    else:
        return None
    changed = {**props, "is": [word, more]}
    return None if changed == props else [results, name, changed, operands, types, bodies]


def _with(records: Records, at: int, **fields: Any) -> Records:
    return _put(records, at, {**records[at], **fields})


def _put(records: Records, at: int, record: Any) -> Records:
    return [record if k == at else x for k, x in enumerate(records)]


def _written(records: Records) -> str:
    return "\n".join(map(json.dumps, records)) + "\n"
