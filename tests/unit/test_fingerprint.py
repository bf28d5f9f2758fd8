"""What the caches take for the same program."""

from __future__ import annotations

import pytest

from mlc.fingerprint import fingerprint
from mlc.text import parse_text

PROGRAM = """
func.func @f(%x : tensor<4xf32>, %y : tensor<4xf32>) -> tensor<4xf32> {
  %a = mlc.add %x, %y : tensor<4xf32>
  %b = mlc.mul %a, %x : tensor<4xf32>
  func.return %b : tensor<4xf32>
}
"""


def of(text: str) -> bytes:
    """The fingerprint of a program that is a text."""
    return fingerprint(parse_text(text, "program"))


def test_names_of_values_do_not_count() -> None:
    assert of(PROGRAM) == of(PROGRAM.replace("%a", "%first").replace("%x", "%other"))


@pytest.mark.parametrize(
    ("found", "instead"),
    [
        ("mlc.add", "mlc.sub"),
        ("mlc.mul %a, %x", "mlc.mul %a, %y"),
        ("mlc.mul %a, %x", "mlc.mul %x, %a"),
        ("return %b", "return %a"),
        ("tensor<4xf32>", "tensor<5xf32>"),
        ("tensor<4xf32>", "tensor<4xf64>"),
        ("@f", "@g"),
        ("-> tensor<4xf32> {", "-> tensor<4xf32> attributes {kept = 1 : i64} {"),
    ],
)
def test_all_else_counts(found: str, instead: str) -> None:
    assert found in PROGRAM
    assert of(PROGRAM) != of(PROGRAM.replace(found, instead))


def test_regions_count() -> None:
    loop = """
    func.func @f(%x : tensor<4xf32>, %n : tensor<i64>) -> tensor<4xf32> {
      %r = mlc.for %i to %n iter(%c = %x) -> (tensor<4xf32>) {
        %d = mlc.add %c, %c : tensor<4xf32>
        mlc.yield %d : tensor<4xf32>
      }
      func.return %r : tensor<4xf32>
    }
    """
    assert of(loop) != of(loop.replace("%c, %c", "%c, %x"))


def test_a_copy_is_the_same_program() -> None:
    module = parse_text(PROGRAM, "program")
    assert fingerprint(module.clone()) == fingerprint(module)
