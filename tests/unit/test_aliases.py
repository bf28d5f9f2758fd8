"""What is live at each kernel of a plan: asked of one value, and all of it."""

from __future__ import annotations

import random

import pytest
from xdsl.dialects.builtin import ModuleOp

from benchmarks.zoo import ZOO
from mlc.dialects.analysis.aliases import Aliases
from mlc.frontend.call.compile import compile as compile_function
from mlc.passes.plan.fusion.form_kernels import FormKernelsPass
from mlc.runtime.interpret import entry_function
from mlc.text import parse_text
from tests.programs import random_program

LOOP = """
func.func @f(%n: tensor<i64>, %x: tensor<4xf32>, %y: tensor<4xf32>, %c: tensor<i1>)
    -> tensor<4xf32> {
  %a = mlc.mul %x, %y : tensor<4xf32>
  %b = mlc.exp %a : tensor<4xf32>
  %r = mlc.for %i to %n iter(%v = %x) -> (tensor<4xf32>) {
    %d = mlc.tanh %v : tensor<4xf32>
    %s = mlc.if %c -> (tensor<4xf32>) {
      %e = mlc.add %d, %b : tensor<4xf32>
      mlc.yield %e : tensor<4xf32>
    } else {
      %g = mlc.sub %d, %y : tensor<4xf32>
      mlc.yield %g : tensor<4xf32>
    }
    mlc.yield %s : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}
"""


def agrees(module: ModuleOp) -> int:
    """The kernels of a plan, of which both ways say the same."""
    places = Aliases(entry_function(module))
    roots = [x for values in places.members.values() for x in values]
    kernels = 0
    for op, live in places.alive():
        assert set(live) == {x for x in roots if places.is_live(op, x)}
        kernels += 1
    assert kernels == len(places.kernels)
    return kernels


@pytest.mark.parametrize("seed", range(10))
def test_one_value_and_all_of_them_agree(seed: int) -> None:
    module = random_program(random.Random(seed), length=30).module
    FormKernelsPass(fusion="none").form(module)
    assert agrees(module)


@pytest.mark.parametrize("name", ["lstm", "page_rank", "attention"])
def test_they_agree_where_programs_have_loops(name: str) -> None:
    low = compile_function(target="avx512")(ZOO[name].function).lower(*ZOO[name].arrays("small"))
    assert agrees(low.levels.at("plan"))


def test_a_loop_reads_again_what_it_reads() -> None:
    """`%b` is read in one branch of each trip: it is live in the other one as well; `%a` is not."""
    module = parse_text(LOOP, "loop")
    FormKernelsPass(fusion="none").form(module)
    assert agrees(module)
    places = Aliases(entry_function(module))
    made = {inner.name: op for op in places.kernels for inner in op.block.ops}
    product, exponential, other = (made[f"mlc.{name}"] for name in ("mul", "exp", "sub"))
    assert places.is_live(other, exponential.outs[0])
    assert not places.is_live(other, product.outs[0])
    assert places.is_read_after(product, product.outs[0])
    assert not places.is_live(product, product.outs[0])
