"""What is the same program for memo tables and certificates, and what is not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mlc.dialects.structural_hash import structural_hash, value_hashes
from mlc.dialects.tensor import bitwise, comparison, elementwise
from mlc.dialects.tensor.elementwise import Binary
from mlc.text import parse_text

PROGRAM = """
func.func @f(%x: tensor<?x4xf32, #mlc.dims<"B", 4>> {mlc.name = "x"},
             %w: tensor<4x5xf32>) -> (tensor<?x5xf32, #mlc.dims<"B", 5>>)
    attributes {mlc.symbols = ["B"]} {
  %a = mlc.contract "ab,bc->ac" %x, %w
     : tensor<?x4xf32, #mlc.dims<"B", 4>>, tensor<4x5xf32> -> tensor<?x5xf32, #mlc.dims<"B", 5>>
  %b = mlc.exp %a : tensor<?x5xf32, #mlc.dims<"B", 5>>
  %c = mlc.neg %a : tensor<?x5xf32, #mlc.dims<"B", 5>>
  %d = mlc.add %b, %c : tensor<?x5xf32, #mlc.dims<"B", 5>>
  func.return %d : tensor<?x5xf32, #mlc.dims<"B", 5>>
}
"""
LOOP = """
func.func @f(%x: tensor<4xf32>, %n: tensor<i64>) -> tensor<4xf32> {
  %r = mlc.for %i to %n iter(%c = %x) -> (tensor<4xf32>) {
    %d = mlc.add %c, %c : tensor<4xf32>
    %e = mlc.mul %d, %x : tensor<4xf32>
    mlc.yield %e : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}
"""


def of(text: str) -> str:
    """The hash of a function that is a text."""
    (function,) = parse_text(text, "program").body.block.ops
    return structural_hash(function)


def test_the_hash_is_the_same_on_every_machine() -> None:
    assert of(PROGRAM) == "6b3a4c2db8f7a99f584f78624e9e4d20"


@pytest.mark.parametrize(
    ("found", "instead"),
    [
        ("%a", "%first"),
        ("@f", "@g"),
        ('{mlc.name = "x"}', ""),
        ('"B"', '"N"'),
        ('"ab,bc->ac"', '"mk,kn->mn"'),
        ("%b, %c", "%c, %b"),
    ],
)
def test_names_and_places_do_not_count(found: str, instead: str) -> None:
    assert found in PROGRAM
    assert of(PROGRAM.replace(found, instead)) == of(PROGRAM)


def test_ops_in_another_order_are_the_same() -> None:
    lines = PROGRAM.splitlines()
    exp, neg = (k for k, line in enumerate(lines) if "mlc.exp" in line or "mlc.neg" in line)
    lines[exp], lines[neg] = lines[neg], lines[exp]
    assert of("\n".join(lines)) == of(PROGRAM)


@pytest.mark.parametrize(
    ("found", "instead"),
    [
        ("mlc.exp", "mlc.log"),
        ("mlc.add %b, %c", "mlc.sub %b, %c"),
        ("mlc.add %b, %c", "mlc.add %b, %b"),
        ("return %d", "return %b"),
        ('"B"', '"2*B"'),
        ("f32", "f64"),
        ("mlc.neg %a", "mlc.exp %a"),  # twice the same, and not once
    ],
)
def test_all_else_counts(found: str, instead: str) -> None:
    assert found in PROGRAM
    assert of(PROGRAM.replace(found, instead)) != of(PROGRAM)


def test_operands_of_a_difference_have_places() -> None:
    less = PROGRAM.replace("mlc.add", "mlc.sub")
    assert of(less) != of(less.replace("%b, %c", "%c, %b"))
    assert of(less.replace("mlc.sub", "mlc.max")) == of(
        less.replace("mlc.sub %b, %c", "mlc.max %c, %b")
    )


def test_comparisons_commute_by_their_predicate() -> None:
    text = """
    func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xi1> {
      %a = mlc.compare "PREDICATE" %x, %y : tensor<4xf32> -> tensor<4xi1>
      func.return %a : tensor<4xi1>
    }
    """
    for predicate in comparison.PREDICATES:
        found = text.replace("PREDICATE", predicate)
        is_same = of(found) == of(found.replace("%x, %y :", "%y, %x :"))
        assert is_same == (predicate in ("eq", "ne"))


def test_sizes_that_are_sums_of_symbols() -> None:
    text = """
    func.func @f(%x: tensor<?x?xf32, #mlc.dims<"SUM", "2*M">>) -> () {
      func.return
    }
    """
    forms = ("N + M", "A + M", "M + Z", "3*N + M")
    first, *others = (of(text.replace("SUM", form)) for form in forms)
    assert [x == first for x in others] == [True, True, False]
    assert of(text.replace("SUM", "M")) != of(text.replace("SUM", "N"))
    swapped = text.replace("SUM", "M").replace("2*M", "2*A").replace('"M"', '"A"')
    assert of(swapped) == of(text.replace("SUM", "M"))


def test_regions_count_and_see_what_is_outside() -> None:
    assert of(LOOP) == of(LOOP.replace("%c", "%carried").replace("%e", "%end"))
    assert of(LOOP) == of(LOOP.replace("%d, %x", "%x, %d"))
    changed = ("%c, %c", "%c, %x"), ("yield %e", "yield %d"), ("%d, %x", "%d, %c")
    assert len({of(LOOP), *(of(LOOP.replace(*pair)) for pair in changed)}) == 4


def test_modules_count_the_names_of_their_functions() -> None:
    one, other = (parse_text(text, "m") for text in (LOOP, LOOP.replace("@f", "@g")))
    assert structural_hash(one) != structural_hash(other)
    assert structural_hash(one) == structural_hash(one.clone())


def test_equal_values_have_equal_hashes() -> None:
    (function,) = parse_text(PROGRAM.replace("mlc.neg", "mlc.exp"), "program").body.block.ops
    hashes = value_hashes(function)
    names = {value.name_hint: found for value, found in hashes.items()}
    assert names["b"] == names["c"]
    assert len(set(names.values())) == len(names) - 1


@pytest.mark.parametrize(
    "op",
    [
        x
        for module in (bitwise, comparison, elementwise)
        for x in vars(module).values()
        if isinstance(x, type) and issubclass(x, Binary) and x.COMMUTES and hasattr(x, "name")
    ],
)
def test_ops_that_commute(op: type[Binary]) -> None:
    numbers = [0, -1, 3] if issubclass(op, bitwise.Bitwise) else [0.0, -0.0, 2.5, np.inf, np.nan]
    x, y = (np.array(side) for side in zip(*itertools.product(numbers, numbers), strict=True))
    one = object.__new__(op)
    with np.errstate(invalid="ignore"):
        found, swapped = one.reference(x, y), one.reference(y, x)
    np.testing.assert_array_equal(found, swapped)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(swapped))
