"""Equality saturation: `mlc superopt --by saturation`, `mlc.compile(discover_by="saturation")`."""

# pyright: reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownVariableType=false

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

import mlc
from mlc.certificate import certificate
from mlc.check import check as checked_certificate
from mlc.dialects.program import entry_function
from mlc.dialects.tensor.elementwise import TanhOp
from mlc.dialects.tensor.reduce import ContractOp
from mlc.driver import main
from mlc.levels import Levels
from mlc.passes.remarks import place
from mlc.passes.rules.egraph import EGraph, blocks_of
from mlc.passes.rules.ematch import Saturation, Sought
from mlc.passes.rules.extract import Extraction, extracted
from mlc.passes.rules.load import read_rules
from mlc.passes.rules.rule import Rule
from mlc.passes.rules.saturate import Saturated
from mlc.runtime.interpret import interpret
from mlc.superopt import superopt
from mlc.text import parse_text
from tests.sums_of_products import RULES, SQUARE, TEXT, discovering, levels_of

ROOT = Path(__file__).parent.parent
PUBLISHED = {x.name: x for x in read_rules(ROOT / "tests" / "data" / "rules" / "right.rules")}


def graph_of(module: ModuleOp) -> tuple[EGraph, dict[str, SSAValue]]:
    """Of the function, with its values by name."""
    block = entry_function(module).body.block
    named = {x.name_hint: x for x in (*block.args, *(r for op in block.ops for r in op.results))}
    return EGraph(block), {name: x for name, x in named.items() if name is not None}


def free(_: object) -> tuple[int, int]:
    """As an estimate: nothing is known of costs."""
    return 0, 0


# The e-graph -------------------------------------------------------------------------------------


def squares(body: str) -> ModuleOp:
    """`T` is the type; the last line yields."""
    text = body.replace("T", "tensor<4x4xf32>")
    return parse_text(
        "func.func @f(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {\n"
        f"{text}\n}}\n",
        "f.mlir",
    )


def test_ops_of_equal_values_are_equal() -> None:
    graph, at = graph_of(
        squares("""
        %a = mlc.tanh %x : T
        %b = mlc.tanh %y : T
        %c = mlc.add %a, %y : T
        %d = mlc.add %y, %b : T
        %e = mlc.sub %c, %d : T
        func.return %e : T""")
    )
    assert graph.class_of(at["c"]) != graph.class_of(at["d"])
    graph.union(at["x"], at["y"])
    graph.rebuild()
    assert graph.class_of(at["a"]) == graph.class_of(at["b"])
    assert graph.class_of(at["c"]) == graph.class_of(at["d"])  # operands change places, too
    assert len(graph.classes[graph.class_of(at["c"])].nodes) == 1


def test_letters_are_names() -> None:
    graph, at = graph_of(
        squares("""
        %a = mlc.contract "mk,kn->mn" %x, %y : T, T -> T
        %b = mlc.contract "ab,bc->ac" %x, %y : T, T -> T
        %c = mlc.contract "ab,cb->ac" %x, %y : T, T -> T
        %d = mlc.add %a, %b : T
        %e = mlc.add %d, %c : T
        func.return %e : T""")
    )
    assert graph.class_of(at["a"]) == graph.class_of(at["b"]) != graph.class_of(at["c"])


def grown(module: ModuleOp, *names: str, nodes: int = 200, rounds: int = 8) -> Saturation:
    """By published rules, both ways."""
    rules = [PUBLISHED[name] for name in names]
    rules += [rule.reversed() for rule in rules if rule.is_two_way]
    (block,) = blocks_of(entry_function(module))
    return Saturation(EGraph(block), [Sought(x) for x in rules], nodes, rounds)


CHAIN = """
    %a = mlc.mul %x, %y : T
    %b = mlc.mul %a, %x : T
    %c = mlc.mul %b, %y : T
    func.return %c : T"""


def test_it_ends_where_rules_say_nothing_any_more() -> None:
    found = grown(squares(CHAIN), "multiply_associates")
    assert found.is_complete
    assert found.rounds < 8
    # products of two x and two y in any order: xy, xx, yy, xxy, xyy and xxyy, of each several ops
    assert len(found.graph.classes) == 8
    assert found.graph.count > 8


@pytest.mark.parametrize("count", [3, 4, 5])
def test_sums_of_terms_in_any_order(count: int) -> None:
    """A class for each set of terms, with an op for each way to part it in two."""
    names = [f"%x{k}" for k in range(count)]
    lines = [f"%s1 = mlc.add {names[0]}, {names[1]} : T"]
    lines += [f"%s{k} = mlc.add %s{k - 1}, {names[k]} : T" for k in range(2, count)]
    arguments = ", ".join(f"{name}: T" for name in names)
    body = "\n".join([*lines, f"func.return %s{count - 1} : T"])
    text = f"func.func @f({arguments}) -> T {{\n{body}\n}}"
    found = grown(
        parse_text(text.replace(" T", " tensor<4xf32>"), "f.mlir"), "add_associates", nodes=2000,
        rounds=60,
    )  # fmt: skip
    assert found.is_complete
    graph = found.graph
    assert len(graph.classes) == 2**count - 1
    ops = sum(len(each.nodes) for each in graph.classes.values())
    assert ops == (3**count - 2 ** (count + 1) + 1) // 2


def test_counts_end_it() -> None:
    few = grown(squares(CHAIN), "multiply_associates", nodes=1, rounds=1)
    assert not few.is_complete
    assert few.rounds == 1
    many = grown(squares(CHAIN), "multiply_associates", "multiply_distributes", nodes=60)
    assert not grown(squares(CHAIN), "multiply_associates", rounds=1).is_complete
    assert many.graph.count <= 70


def test_what_was_written_is_extracted_in_its_order() -> None:
    module = squares(CHAIN)
    found = grown(module, "multiply_associates")
    extraction = Extraction(found.graph, found.moves, free)
    made = extracted(module, [extraction], [extraction.written_down()])
    assert str(made) == str(module)


def test_a_choice_that_needs_itself_is_no_program() -> None:
    module = squares("""
        %a = mlc.tanh %x : T
        %b = mlc.tanh %a : T
        func.return %b : T""")
    graph, at = graph_of(module)
    graph.union(at["a"], at["b"])  # a = tanh a
    graph.rebuild()
    extraction = Extraction(graph, [], free)
    (of,) = (of for of, each in graph.classes.items() if len(each.nodes) > 1)
    choices = [{of: node} for node in graph.classes[of].nodes]
    assert [extraction.needed(choice) is None for choice in choices] == [False, True]
    assert extracted(module, [extraction], choices[1:]) is None
    made = extracted(module, [extraction], [extraction.least(extraction.apart)])
    assert made is not None
    assert sum(isinstance(op, TanhOp) for op in made.walk()) == 1


def test_rules_of_two_results_are_one_move() -> None:
    """Neither product alone is cheaper as a part of the joined one: both are."""
    module = squares("""
        %a = mlc.contract "mk,kn->mn" %x, %x : T, T -> T
        %b = mlc.contract "mk,kn->mn" %x, %y : T, T -> T
        %c = mlc.sub %a, %b : T
        func.return %c : T""")
    found = grown(module, "products_of_one_factor", rounds=1)

    def dear(op: Any) -> tuple[int, int]:
        return (10 if op.name == "mlc.contract" else 1), 0

    extraction = Extraction(found.graph, found.moves, dear)
    least = extraction.least(extraction.fused)
    assert {node.op.name for node in (extraction.needed(least) or {}).values()} == {
        "mlc.contract", "mlc.sub",
    }  # fmt: skip
    better = extraction.better(least, extraction.fused)
    made = extracted(module, [extraction], [better])
    assert made is not None
    made.verify()
    assert str(made).count("mlc.contract") == 1
    assert str(made).count("mlc.slice") == 2
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-3, 4, (4, 4)).astype(np.float32) for _ in range(2)]
    np.testing.assert_array_equal(interpret(made, arrays)[0], interpret(module, arrays)[0])


# Programs ----------------------------------------------------------------------------------------


def saturated(levels: Levels, rules: list[Rule] = RULES, plans: int = 20) -> Saturated:
    found = superopt(levels, rules, by="saturation", plans=plans)
    assert isinstance(found, Saturated)
    return found


@pytest.fixture(scope="module")
def found() -> Saturated:
    return saturated(levels_of())


def test_three_products_become_one(found: Saturated) -> None:
    assert str(found.best).count("mlc.contract") == 1
    assert found.best_s == superopt(levels_of(), RULES, plans=20).best_s
    assert {rule for rule, _ in found.rules} == {"product_of_sum"}
    assert all("sums_of_products.py:" in at for _, at in found.rules)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((96, 96)).astype(np.float32) for _ in range(4)]
    one, other = (interpret(module, arrays)[0] for module in (found.start, found.best))
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-3)


def test_more_plans_are_no_worse_and_the_same_each_time(found: Saturated) -> None:
    some = [saturated(levels_of(), plans=n) for n in (1, 2, 3)]
    assert [each.judged for each in some] == [1, 2, 2]  # there are no more
    assert some[0].modules == ()
    times = [each.best_s for each in (*some, found)]
    assert times == sorted(times, reverse=True)
    assert saturated(levels_of()).said() == found.said()
    assert str(saturated(levels_of()).best) == str(found.best)


def test_numerics_say_which_rules_there_are() -> None:
    assert saturated(levels_of("standard")).modules == ()


def test_all_of_a_long_program_changes_at_once() -> None:
    """A search goes on by one application after the other: its plans end in the middle."""

    @mlc.compile(target="avx2", threads=1, numerics="fast")
    def f(x: Any, *w: Any) -> Any:
        for u, v in zip(w[::2], w[1::2], strict=True):
            x = np.tanh(x @ u + x @ v)
        return x

    types = [mlc.TensorSpec(256, 256)] * 13
    rules = [PUBLISHED["product_with_sum"]]
    levels = f.lower(*types).levels
    found = saturated(levels, rules, plans=3)
    assert str(found.start).count("mlc.contract") == 12
    assert str(found.best).count("mlc.contract") == 6
    searched = superopt(levels, rules, plans=3)
    assert str(searched.best).count("mlc.contract") > 6


def test_rules_in_loops_read_what_is_outside() -> None:
    @mlc.compile(target="avx2", threads=1, numerics="fast")
    def f(x: Any, y: Any, n: Any) -> Any:
        u = x @ y
        for _ in range(n):
            x = x @ u + y @ u
        return x + u

    levels = f.lower(SQUARE, SQUARE, mlc.TensorSpec(dtype=np.int64)).levels
    found = saturated(levels, plans=9)
    assert str(found.start).count("mlc.contract") == 3
    assert str(found.best).count("mlc.contract") == 2
    found.best.verify()
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-1, 2, (96, 96)).astype(np.float32) for _ in range(2))
    given = [x, y, np.asarray(2)]
    one, other = (interpret(module, given)[0] for module in (found.start, found.best))
    np.testing.assert_allclose(one, other, rtol=1e-4)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules, source, best = tmp_path / "r.rules", tmp_path / "f.mlir", tmp_path / "best.mlir"
    rules.write_text(TEXT)
    source.write_text(levels_of().traced)
    command = ["superopt", str(source), "--numerics", "fast", "--plans", "9", "-o", str(best)]
    command += ["--target", "avx2", "--by", "saturation", "--rules", str(rules)]
    assert main(command) == 0
    said = capsys.readouterr().out.splitlines()
    assert "product_of_sum" in said[2]
    assert said[-2].startswith("all of these")
    assert "plans judged, of" in said[-1]
    assert "rounds, complete" in said[-1]
    assert best.read_text().count("mlc.contract") == 1


def test_every_process_finds_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules, source = tmp_path / "r.rules", tmp_path / "f.mlir"
    rules.write_text(TEXT)
    source.write_text(levels_of().traced)
    files = ["superopt", str(source), "--by", "saturation", "--rules", str(rules)]
    options = ["--numerics", "fast", "--target", "avx2", "--plans", "9", "-o"]
    one, other = (tmp_path / name for name in ("one.mlir", "other.mlir"))
    assert main([*files, *options, str(one)]) == 0
    said = subprocess.run(
        [sys.executable, "-m", "mlc", *files, *options, str(other)],
        cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "7"}, check=True, capture_output=True,
        text=True,
    ).stdout  # fmt: skip
    assert capsys.readouterr().out == said
    assert one.read_text() == other.read_text()


# In place of the program -------------------------------------------------------------------------


def test_what_is_found_is_what_is_compiled(tmp_path: Path) -> None:
    rules = tmp_path / "sums.rules"
    rules.write_text(TEXT)
    options = {"numerics": "fast", "discover_by": "saturation"}
    first, again = (discovering(rules, **options) for _ in range(2))
    for f in (first, again):  # found, and read
        levels = f.lower(SQUARE, SQUARE, SQUARE, SQUARE).levels
        assert levels.text("tensor").count("mlc.contract") == 1
        said = [str(x) for x in levels.remarks() if "discover:" in str(x)]
        assert "discover: saturation:" in said[0]
        assert any("discover: product_of_sum at" in x for x in said)
        (product,) = (x for x in levels.at("tensor").walk() if isinstance(x, ContractOp))
        assert "sums_of_products.py:" in place(product)
        assert checked_certificate(certificate(levels))["claims"]
    rng = np.random.default_rng(0)
    x, y, z, w = (rng.integers(-4, 5, (96, 96)).astype(np.float32) for _ in range(4))
    np.testing.assert_array_equal(again(x, y, z, w), (x + y + z) @ w)


def test_how_is_in_the_key() -> None:
    def key(by: str) -> str:
        f = discovering(True, numerics="fast", discover_by=by)
        return f.lower(*(SQUARE,) * 4).levels.options.key()

    assert key("search") != key("saturation")


def test_another_way_is_an_error() -> None:
    expected = "discover_by='luck'; expected 'search' or 'saturation'"
    with pytest.raises(ValueError, match=expected):
        discovering(True, numerics="fast", discover_by="luck")
