"""The search for plans against brute force, heuristics, and the kernels that are made of it."""

from __future__ import annotations

import random
from itertools import product

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from mlc.dialects.plan import KernelOp
from mlc.dialects.target.known import named_target
from mlc.passes.cost.work import clock
from mlc.passes.plan.fusion.entries import Entry
from mlc.passes.plan.fusion.form_kernels import FormKernelsPass
from mlc.passes.plan.fusion.legality import State
from mlc.passes.plan.fusion.search import HEURISTICS, Found, Search, follow, parts_of, replay
from mlc.passes.plan.fusion.state import Partial
from mlc.passes.plan.fusion.table import Table
from mlc.passes.plan.memory.in_place.ownership import Ownership
from mlc.passes.remarks import listening
from mlc.passes.tensor.canonicalize import CanonicalizePass
from mlc.passes.tensor.dce import DcePass
from mlc.runtime.interpret import entry_function
from mlc.text import parse_text
from tests.programs import random_program
from tests.sweeps import leading

STEPS = 10**6
ELEMENTWISE = ("exp", "sqrt", "neg", "tanh")
JOINING = ("add", "mul", "sub", "max")


def random_graph(seed: int, length: int = 16) -> ModuleOp:
    """Elementwise ops, reductions and broadcasts, in which many values have several readers."""
    rng = random.Random(seed)
    rows, columns = rng.choice(((4, 8), (64, 64), (1000, 1000)))
    matrix, row = f"tensor<{rows}x{columns}xf32>", f"tensor<{rows}xf32>"
    matrices, rows_of, lines = ["%x", "%y"], ["%v"], list[str]()
    for k in range(length):
        kind = rng.choice(("one", "one", "two", "two", "two", "sum", "spread"))
        if kind == "one":
            source, kept = rng.choice(((matrices, matrix), (rows_of, row)))
            lines.append(f"%{k} = mlc.{rng.choice(ELEMENTWISE)} {rng.choice(source)} : {kept}")
            source.append(f"%{k}")
        elif kind == "two":
            source, kept = rng.choice(((matrices, matrix), (matrices, matrix), (rows_of, row)))
            x, y = rng.choice(source[-4:]), rng.choice(source)
            lines.append(f"%{k} = mlc.{rng.choice(JOINING)} {x}, {y} : {kept}")
            source.append(f"%{k}")
        elif kind == "sum":
            x = rng.choice(matrices[-4:])
            lines.append(f'%{k} = mlc.reduce "sum" "mn->m" {x} : {matrix} -> {row}')
            rows_of.append(f"%{k}")
        else:
            x = rng.choice(rows_of[-4:])
            lines.append(f'%{k} = mlc.broadcast "m->mn" {x} : {row} -> {matrix}')
            matrices.append(f"%{k}")
    body, left = "\n  ".join(lines), ", ".join(matrices[-4:])
    returned = ", ".join([matrix] * len(matrices[-4:]) + [row])
    text = f"""func.func @main(%x: {matrix}, %y: {matrix}, %v: {row}) -> ({returned}) {{
  {body}
  func.return {left}, {rows_of[-1]} : {returned}
}}"""
    module = parse_text(text, f"graph {seed}")
    DcePass().apply(Context(), module)
    return module


def table_of(module: ModuleOp) -> Table:
    function = entry_function(module)
    return Table(function.body.block, Ownership(function), clock(named_target("avx2")))


def starts_of(table: Table, part: list[Entry]) -> list[Found]:
    return [follow(table, part, choose) for choose in HEURISTICS.values()]


def brute_force(table: Table, part: list[Entry]) -> int:
    """The least cost over all states of all points."""
    points = [entry.number for entry in part if entry.is_point()]
    states: tuple[State, State] = ("inline", "buffer")
    return min(
        replay(table, part, dict(zip(points, chosen, strict=True))).cost
        for chosen in product(states, repeat=len(points))
    )


@pytest.mark.parametrize("seed", leading(80, range(200)))
def test_exact_is_never_worse_than_a_heuristic_and_equals_brute_force(seed: int) -> None:
    table = table_of(random_graph(seed))
    for part in parts_of(table):
        starts = starts_of(table, part)
        found = Search(table, part, steps=STEPS).run(starts)
        assert found.cost <= min(start.cost for start in starts)
        assert found.bound == found.cost
        assert replay(table, part, found.choices).cost == found.cost
        if sum(entry.is_point() for entry in part) <= 8:
            best = min(brute_force(table, part), *(start.cost for start in starts))
            assert found.cost == best


def layers(count: int, size: int) -> ModuleOp:
    """Exponentials over their rows' sums, again and again."""
    matrix, row = f"tensor<{size}x{size}xf32>", f"tensor<{size}xf32>"
    lines, h = list[str](), "%x"
    for k in range(count):
        lines += [
            f"%e{k} = mlc.exp {h} : {matrix}",
            f'%s{k} = mlc.reduce "sum" "mn->m" %e{k} : {matrix} -> {row}',
            f'%b{k} = mlc.broadcast "m->mn" %s{k} : {row} -> {matrix}',
            f"%h{k} = mlc.div %e{k}, %b{k} : {matrix}",
        ]
        h = f"%h{k}"
    body = "\n  ".join(lines)
    text = f"func.func @main(%x: {matrix}) -> ({matrix}) {{\n  {body}\n"
    return parse_text(f"{text}  func.return {h} : {matrix}\n}}", "layers")


def test_prunings_leave_out_plans_and_keep_the_best() -> None:
    plans = [0, 0, 0]
    for size in (8, 64, 1000):
        table = table_of(layers(8, size))
        (part,) = (part for part in parts_of(table) if any(entry.is_point() for entry in part))
        starts, best = starts_of(table, part), set[int]()
        for k, (by_cost, by_structure) in enumerate(((False, False), (True, False), (True, True))):
            search = Search(table, part, steps=STEPS, by_cost=by_cost, by_structure=by_structure)
            best.add(search.run(starts).cost)
            plans[k] += search.counts.plans
        assert len(best) == 1
    print(f"plans evaluated: {plans}")
    assert plans[0] == 3 * 2**8
    assert plans[0] > 2 * plans[1] > 4 * plans[2]


@pytest.mark.parametrize("seed", range(40))
def test_no_pruning_loses_a_plan(seed: int) -> None:
    table = table_of(random_graph(seed, length=24))
    for part in parts_of(table):
        starts = starts_of(table, part)
        costs = {
            Search(table, part, steps=STEPS, by_cost=by_cost, by_structure=by_structure)
            .run(starts)
            .cost
            for by_cost, by_structure in ((True, True), (True, False), (False, True))
        }
        assert len(costs) == 1


def test_the_table_is_linear_in_the_program() -> None:
    def size(length: int) -> float:
        table = table_of(random_graph(7, length))
        reads = sum(len(entry.reads) + len(entry.needs) for entry in table.entries)
        return (len(table.entries) + reads) / max(len(table.entries), 1)

    assert size(200) < 2 * size(50)


@pytest.mark.parametrize("seed", leading(40, range(100)))
@pytest.mark.parametrize("fusion", ["exact", "greedy", "all", "fnr"])
def test_kernels_are_those_that_were_costed(seed: int, fusion: str) -> None:
    """The plan that the search evaluates has the kernels that are formed."""
    module = random_graph(seed, 20)
    table = table_of(module)
    launches = written = 0
    for part in parts_of(table):
        starts = starts_of(table, part)
        if fusion == "exact":
            found = Search(table, part, steps=50 * 8).run(starts)
        else:
            found = starts[list(HEURISTICS).index(fusion)]
        plan = Partial(table)
        for entry in part:
            plan.step(entry, found.choices.get(entry.number))
        launches += len(plan.kernels)
        written += sum(kernel.outputs for kernel in plan.kernels.values())
    FormKernelsPass(fusion=fusion).apply(Context(), module)
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    assert len(kernels) == launches
    assert sum(len(kernel.outs) for kernel in kernels) >= written


def test_a_budget_ends_the_search_and_says_what_is_known() -> None:
    table = table_of(random_graph(5, length=200))
    part = max(parts_of(table), key=lambda part: sum(entry.is_point() for entry in part))
    starts = starts_of(table, part)
    search = Search(table, part, steps=10)
    found = search.run(starts)
    assert search.counts.visited <= 10
    assert found.bound < found.cost <= min(start.cost for start in starts)
    module = random_graph(5, length=200)
    with listening() as heard:
        FormKernelsPass(budget_ms=1).apply(Context(), module)
    assert any("of the least possible" in remark.text for remark in heard)


@pytest.mark.parametrize("seed", range(10))
def test_one_program_has_one_plan(seed: int) -> None:
    texts = set[str]()
    for _ in range(2):
        module = random_program(random.Random(seed), length=30).module
        CanonicalizePass().apply(Context(), module)
        FormKernelsPass().apply(Context(), module)
        texts.add(str(module))
    assert len(texts) == 1


@pytest.mark.parametrize("seed", range(20))
def test_forced_decisions_hold(seed: int) -> None:
    """Stored values leave their kernels; what may be inline does not."""
    module = random_graph(seed)
    table = table_of(module)
    points = [entry for entry in table.entries if entry.is_point()]
    ops = list[Operation](entry_function(module).walk())
    for entry in points[:4]:
        number = ops.index(entry.op)
        stored = module.clone()
        name = entry.op.name
        with listening() as heard:
            FormKernelsPass(forced=(f"store:{number}",)).apply(Context(), stored)
        said = [r.decision for r in heard if r.op == name and r.decision is not None]
        assert any(d.decision == "store" and d.rule == "forced" for d in said)
