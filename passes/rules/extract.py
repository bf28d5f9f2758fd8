"""
Programs of e-graphs: one op for each class that is needed, as a module.

Which ops are the best cannot be said op by op: what ops cost depends on which others share their
kernel. So an estimate that adds up chooses where to begin and what to try next, and whoever judges
plans has the last word.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.tensor.bind import BindOp, symbols_in
from mlc.dialects.tensor.op import TensorOp
from mlc.passes.rules.egraph import EGraph, Node
from mlc.passes.rules.ematch import Move

Choice = Mapping[int, Node]
"""A node for each class that is no leaf."""
Estimate = Callable[[TensorOp], tuple[int, int]]
"""What an op takes at least where others share its kernel, and what moving its operands adds."""


class Extraction:
    """Of one block."""

    def __init__(self, graph: EGraph, moves: Sequence[Move], estimate: Estimate) -> None:
        self.graph = graph
        self.moves = [{graph.find(of): node.kept() for of, node in move.items()} for move in moves]
        wanted = {graph.class_of(x) for _, op in graph.anchors for x in graph.read_by(op)}
        leaves = {of for of, each in graph.classes.items() if each.leaf is not None}
        self.wanted = sorted(wanted - leaves)
        nodes = sorted(
            ((node, of) for of, each in graph.classes.items() for node in each.nodes),
            key=lambda pair: pair[0].number,
        )
        self._nodes = nodes
        self._args = {node: tuple(map(graph.find, node.args)) for node, _ in nodes}
        self.reads = {
            node: tuple(x for x in dict.fromkeys(args) if x not in leaves)
            for node, args in self._args.items()
        }
        """The classes that a node reads, each once, but leaves."""
        costs: dict[tuple[object, ...], tuple[int, int]] = {}
        self.fused: dict[Node, int] = {}
        self.apart: dict[Node, int] = {}
        for node, _ in nodes:
            op = node.op
            key = (
                type(op),
                op.results[0].type,
                *(x.type for x in op.operands),
                *op.properties.items(),
            )
            if key not in costs:
                costs[key] = estimate(op)
            own, moved = costs[key]
            self.fused[node] = own + 1  # nothing is for nothing: so there are no cycles
            self.apart[node] = own + moved + 1

    def written_down(self) -> Choice:
        """The program that was there, and what costs least where it has nothing."""
        found = dict(self.least(self.apart))
        for of, each in self.graph.classes.items():
            own = [node for node in each.nodes if node.made_by is None]
            if own:
                found[of] = min(own, key=lambda node: node.number)
        return found

    def least(self, costs: Mapping[Node, int]) -> Choice:
        """Nodes whose trees cost least: where several read a class, each pays for it."""
        graph = self.graph
        best = {of: 0 for of, each in graph.classes.items() if each.leaf is not None}
        chosen: dict[int, Node] = {}
        is_new = True
        while is_new:
            is_new = False
            for node, of in self._nodes:
                args = self._args[node]
                if not all(x in best for x in args):
                    continue
                cost = costs[node] + sum(best[x] for x in dict.fromkeys(args))
                if of not in best or cost < best[of]:
                    best[of], chosen[of], is_new = cost, node, True
        return chosen

    def needed(self, choice: Choice) -> dict[int, Node] | None:
        """The nodes that a choice needs, operands first; None where one needs itself."""
        found: dict[int, Node] = {}
        is_open: set[int] = set()
        pending = [(of, False) for of in reversed(self.wanted)]
        while pending:
            of, is_left = pending.pop()
            if is_left:
                is_open.discard(of)
                found[of] = choice[of]
                continue
            if of in found:
                continue
            if of in is_open:
                return None
            is_open.add(of)
            pending.append((of, True))
            pending += [(x, False) for x in reversed(self.reads[choice[of]]) if x not in found]
        return found

    def cost(self, choice: Choice, costs: Mapping[Node, int]) -> int | None:
        """What the needed nodes cost, each once; None where one needs itself."""
        needed = self.needed(choice)
        return None if needed is None else sum(costs[node] for node in needed.values())

    def near(self, choice: Choice) -> Iterator[Choice]:
        """What to change in a choice: one class that is needed, or those of one move."""
        needed = self.needed(choice) or {}
        for move in self.moves:
            if all(of in needed for of in move) and any(
                needed[x] is not n for x, n in move.items()
            ):
                yield move
        for of, node in needed.items():
            yield from ({of: other} for other in self.graph.classes[of].nodes if other is not node)

    def better(self, choice: Choice, costs: Mapping[Node, int]) -> Choice:
        """Changes a choice as long as an estimate falls that counts each node once."""
        is_better = True
        while is_better:
            is_better, counted = False, Counted(self, choice)
            for change in self.near(choice):
                difference = counted.difference(change, costs)
                if difference is not None and difference < 0:
                    choice, is_better = {**choice, **change}, True
                    counted = Counted(self, choice)
        return choice


class Counted:
    """The classes that a choice needs, and how many read each: what changes cost is seen there."""

    def __init__(self, extraction: Extraction, choice: Choice) -> None:
        self.extraction, self.choice = extraction, choice
        needed = extraction.needed(choice)
        assert needed is not None
        self.needed = needed
        self.place = {of: k for k, of in enumerate(needed)}
        self.readers = dict.fromkeys(extraction.wanted, 1)
        for node in needed.values():
            for x in extraction.reads[node]:
                self.readers[x] = self.readers.get(x, 0) + 1

    def difference(self, change: Mapping[int, Node], costs: Mapping[Node, int]) -> int | None:
        """What a change adds to the estimate; None where a value would need itself."""
        changed = {of: node for of, node in change.items() if self.needed.get(of) is not node}
        if not all(of in self.needed for of in changed):
            return self._from_scratch(change, costs)
        readers, first = dict[int, int](), min((self.place[of] for of in changed), default=0)
        found, pending = 0, [(node, 1) for node in changed.values()]
        pending += [(self.needed[of], -1) for of in reversed(changed)]
        pending.reverse()  # what is new is added first, so that nothing goes that it reads
        pending.sort(key=lambda item: item[1])
        while pending:
            node, step = pending.pop()
            found += step * costs[node]
            for x in self.extraction.reads[node]:
                before = readers.get(x, self.readers.get(x, 0))
                readers[x] = before + step
                if step > 0 and (
                    self.place.get(x, -1) >= first or (before and x not in self.place)
                ):
                    return self._from_scratch(change, costs)  # it may need what is changed
                if step > 0 and not before:
                    pending.append((changed.get(x, self.choice[x]), 1))
                if step < 0 and not readers[x]:
                    if x in changed:
                        return self._from_scratch(change, costs)
                    pending.append((self.needed.get(x, self.choice[x]), -1))
        return found

    def _from_scratch(self, change: Mapping[int, Node], costs: Mapping[Node, int]) -> int | None:
        after = self.extraction.cost({**self.choice, **change}, costs)
        return None if after is None else after - sum(costs[x] for x in self.needed.values())


# As modules


def extracted(
    module: ModuleOp, extractions: Sequence[Extraction], choices: Sequence[Choice]
) -> ModuleOp | None:
    """
    The module with the chosen ops in place of its own; None where values would be needed before
    they are there. What it does not need stays away, and the rest stays in its order.
    """
    values: dict[SSAValue, SSAValue] = {}
    made = module.clone(values)
    ops = dict(zip(module.walk(), made.walk(), strict=True))
    for extraction, choice in reversed([*zip(extractions, choices, strict=True)]):
        order = _order(extraction, choice)
        if order is None:
            return None
        _write(extraction, order, ops, values)
    return made


_Item = tuple[int, Node] | Operation


def _order(extraction: Extraction, choice: Choice) -> list[_Item] | None:
    """Anchors in their order, and nodes where they were or where their rule was applied."""
    graph = extraction.graph
    needed = extraction.needed(choice)
    if needed is None:
        return None
    items: list[tuple[int, int, _Item]] = [
        (node.place, 1 + node.number, (of, node)) for of, node in needed.items()
    ]
    items += [(place, 0, op) for place, op in graph.anchors]
    items.sort(key=lambda item: item[:2])
    number: dict[object, int] = {}
    binds: dict[str, int] = {}
    for k, (_, _, item) in enumerate(items):
        number[item if isinstance(item, Operation) else item[0]] = k
        if isinstance(item, BindOp):
            binds[item.symbol.data] = k
    waits: list[set[int]] = []
    last: int | None = None
    for k, (_, _, item) in enumerate(items):
        if isinstance(item, Operation):
            read = [graph.class_of(x) for x in graph.read_by(item)]
            before: set[int] = set() if last is None else {last}
            last = k
        else:
            read = [graph.find(x) for x in item[1].args]
            before = {binds[x] for x in symbols_in(item[1].op) if x in binds} if binds else set()
        for of in read:
            leaf = graph.classes[of].leaf
            source = leaf.owner if leaf is not None else of
            if source in number:
                before.add(number[source])
        waits.append(before - {k})
    return _sorted([item for _, _, item in items], waits)


def _sorted(items: list[_Item], waits: list[set[int]]) -> list[_Item] | None:
    """Items, each behind those that it waits for, else in their order; None where there is none."""
    then: list[list[int]] = [[] for _ in items]
    for k, before in enumerate(waits):
        for x in before:
            then[x].append(k)
    count = [len(before) for before in waits]
    ready = [k for k, n in enumerate(count) if n == 0]
    found: list[_Item] = []
    while ready:
        k = heapq.heappop(ready)
        found.append(items[k])
        for x in then[k]:
            count[x] -= 1
            if count[x] == 0:
                heapq.heappush(ready, x)
    return found if len(found) == len(items) else None


def _write(
    extraction: Extraction,
    order: Sequence[_Item],
    ops: Mapping[Operation, Operation],
    values: Mapping[SSAValue, SSAValue],
) -> None:
    """Makes the copy of a block what the order says."""
    graph = extraction.graph
    made: dict[int, SSAValue] = {}

    def of_class(number: int) -> SSAValue:
        leaf = graph.classes[number].leaf
        return made[number] if leaf is None else values.get(leaf, leaf)

    placed: list[Operation] = []
    for item in order:
        if isinstance(item, Operation):
            op = ops[item]
            op.operands = [of_class(graph.class_of(x)) for x in item.operands]
        else:
            of, node = item
            args = [of_class(graph.find(x)) for x in node.args]
            if node.op.parent is graph.block:
                ops[node.op].operands = args
            op = ops[node.op] if node.op.parent is graph.block else node.op.on(args)
            made[of] = op.results[0]
        placed.append(op)
    block = _copied(graph.block, ops)
    kept = set(placed)
    moved = {
        values[x]: of_class(graph.class_of(x))
        for op in graph.block.ops
        for x in op.results
        if graph.class_of(x) in made or graph.classes[graph.class_of(x)].leaf is not None
    }
    for _, anchor in graph.anchors:
        for inner in ops[anchor].walk():
            if inner is not ops[anchor]:
                for k, x in enumerate(inner.operands):
                    if moved.get(x, x) is not x:
                        inner.operands[k] = moved[x]
    old = list(block.ops)
    for op in old:
        op.detach()
    for op in reversed([op for op in old if op not in kept]):
        op.erase()
    for op in placed:
        block.add_op(op)


def _copied(block: Block, ops: Mapping[Operation, Operation]) -> Block:
    """The copy of a block."""
    region, parent = block.parent, block.parent_op()
    assert region is not None
    assert parent is not None
    made = ops[parent].regions[parent.get_region_index(region)]
    return made.blocks[region.get_block_index(block)]
