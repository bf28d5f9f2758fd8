"""
Random programs with all rules on: discovered ones, those of mlc and published ones. In an e-graph
each application says that two values are equal, so all ops of a class are computed and compared;
and programs that are picked from it by chance compute what the one that was written does.

Inputs are whole numbers whose sums are exact: every rule holds bit for bit, up to the sign of zero
where a rule is not exact. `--programs=2000` tries that many, with rules of three ops.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from mlc.dialects.dims import Dim, Shape, shape_of, tensor_type
from mlc.dialects.dtypes import F64
from mlc.dialects.program import entry_function
from mlc.dialects.tensor.comparison import MaxOp
from mlc.dialects.tensor.create import ConstantOp, dense
from mlc.dialects.tensor.elementwise import AddOp, MulOp, SubOp
from mlc.dialects.tensor.op import Array, OpBuilder, TensorOp, tensor_of
from mlc.dialects.tensor.reduce import ContractOp
from mlc.dialects.tensor.shape import BroadcastOp, ConcatOp, SliceOp, TransposeOp
from mlc.dialects.tensor.window import ConvOp
from mlc.discovery import Worker
from mlc.passes.discovery.find import discover
from mlc.passes.discovery.words import DOCUMENTS, spaces
from mlc.passes.rules.egraph import EGraph, Node, blocks_of
from mlc.passes.rules.ematch import Saturation, Sought
from mlc.passes.rules.extract import Choice, Counted, Extraction, extracted
from mlc.passes.rules.load import read_rules
from mlc.passes.rules.rule import Rule
from mlc.passes.rules.search import allowed_rules, clean
from mlc.passes.rules.text import parse
from mlc.runtime.interpret import interpret
from tests.programs import TOLERANCE, agree, random_program

DATA = Path(__file__).parent / "data" / "rules"
PUBLISHED, FOUND = DATA / "right.rules", DATA / "discovered"
PROGRAMS = 40
DEEP = 2000  # programs from which on rules of three ops are looked for and tried
NODES, ROUNDS, PICKED = 150, 3, 4
LARGEST = 2.0**40
"""Of values, so that sums of a few thousand products of two of them are whole numbers of f64."""


@pytest.fixture(scope="module")
def count(request: pytest.FixtureRequest) -> int:
    return request.config.getoption("--programs") or PROGRAMS


@pytest.fixture(scope="module")
def discovered(count: int) -> list[Rule]:
    if count < DEEP:
        return [x for name in ("smaller", "other") for x in read_rules(FOUND / f"{name}.rules")]
    with Worker(1, "here", None, None) as work:
        return [*discover(spaces(DOCUMENTS), 3, None, work).rules.values()]


def sizes(numbers: Sequence[int]) -> Shape:
    """As the compiler has them."""
    return tuple(map(Dim.const, numbers))


class _Program:
    """A program of the ops that discovery knows, on whole numbers."""

    def __init__(self, seed: int, numerics: str) -> None:
        self.rng = rng = random.Random(seed)
        self.largest: dict[SSAValue, float] = {}
        ranks = [rng.choice((2, 2, 2, 4)) for _ in range(rng.randint(2, 4))]
        types = [tensor_type(F64.ir, sizes(rng.choice(SHAPES[rank]))) for rank in ranks]
        block = Block(arg_types=types)
        self.b = OpBuilder(block.add_op)
        self.values: list[SSAValue] = []
        for argument in block.args:
            self.put(argument, 2.0)
        for _ in range(rng.randint(4, 12)):
            rng.choice(MAKERS)(self)
        read = {x for op in block.ops for x in op.operands}
        ends = [x for x in self.values if x not in read][-3:] or self.values[-1:]
        block.add_op(ReturnOp(*ends))
        function = FuncOp("f", (types, [x.type for x in ends]), Region(block))
        self.module = ModuleOp([function], attributes={"mlc.numerics": StringAttr(numerics)})
        draw = np.random.default_rng(seed)
        self.inputs = [
            draw.integers(-2, 3, [d.evaluate({}) for d in shape_of(t)]).astype(np.float64)
            for t in types
        ]

    def put(self, value: SSAValue, largest: float) -> None:
        """A new value whose elements are no larger; forgotten where they may become too large."""
        if largest <= LARGEST:
            self.largest[value] = largest
            self.values.append(value)

    def pick(self, *ranks: int) -> SSAValue | None:
        found = [x for x in self.values if len(shape_of(x.type)) in ranks]
        return self.rng.choice(found[-7:]) if found else None

    def shape(self, x: SSAValue) -> tuple[int, ...]:
        return tuple(d.evaluate({}) for d in shape_of(x.type))

    def elementwise(self) -> None:
        x = self.pick(2, 4)
        assert x is not None
        y = self.rng.choice([y for y in self.values if y.type == x.type])
        op = self.rng.choice((AddOp, AddOp, MulOp, SubOp))
        a, b = self.largest[x], self.largest[y]
        self.put(self.b(op, x, y), a * b if op is MulOp else a + b)

    def with_constant(self) -> None:
        x = self.pick(2, 4)
        assert x is not None
        number = self.rng.choice((0, 0, 1, -1, 2))
        scalar = self.b(ConstantOp, value=dense(np.asarray(number), F64))
        letters = f"->{'abcd'[: len(self.shape(x))]}"
        y = self.b(BroadcastOp, scalar, letters=letters, declared=tensor_of(x))
        op: type[TensorOp] = self.rng.choice((MaxOp, MaxOp, MulOp, AddOp))
        a = self.largest[x]
        self.put(self.b(op, x, y), max(a * 2, a + 2))

    def transpose(self) -> None:
        if (x := self.pick(2)) is not None:
            self.put(self.b(TransposeOp, x, letters="ab->ba"), self.largest[x])

    def concat(self) -> None:
        if (x := self.pick(2, 4)) is None:
            return
        axis, shape = self.rng.randrange(2), self.shape(x)
        fits = [
            y
            for y in self.values
            if len(self.shape(y)) == len(shape)
            and all(k == axis or n == shape[k] for k, n in enumerate(self.shape(y)))
        ]
        y = self.rng.choice(fits)
        self.put(self.b(ConcatOp, x, y, axis=axis), max(self.largest[x], self.largest[y]))

    def cut(self) -> None:
        if (x := self.pick(2, 4)) is None:
            return
        axis, shape = self.rng.randrange(2), [*self.shape(x)]
        if shape[axis] < 2:
            return
        at = self.rng.randrange(1, shape[axis])
        for start, stop in ((0, at), (at, shape[axis])):
            size = [*shape[:axis], stop - start, *shape[axis + 1 :]]
            offsets = [start if k == axis else 0 for k in range(len(shape))]
            made = self.b(
                SliceOp, x, offsets=sizes(offsets), steps=sizes([1] * len(shape)),
                declared=tensor_type(F64.ir, sizes(size)),
            )  # fmt: skip
            self.put(made, self.largest[x])

    def product(self) -> None:
        if (x := self.pick(2)) is None:
            return
        k = self.shape(x)[1]
        fits = [y for y in self.values if len(self.shape(y)) == 2 and self.shape(y)[0] == k]
        if fits:
            y = self.rng.choice(fits)
            largest = k * self.largest[x] * self.largest[y]
            self.put(self.b(ContractOp, x, y, letters="mk,kn->mn"), largest)

    def conv(self) -> None:
        if (x := self.pick(4)) is None:
            return
        _, c, h, w = self.shape(x)
        fits = [
            (y, self.shape(y))
            for y in self.values
            if len(self.shape(y)) == 4 and self.shape(y)[1] == c
        ]
        fits = [(y, s) for y, s in fits if s[2] <= h and s[3] <= w]
        if fits:
            y, (f, _, i, j) = self.rng.choice(fits)
            declared = tensor_type(F64.ir, sizes((self.shape(x)[0], f, h - i + 1, w - j + 1)))
            made = self.b(ConvOp, x, y, letters="nc(y+i)(x+j),fcij->nfyx", declared=declared)
            self.put(made, c * i * j * self.largest[x] * self.largest[y])


SHAPES: Mapping[int, Sequence[tuple[int, ...]]] = {
    2: ((2, 3), (3, 3), (3, 2), (4, 3)),
    4: ((1, 2, 4, 4), (2, 2, 3, 3), (2, 2, 1, 1)),
}
MAKERS = (
    *(_Program.elementwise,) * 3, _Program.with_constant, _Program.transpose, _Program.concat,
    *(_Program.cut, _Program.product, _Program.product, _Program.conv),
)  # fmt: skip


def _sought(numerics: str, rules: Sequence[Rule]) -> list[Sought]:
    """These rules and those of mlc, where they are allowed."""
    module = ModuleOp([], attributes={"mlc.numerics": StringAttr(numerics)})
    return [Sought(rule) for rule in allowed_rules(module, rules)]


def _grown(module: ModuleOp, rules: Sequence[Sought]) -> list[Saturation]:
    clean(module)
    blocks = blocks_of(entry_function(module))
    return [Saturation(EGraph(block), rules, NODES, ROUNDS) for block in blocks]


def _compare_classes(graph: EGraph, inputs: Sequence[Array], what: str, *, is_exact: bool) -> int:
    """Computes every op, and compares those of one class; how many rules made."""
    block = Block(arg_types=[x.type for x in graph.block.args])
    known: dict[int, SSAValue] = {
        graph.class_of(x): y for x, y in zip(graph.block.args, block.args, strict=True)
    }
    nodes = [(node, of) for of, each in graph.classes.items() for node in each.nodes]
    nodes.sort(key=lambda pair: pair[0].number)
    pending, made = nodes, dict[Node, SSAValue]()
    while pending:
        later: list[tuple[Node, int]] = []
        for node, of in pending:
            args = [known.get(graph.find(x)) for x in node.args]
            if any(x is None for x in args):
                later.append((node, of))
                continue
            op = node.op.on([x for x in args if x is not None])
            block.add_op(op)
            made[node] = op.results[0]
            known.setdefault(of, op.results[0])
        assert len(later) < len(pending), what
        pending = later
    block.add_op(ReturnOp(*made.values(), *known.values()))
    kinds = [x.type for x in (*made.values(), *known.values())]
    function = FuncOp("f", ([x.type for x in block.args], kinds), Region(block))
    values = interpret(ModuleOp([function]), inputs)
    computed = dict(zip(made, values, strict=False))
    of_class = dict(zip(known, values[len(made) :], strict=True))
    for node, of in nodes:
        said = f"{what}: {node.made_by.rule if node.made_by else node.op.name}"
        np.testing.assert_array_equal(computed[node], of_class[of], err_msg=said)
        assert not is_exact or computed[node].tobytes() == of_class[of].tobytes(), said
    return sum(node.made_by is not None for node in computed)


def _estimate(op: TensorOp) -> tuple[int, int]:
    """Nothing is known of costs: any program is as good as another."""
    return 0, 0


def _picked(rng: random.Random, extraction: Extraction) -> Choice:
    """Any program of an e-graph; what changes of it should cost is counted in two ways."""
    costs = {node: rng.randrange(1, 1000) for node in extraction.apart}
    choice = extraction.least(costs)
    for _ in range(6):
        changes = [*extraction.near(choice)]
        counted, cost = Counted(extraction, choice), extraction.cost(choice, costs)
        for change in rng.sample(changes, min(len(changes), 5)):
            whole, difference = extraction.cost({**choice, **change}, costs), None
            if whole is not None and cost is not None:
                difference = whole - cost
            assert counted.difference(change, costs) == difference
        made = {**choice, **rng.choice(changes)} if changes else choice
        choice = made if extraction.needed(made) is not None else choice
    return choice


@pytest.mark.parametrize("numerics", ["strict", "fast"])
def test_all_rules_on_random_programs(numerics: str, discovered: list[Rule], count: int) -> None:
    """Half of the programs each: "strict" allows exact rules, "fast" all."""
    rules = _sought(numerics, [*discovered, *read_rules(PUBLISHED)])
    made, used = 0, set[str]()
    for seed in range(numerics == "fast", count, 2):
        program = _Program(seed, numerics)
        start = program.module.clone()
        (grown,) = _grown(program.module, rules)
        what = f"program {seed}"
        made += _compare_classes(grown.graph, program.inputs, what, is_exact=numerics == "strict")
        used |= {
            node.made_by.rule
            for each in grown.graph.classes.values()
            for node in each.nodes
            if node.made_by is not None
        }
        expected = interpret(start, program.inputs)
        extraction = Extraction(grown.graph, grown.moves, _estimate)
        rng = random.Random(seed)
        for _ in range(PICKED):
            found = extracted(program.module, [extraction], [_picked(rng, extraction)])
            if found is not None:
                found.verify()
                for one, other in zip(interpret(found, program.inputs), expected, strict=True):
                    np.testing.assert_array_equal(one, other, err_msg=what)
    assert made > (count if numerics == "strict" else 10 * count) / 2
    assert len(used & {rule.name for rule in discovered}) > 2


WRONG = """
rule sum_of_relus
  class exact
  given %x, %y : float
  left
    yield add (max %x, const(0)), %y
  right
    yield max (add %x, %y), const(0)

rule concat_changes_places
  class exact
  given %x, %y : float
  left
    yield concat 0 %x, %y
  right
    yield concat 0 %y, %x
"""


def _try(rule: Rule) -> None:
    for seed in range(200):
        program = _Program(seed, "strict")
        (grown,) = _grown(program.module, [Sought(rule)])
        _compare_classes(grown.graph, program.inputs, "", is_exact=True)


def test_wrong_rules_are_found() -> None:
    for rule in parse(WRONG, "wrong.rules"):
        with pytest.raises(AssertionError, match=rule.name):  # of the op that it made
            _try(rule)


def test_rules_on_programs_with_loops_and_open_sizes(count: int) -> None:
    """Of other ops, dtypes and open sizes, on floats: results agree within their tolerance."""
    rules, others = _sought("standard", read_rules(PUBLISHED)), 0
    for seed in range(count):
        rng = random.Random(seed)
        program = random_program(rng)
        expected = interpret(program.module.clone(), program.inputs)
        extractions = [
            Extraction(each.graph, each.moves, _estimate) for each in _grown(program.module, rules)
        ]
        for _ in range(PICKED):
            choices = [_picked(rng, each) for each in extractions]
            found = extracted(program.module, extractions, choices)
            if found is not None:
                found.verify()
                others += str(found) != str(program.module)
                what = f"program {seed}"
                agree(interpret(found, program.inputs), expected, what, TOLERANCE)
    assert others > count
