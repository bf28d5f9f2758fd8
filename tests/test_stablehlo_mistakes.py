# pyright: basic
"""Mutated StableHLO: an error that says line or op, never a crash, never endless."""

from __future__ import annotations

import pathlib
import random
import re
from typing import Any

import numpy as np
import pytest

import mlc
from tests import test_stablehlo, test_stablehlo_ops


def source(body: str, inputs: str, outputs: str) -> str:
    pairs = zip("abcde", inputs.split("; "), strict=False)
    arguments = ", ".join(f"%{name}: {kind}" for name, kind in pairs)
    return f"func.func @main({arguments}) -> ({outputs.strip('()')}) {{\n{body}\n}}"


SOURCES = [
    source(body, inputs, outputs)
    for cases in (test_stablehlo.CASES, test_stablehlo_ops.CASES)
    for body, inputs, outputs, *_ in cases.values()
]
WORDS = re.compile(r"[%@\w.]+|\d+|[^\s\w]")
COUNT = 200


def mutated(text: str, rng: random.Random) -> str:
    """The text with one thing wrong: bytes, words or lines lost, doubled, swapped or changed."""
    kind = rng.randrange(6)
    if kind == 0:
        return text[: rng.randrange(len(text))]
    if kind == 1:
        at = rng.randrange(len(text))
        return text[:at] + chr(rng.randrange(32, 127)) + text[at + 1 :]
    words = list(WORDS.finditer(text))
    one, two = rng.choice(words), rng.choice(words)
    if kind == 2:
        return text[: one.start()] + text[one.end() :]
    if kind == 3:
        return text[: one.start()] + two[0] + text[one.end() :]
    numbers = list(re.finditer(r"\d+", text))
    if kind == 4 and numbers:
        one = rng.choice(numbers)
        new = rng.choice(["0", "-1", "7", "99999999", "9" * 40, "2.5"])
        return text[: one.start()] + new + text[one.end() :]
    lines = text.split("\n")
    rng.shuffle(lines)
    return "\n".join(lines)


@pytest.mark.parametrize("part", range(8))
def test_mutated_texts(part: int) -> None:
    rng = random.Random(part)
    for _ in range(COUNT // 8):
        text = mutated(rng.choice(SOURCES), rng)
        try:
            mlc.stablehlo.load(text, name="m").lower()
        except mlc.MlcError as error:
            said = str(error)
            assert re.search(r"m:\d+: |line \d+|function|the size|main: ", said), (text, said)


def test_arguments_of_another_type() -> None:
    add = mlc.stablehlo.load(
        "func.func @main(%a: tensor<?x3xf32>, %b: tensor<f32>) -> tensor<?x3xf32> {\n"
        "return %a : tensor<?x3xf32>\n}"
    )
    assert add(np.ones((2, 3), np.float32), 1.0).shape == (2, 3)
    with pytest.raises(mlc.ShapeError, match=r"argument 0 has the shape .*expected \(any, 3\)"):
        add(np.ones((2, 4), np.float32), 1.0)
    with pytest.raises(mlc.DTypeError, match="argument 0 is float64; expected float32"):
        add(np.ones((2, 3)), 1.0)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("%0 = stablehlo.add %a, %zz : tensor<2x3xf32>", "m:2: found %zz, which nothing defines"),
        ("%a = stablehlo.abs %a : tensor<2x3xf32>", "m:.*found %a, which is defined before"),
        ("%0 = stablehlo.abs %a : ptensor<f32>", "m:2: found 'ptensor'; expected a type"),
        (
            "%0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<2x3xf32>",
            r"line 2: transpose.*shape \(3, 2\), its type says \(2, 3\)",
        ),
        ("%0 = stablehlo.slice %a [0:1] : (tensor<2x3xf32>) -> tensor<1x3xf32>\n"
         "%1 = stablehlo.concatenate %0, %a, dim = 7 : (tensor<1x3xf32>, tensor<2x3xf32>)"
         " -> tensor<3x3xf32>", "line 3"),
        ("%0 = stablehlo.constant dense<1.0> : tensor<99999999999xf32>", "no more than"),
        ("%0 = stablehlo.constant dense<1.0> : tensor<2xf6E2M3FN>", "'f6E2M3FN'; expected one of"),
    ],
)  # fmt: skip
def test_what_makes_no_sense(body: str, said: str) -> None:
    text: Any = (
        f"func.func @main(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {{\n{body}\n"
        "return %a : tensor<2x3xf32>\n}"
    )
    with pytest.raises(mlc.MlcError, match=said):
        mlc.stablehlo.load(text, name="m").lower()


def calling(count: int, times: int, last: int) -> str:
    """Functions that call the next one; the last one calls that of a number, or nothing."""
    kind, text = "tensor<2xf32>", ""
    for k in range(count):
        following = k + 1 if k + 1 < count else last
        calls = [
            f"%v{n + 1} = call @f{following}(%v{n}) : ({kind}) -> {kind}" for n in range(times)
        ]
        inner = calls if following >= 0 else []
        end = f"return %v{len(inner)} : {kind}"
        name = f"private @f{k}" if k else "public @main"
        text += "\n".join([f"func.func {name}(%v0: {kind}) -> {kind} {{", *inner, end, "}", ""])
    return text


COMPARED_BY_ITSELF = """
func.func @main(%x: tensor<8xf32>, %k: tensor<8xi32>, %a: tensor<f32>, %b: tensor<i32>) {
  %0:2 = stablehlo.custom_call @ApproxTopK(%x, %k, %a, %b) {called_computations = [@more]} :
    (tensor<8xf32>, tensor<8xi32>, tensor<f32>, tensor<i32>) -> (tensor<8xf32>, tensor<8xi32>)
  return
}
func.func private @more(%x: tensor<f32>, %y: tensor<f32>, %a: tensor<i32>, %b: tensor<i32>)
    -> tensor<i1> {
  %0:2 = stablehlo.custom_call @ApproxTopK(%x, %a, %x, %a) {called_computations = [@more]} :
    (tensor<f32>, tensor<i32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
  %1 = stablehlo.compare GT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %1 : tensor<i1>
}
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (calling(3, 1, 1), "function f1 calls itself"),
        (COMPARED_BY_ITSELF, "function more calls itself"),
        (calling(40, 2, -1), "takes [0-9]+ steps; expected 1048576 at most"),
        (calling(100, 1, -1), "calls through 64 others; expected fewer"),
        (calling(2, 1, -1).replace("public @main", "private @g"), "has no function main, and not"),
        ("", "found no function; expected func.func"),
        (b"func.func @main() {\n \xff }", "<stablehlo>:2: .*; expected text in UTF-8"),
    ],
)
def test_modules_that_have_no_meaning(text: str | bytes, said: str) -> None:
    with pytest.raises(mlc.stablehlo.StableHloError, match=said):
        mlc.stablehlo.load(text)


def test_paths_are_no_texts() -> None:
    with pytest.raises(TypeError, match="takes the text of a module, found PosixPath"):
        mlc.stablehlo.load(pathlib.Path("/none"))  # pyright: ignore[reportArgumentType]


def test_aliases_of_aliases_are_not_written_out_without_end() -> None:
    aliases = "".join(f"#a{k} = [#a{k - 1}, #a{k - 1}]\n" for k in range(40, 0, -1))
    text = f"{aliases}func.func @main(%x: tensor<2xf32> {{q = #a40}}) {{ return }}"
    with pytest.raises(mlc.stablehlo.StableHloError, match="makes the text longer than"):
        mlc.stablehlo.load(text)
