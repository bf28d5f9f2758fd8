"""Seeded mutations of MLIR text: tokens, numbers, types, attributes, lines, bytes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[%^@#!]?[\w$.-]*\w|\s+|.', re.DOTALL)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|0x[0-9a-fA-F]+")
INTEGERS = (
    *("0", "1", "-1", "2", "3", "7", "64", "65535", "65536", "-65536", "2147483647"),
    *("2147483648", "4294967296", "-2147483649", "9223372036854775807", "9223372036854775808"),
    *("-9223372036854775808", "18446744073709551616", "1" + "0" * 40),
)
FLOATS = ("0.0", "-0.0", "1.5", "1e400", "-1e-400", "0x7FC00000", "0xFFFFFFFFFFFFFFFFFF", "1.0e38")
ELEMENTS = (
    *("f16", "bf16", "f32", "f64", "f80", "f128", "i1", "i2", "i7", "i8", "i16", "i32", "i64"),
    *("i128", "si32", "ui8", "ui16", "ui32", "ui64", "index", "none", "complex<f32>"),
    *("complex<f64>", "complex<i32>", "f8E4M3FN", "f8E5M2", "tf32", "tensor<2xf32>"),
)
SHAPES = (
    *("", "?x", "0x", "1x", "4x", "?x?x", "2x3x", "[4]x", "4x[2]x", "1x1x1x1x1x", "*x"),
    *("4294967296x", "9223372036854775807x"),
)
DIMS = (
    *("0", "1", "-1", "4", "64", "-9223372036854775808", "9223372036854775807", '"N"', '"-N"'),
    *(
        '"N*N"',
        '"N // 2"',
        '"N - 5"',
        '"2*N + 1"',
        '"N // 0"',
        '"N**2"',
        '""',
        '"(N"',
        '"T"',
        "4.0",
    ),
    *('"9223372036854775807*N"', '"N // 9223372036854775807"', '"é"', '"' + "-" * 200 + 'N"'),
)
SMALL = ("0", "1", "2", "3", "4", "5", "7", "8", "16", "24", "32", "64", "128", "256", "1024", "-1")
TYPE = re.compile(
    r"\b(tensor|memref|vector|mlc_\w+\.\w+(?=<[\d?]))<((?:(?:\d+|\?|\[\d+\])x)*)"
    r"([^<>,]+(?:<[^<>]*>)?)"
)
ELEMENT = re.compile(r"(?:\b|(?<=[\d?]x))(?:[su]?i\d+|b?f\d+\w*|index|complex<\w+>)(?!\w)")

Mutation = Callable[[random.Random, str], str]


def mutated(rng: random.Random, text: str, others: Sequence[str]) -> str:
    """The text after one to three mutations; lines may come from the other texts."""
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3))):
        if rng.random() < 0.06:
            text = _spliced(rng, text, rng.choice(others))
        else:
            text = rng.choices(MUTATIONS, WEIGHTS)[0](rng, text)
    return text


def mutated_bytes(rng: random.Random, text: str, others: Sequence[str]) -> bytes:
    """As `mutated`, and now and then bytes that are no UTF-8."""
    data = bytearray(mutated(rng, text, others).encode("utf-8", "surrogateescape"))
    if data and rng.random() < 0.04:
        for _ in range(rng.choice((1, 3, 10))):
            data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def _tokens(text: str) -> list[str]:
    return TOKEN.findall(text)


def _places(tokens: Sequence[str]) -> list[int]:
    return [k for k, token in enumerate(tokens) if not token.isspace()]


def _swap(rng: random.Random, text: str) -> str:
    tokens = _tokens(text)
    places = _places(tokens)
    if len(places) < 2:
        return text
    a = rng.choice(places)
    alike = [k for k in places if k != a and _kind(tokens[k]) == _kind(tokens[a])]
    near = [k for k in places if k != a and abs(k - a) < 8]
    b = rng.choice((rng.random() < 0.6 and alike) or near or places)
    tokens[a], tokens[b] = tokens[b], tokens[a]
    return "".join(tokens)


def _kind(token: str) -> str:
    if token[0] in '"%^@#!':
        return token[0]
    return "number" if NUMBER.fullmatch(token) else "word" if token[0].isalpha() else token


def _copy(rng: random.Random, text: str) -> str:
    """One token in the place of another of its kind."""
    tokens = _tokens(text)
    places = [k for k in _places(tokens) if _kind(tokens[k]) in ("%", "@", "^", '"', "word", "#")]
    if not places:
        return text
    a = rng.choice(places)
    alike = [k for k in places if _kind(tokens[k]) == _kind(tokens[a]) and tokens[k] != tokens[a]]
    if alike:
        tokens[a] = tokens[rng.choice(alike)]
    return "".join(tokens)


def _delete(rng: random.Random, text: str) -> str:
    tokens = _tokens(text)
    if places := _places(tokens):
        at = rng.choice(places)
        del tokens[at : at + rng.choice((1, 1, 1, 3, 6))]
    return "".join(tokens)


def _double(rng: random.Random, text: str) -> str:
    tokens = _tokens(text)
    if places := _places(tokens):
        at = rng.choice(places)
        tokens[at:at] = [*tokens[at : at + rng.choice((1, 1, 3))], " "]
    return "".join(tokens)


def _number(rng: random.Random, text: str) -> str:
    found = list(re.finditer(r"(?<![\w.%])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.])|\d+(?=x)", text))
    if not found:
        return text
    match = rng.choice(found)
    old = match[0]
    if "." in old:
        new = rng.choice(FLOATS)
    elif rng.random() < 0.4 and re.fullmatch(r"-?\d+", old):
        new = str(int(old) + rng.choice((-1, 1, 2, -int(old) * 2, int(old))))
    else:
        new = rng.choice(INTEGERS)
    return text[: match.start()] + new + text[match.end() :]


def _type(rng: random.Random, text: str) -> str:
    """Another element type or shape, at one place or wherever the type stands."""
    found = list(TYPE.finditer(text))
    if not found:
        return _element(rng, text)
    match = rng.choice(found)
    word, shape, element = match.groups()
    draw = rng.random()
    if draw < 0.5:
        element = rng.choice(ELEMENTS)
    elif draw < 0.9:
        shape = rng.choice(SHAPES)
    else:
        word = rng.choice(("tensor", "memref", "vector"))
    new = f"{word}<{shape}{element}"
    if rng.random() < 0.5:
        return text.replace(match[0], new)
    return text[: match.start()] + new + text[match.end() :]


def _element(rng: random.Random, text: str) -> str:
    """Another element type everywhere."""
    found = ELEMENT.findall(text)
    if not found:
        return text
    old, new = rng.choice(found), rng.choice(ELEMENTS)
    return re.sub(rf"(?<!\w){re.escape(old)}(?!\w)|(?<=x){re.escape(old)}(?!\w)", new, text)


def _size(rng: random.Random, text: str) -> str:
    """Another size, wherever it stands."""
    found = re.findall(r"\d+(?=x)", text)
    if not found:
        return text
    old, new = rng.choice(found), rng.choice(("0", "1", "2", "3", "5", "16", "33"))
    return re.sub(
        rf"(?<![\w.%])x?{old}(?=x)|(?<=[<x]){old}(?=[x>])|(?<= ){old}(?=[ ,\]>])", new, text
    )


def _attribute(rng: random.Random, text: str) -> str:
    """The value behind one `=` in the place of that behind another."""
    found = list(re.finditer(r"= (\[[^\]\n]*\]|\"[^\"\n]*\"|-?\d+|#[\w.]+<[^>\n]*>)", text))
    if not found:
        return text
    match, other = rng.choice(found), rng.choice(found)
    return text[: match.start(1)] + other[1] + text[match.end(1) :]


def _string(rng: random.Random, text: str) -> str:
    """A string literal changed, or one of its quotes gone."""
    found = list(re.finditer(r'"(?:[^"\\\n]|\\.)*"', text))
    if not found:
        return text
    match = rng.choice(found)
    old = match[0][1:-1]
    new = rng.choice(
        (
            '""',
            f'"{old[: len(old) // 2]}"',
            f'"{old}{old}"',
            f'"{old}',
            '"' + "0" * rng.choice((30, 300)),
            '"' + rng.choice(("\\FF", "\\q", "B*B", "0", "é", "1 + N")) + '"',
            f'"{rng.choice(found)[0][1:-1]}"',
        )
    )
    return text[: match.start()] + new + text[match.end() :]


def _lines(rng: random.Random, text: str) -> str:
    lines = text.split("\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    way = rng.randrange(4)
    if way == 0:
        lines[a], lines[b] = lines[b], lines[a]
    elif way == 1:
        del lines[a]
    elif way == 2:
        lines.insert(b, lines[a])
    else:
        lines.insert(b, lines.pop(a))
    return "\n".join(lines)


def _truncated(rng: random.Random, text: str) -> str:
    return text[: rng.randrange(len(text) + 1)]


def _noise(rng: random.Random, text: str) -> str:
    if not text:
        return text
    at = rng.randrange(len(text))
    new = rng.choice(('"', "{", "}", "<", ">", "(", ")", "\0", "\\", "%", "é", "-", ",", "x", "9"))
    return text[:at] + new + text[at + rng.randrange(2) :]


def _spliced(rng: random.Random, text: str, other: str) -> str:
    lines, more = text.split("\n"), other.split("\n")
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(more))
    return "\n".join(lines)


def _rank(rng: random.Random, text: str) -> str:
    """An axis of a type gone or there twice, everywhere or at one place."""
    found = [m for m in TYPE.finditer(text) if m[2]]
    if not found:
        return text
    match = rng.choice(found)
    axes = match[2].split("x")[:-1]
    at = rng.randrange(len(axes))
    axes[at : at + 1] = rng.choice(([], [axes[at]] * 2, ["1", axes[at]], [axes[at], "?"]))
    new = f"{match[1]}<{''.join(f'{n}x' for n in axes)}{match[3]}"
    if rng.random() < 0.6:
        return text.replace(match[0], new)
    return text[: match.start()] + new + text[match.end() :]


def _dims(rng: random.Random, text: str) -> str:
    """A dim of an encoding, a slot or an extent: another one, gone, or there twice."""
    found = list(re.finditer(r"#mlc\.dims<([^<>\n]*)>", text))
    if not found or rng.random() < 0.2:
        return _replaced(rng, text, r'"(?:[^"\\\n]|\\.)*"', DIMS)
    match = rng.choice(found)
    dims = match[1].split(", ")
    at = rng.randrange(len(dims))
    dims[at : at + 1] = rng.choice(([], [dims[at]] * 2, *[[rng.choice(DIMS)]] * 4))
    new = f"#mlc.dims<{', '.join(dims)}>"
    if rng.random() < 0.5:
        return text.replace(match[0], new)
    return text[: match.start()] + new + text[match.end() :]


def _field(rng: random.Random, text: str) -> str:
    """A number in an attribute, `name = 4`, `name 4` or `word(4)`: small, or at limits."""
    pattern = r"(?<== )-?\d+\b|(?<=[a-z] )\d+\b(?=[,)>])|(?<=\()\d+\b(?=[,)])"
    return _replaced(rng, text, pattern, SMALL if rng.random() < 0.7 else INTEGERS)


def _replaced(rng: random.Random, text: str, pattern: str, choices: Sequence[str]) -> str:
    found = list(re.finditer(pattern, text))
    if not found:
        return text
    match = rng.choice(found)
    return text[: match.start()] + rng.choice(choices) + text[match.end() :]


def _item(rng: random.Random, text: str) -> str:
    """An item of a list in brackets gone, there twice, or in another's place."""
    found = [
        m
        for m in re.finditer(r"[\[(<]([^\[\]()<>\n]*)[\])>]", text)
        if m[1].strip() and not re.search(r"x[a-z]\w*$", m[1])
    ]
    if not found:
        return text
    match = rng.choice(found)
    items = match[1].split(", ")
    a, b = rng.randrange(len(items)), rng.randrange(len(items))
    way = rng.randrange(3)
    if way == 0:
        del items[a]
    elif way == 1:
        items.insert(b, items[a])
    else:
        items[a], items[b] = items[b], items[a]
    return text[: match.start(1)] + ", ".join(items) + text[match.end(1) :]


def _entry(rng: random.Random, text: str) -> str:
    """One entry `name = value` of an attribute dictionary gone, or moved to another place."""
    value = r"(?:#[\w.]+<[^<>\n]*>|\"[^\"\n]*\"|-?\d+)"
    found = list(re.finditer(rf"(?:, )?\b[\w.]+ = {value}", text))
    if not found:
        return text
    match = rng.choice(found)
    rest = text[: match.start()] + text[match.end() :]
    if rng.random() < 0.5:
        return rest
    at = rng.choice([m.start() for m in re.finditer(r"[>}]", rest)] or [0])
    return f"{rest[:at]}, {match[0].removeprefix(', ')}{rest[at:]}"


MUTATIONS: tuple[Mutation, ...] = (
    *(_swap, _copy, _delete, _double, _number, _type),
    *(_size, _attribute, _element, _string, _lines, _truncated, _noise),
    *(_rank, _dims, _field, _item, _entry),
)
WEIGHTS = (3, 4, 2, 2, 5, 5, 4, 3, 3, 2, 2, 0.3, 1, 4, 4, 4, 3, 2)
