"""
Rules in an e-graph: a pattern is matched with every op of a class, and what rules say is equal is
added until nothing is new, or a count is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TypeGuard

from xdsl.ir import Operation, SSAValue

from mlc.cached_property import cached_property
from mlc.dialects.errors import MlcError
from mlc.lazy_dataclass import dataclass
from mlc.passes.remarks import place
from mlc.passes.rules.egraph import Applied, EGraph, Growing, Node
from mlc.passes.rules.environment import Env
from mlc.passes.rules.match import Matcher, Matches, ordered, root_classes
from mlc.passes.rules.rule import Node as Pattern
from mlc.passes.rules.rule import Rule, Term, terms

NODES, GROWTH, MADE, ROUNDS = 1000, 20, 10_000, 8
"""
Of a block, at most: so many ops, or so many for each that was there if that is more, but no more
than so many that rules make; in so many rounds. Counts, so that a run can be repeated: seconds
would differ. measured: docs/measurements.md.
"""
SEVERAL = 2
"""
Rounds in which rules of several results are applied: each pair of ops matches them, and what they
make makes pairs again. SOURCE: Yang et al., Tensat, MLSys 2021, section 4, which has 1.
"""
WINDOW, NEW = 32, 64
"""
Of so many ops that stand together, places at most that a rule is applied at in a round: one that
only exchanges operands leaves room for others, and the begin of a long program for its end. SOURCE:
the idea is that of egg's scheduler, Willsey et al., POPL 2021, section 5.
"""
_NODES = "@nodes"  # in an environment: the nodes that were matched

Move = dict[int, Node]
"""Nodes for classes, which are worth it together: results of one application of a rule."""


@dataclass(frozen=True)
class _Found:
    """A match: its variables, and the nodes of its roots with their classes."""

    env: Env
    roots: tuple[tuple[Node, int], ...]


class Sought:
    """A rule as it is looked for in e-graphs; it is compiled when an op is met that it is for."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.depth = max(map(_depth, rule.left))
        self.has_several = len(rule.left) > 1

    @cached_property
    def matcher(self) -> Matcher:
        """
        What others read is not lost when a rule is applied here, so it does not ask whether there
        are any: whether it is worth it is for extraction to say.
        """
        guards = tuple(g for g in self.rule.where if g.predicate != "single_use")
        return Matcher(replace(self.rule, where=guards))

    @cached_property
    def roots(self) -> tuple[_Op, ...]:
        """The ops of the results."""
        return tuple(_Op(self.matcher, x) for x in self.rule.left if isinstance(x, Pattern))

    def found(self, graph: EGraph, node: Node, of: int) -> Iterator[_Found]:
        """Matches whose first root is this node."""
        for env in self.roots[0].of_node(graph, node, of, {_NODES: ()}):
            yield from self._others(graph, env, ((node, of),))

    def _others(
        self, graph: EGraph, env: Env, roots: tuple[tuple[Node, int], ...]
    ) -> Iterator[_Found]:
        if len(roots) == len(self.roots):
            env = dict(env)
            if self.matcher.holds(env):
                yield _Found(env, roots)
            return
        root, term = self.roots[len(roots)], self.rule.left[len(roots)]
        shared = sorted(
            {
                graph.class_of(env[t.name])
                for t in terms(term)
                if t.name is not None and t.name in env
            }
        )
        taken = {of for _, of in roots}
        for of in graph.above(set(shared), _depth(term)):
            if of in taken:
                continue
            for node in graph.classes[of].nodes:
                for made in root.of_node(graph, node, of, env):
                    yield from self._others(graph, made, (*roots, (node, of)))


class _Op:
    """An op of a pattern."""

    def __init__(self, matcher: Matcher, node: Pattern) -> None:
        self.classes = frozenset(matcher.classes(node))
        self.variable = node.op if node.op in matcher.choices else None
        self.name = node.name
        self.tests: list[Callable[[Operation, Env], bool]] = [*matcher.properties(node)]
        self.parts = len(node.operands)
        self.operands: list[tuple[int, _Op | Matches]] = [
            (k, _Op(matcher, x) if isinstance(x, Pattern) else matcher.term(x))
            for k, x in ordered(node)
        ]

    def of_class(self, graph: EGraph, of: int, env: Env) -> Iterator[Env]:
        """What the variables may be, for any op of a class."""
        for node in graph.classes[of].nodes:
            yield from self.of_node(graph, node, of, env)

    def of_node(self, graph: EGraph, node: Node, of: int, env: Env) -> Iterator[Env]:
        """What the variables may be, for one op."""
        op = node.op
        if type(op) not in self.classes or len(node.args) != self.parts:
            return
        env = dict(env)
        if self.variable is not None and env.setdefault(self.variable, type(op)) is not type(op):
            return
        value = graph.value(of)
        if self.name is not None and env.setdefault(self.name, value) is not value:
            return
        if not all(test(op, env) for test in self.tests):
            return
        env[_NODES] = (*env[_NODES], node)
        args = tuple(map(graph.find, node.args))
        yield from self._operands(graph, args, 0, env)
        if len(args) == 2 and args[0] != args[1] and op.commutes:  # the same bits
            yield from self._operands(graph, args[::-1], 0, env)

    def _operands(self, graph: EGraph, args: tuple[int, ...], k: int, env: Env) -> Iterator[Env]:
        if k == len(self.operands):
            yield env
            return
        number, test = self.operands[k]
        if isinstance(test, _Op):
            for made in test.of_class(graph, args[number], env):
                yield from self._operands(graph, args, k + 1, made)
            return
        env = dict(env)
        if test(graph.value(args[number]), env):
            yield from self._operands(graph, args, k + 1, env)


def _is_value(found: object) -> TypeGuard[SSAValue]:
    return isinstance(found, SSAValue)


def _depth(term: Term) -> int:
    inner = term.operands if isinstance(term, Pattern) else ()
    return 1 + max(map(_depth, inner), default=0)


class Saturation:
    """An e-graph of a block, and what rules have added to it."""

    def __init__(self, graph: EGraph, rules: Sequence[Sought], nodes: int, rounds: int) -> None:
        self.graph = graph
        self.rounds, self.moves = 0, list[Move]()
        self.is_complete = False
        """Whether rules say nothing any more."""
        self._rules = rules
        self._most = max(nodes, min(GROWTH * graph.count, graph.count + MADE))
        self._done: set[tuple[int, ...]] = set()
        self._applied = 0
        self._is_cut = False  # whether places were left off
        by_op: dict[type[Operation], list[int]] = {}
        for k, rule in enumerate(self._rules):
            for op in root_classes(rule.rule):
                by_op.setdefault(op, []).append(k)
        self._by_op = by_op
        self._depth = max((rule.depth for rule in self._rules), default=0)
        while self.rounds < rounds and graph.count < self._most and not self.is_complete:
            self._round()

    def _round(self) -> None:
        """Finds everything first, so that the order of rules does not matter, and then adds it."""
        graph, self._is_cut = self.graph, False
        matches = self._matches()
        if not self._is_cut:  # else all that is near is looked at again
            graph.changed.clear()
        for number, found in matches:
            if graph.count >= self._most:
                self._is_cut = True
                break
            self._apply(self._rules[number], found)
        graph.rebuild()
        self.rounds += 1
        self.is_complete = not graph.changed and not self._is_cut

    def _matches(self) -> list[tuple[int, _Found]]:
        """
        New places, of classes below which something changed: the first of each rule and window, and
        so on, so that none takes what others need where a count is reached.
        """
        graph = self.graph
        near = set(graph.above(graph.changed, self._depth))
        found: dict[tuple[int, int], list[_Found]] = {}
        for of in sorted(graph.classes):
            for node in graph.classes[of].nodes:
                for k in self._by_op.get(type(node.op), ()):
                    rule = self._rules[k]
                    if self.rounds >= SEVERAL if rule.has_several else of not in near:
                        continue
                    places = found.setdefault((k, node.place // WINDOW), [])
                    for match in rule.found(graph, node, of):
                        if len(places) >= NEW:
                            self._is_cut = True
                            break
                        if self._is_new(k, match.env):
                            places.append(match)
        lists = ([(k, x) for x in found[k, window]] for k, window in sorted(found))
        return [pair for turn in zip_longest(*lists) for pair in turn if pair is not None]

    def _is_new(self, number: int, env: Env) -> bool:
        graph = self.graph
        values = [graph.class_of(x) for x in env.values() if _is_value(x)]
        key = (number, *(x.kept().number for x in env[_NODES]), -1, *values)
        if key in self._done:
            return False
        self._done.add(key)
        return True

    def _apply(self, rule: Sought, found: _Found) -> None:
        graph = self.graph
        env: Env = {
            name: graph.value(graph.class_of(x)) if _is_value(x) else x
            for name, x in found.env.items()
        }
        roots = [graph.value(of) for _, of in found.roots]
        root = found.roots[0][0]
        because = dict.fromkeys(x.made_by for x in env[_NODES] if x.made_by is not None)
        applied = Applied(self._applied, rule.rule.name, place(root.op), tuple(because))
        self._applied += 1
        b = Growing(graph, root, applied)
        try:
            values = rule.matcher.written(env, roots, b)
        except MlcError:  # it makes something that has no type here
            return
        if len(roots) > 1:
            nodes = [b.nodes.get(value) for value in values]
            ofs = [of for _, of in found.roots]
            self.moves.append({x: n for x, n in zip(ofs, nodes, strict=True) if n is not None})
        for old, new in zip(roots, values, strict=True):
            graph.union(old, new)
