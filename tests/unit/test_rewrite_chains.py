"""Rules that undo each other end in an error, also where each builds more ops than it replaces."""

from __future__ import annotations

from typing import Any

import pytest

from mlc.dialects.errors import CompilerBug
from mlc.dialects.tensor.elementwise import AddOp, MulOp, NegOp
from mlc.passes.tensor.rules import LONGEST_CHAIN, Rules
from mlc.text import parse_text

TEXT = """
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = mlc.add %x, %x : tensor<4xf32>
  func.return %y : tensor<4xf32>
}
"""


def test_a_circle_of_rules_is_an_error() -> None:
    rules = Rules()

    @rules.on(AddOp)
    def product(op: AddOp, b: Any) -> Any:
        return b(MulOp, b(NegOp, op.lhs), b(NegOp, op.rhs))

    @rules.on(MulOp)
    def total(op: MulOp, b: Any) -> Any:
        return b(AddOp, b(NegOp, op.lhs), b(NegOp, op.rhs))

    with pytest.raises(CompilerBug, match="undo each other"):
        rules.sweep(parse_text(TEXT, "f.mlir"))
    assert product is not total


def test_a_long_chain_of_ops_is_none_of_rewrites() -> None:
    rules = Rules()

    @rules.on(AddOp)
    def product(op: AddOp, b: Any) -> Any:
        return b(MulOp, op.lhs, op.rhs)

    count = 3 * LONGEST_CHAIN
    lines = [f"%{k + 1} = mlc.add %{k}, %{k} : tensor<4xf32>" for k in range(count)]
    head = "func.func @f(%0: tensor<4xf32>) -> tensor<4xf32> {"
    text = "\n".join([head, *lines, f"func.return %{count} : tensor<4xf32>", "}"])
    module = parse_text(text, "f.mlir")
    rules.sweep(module)
    assert str(module).count("mlc.mul") == count
    assert product.__name__ in [each.name for each in rules.entries()]
