"""
Statements in which functions are called that may raise errors, one call each: what comes after a
call, in the statement too, is a statement of its own, which waits for what is raised.

    x[2] = f(g(s))      ->      __mlc_0__ = g(s)
                                __mlc_1__ = f(__mlc_0__)
                                x[2] = __mlc_1__

What runs under a condition (`a and f(s)`), in functions and in comprehensions stays where it is, as
do tests of `while`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from mlc.frontend.staging.scopes import at, calls, computes, own_nodes

Put = Callable[[ast.expr], None]

_INERT = (ast.Name, ast.Constant, ast.Lambda, ast.GeneratorExp)
_CONDITIONAL = (ast.BoolOp, ast.IfExp, ast.Compare)
_SUSPENDING = (ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr)


def separated(statements: Sequence[ast.stmt], care: int = 1) -> list[ast.stmt]:
    """
    The statements of a function, changed in place. `care`: functions that it calls (1), or any
    expressions (2), may raise errors: what is stored or said is computed before that then.
    """
    return _Separator(care > 1).block(statements)


class _Separator:
    """`made`: statements before the one that is being looked at; `number` of the next value."""

    def __init__(self, computing: bool) -> None:
        self.computing = computing  # whether any expression may raise an error
        self.made: list[ast.stmt] = []
        self.number = 0

    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Those of a block, and of blocks in it."""
        outer, found = self.made, list[ast.stmt]()
        for statement in statements:
            self.made = []
            self._statement(statement)
            found += [*self.made, statement]
        self.made = outer
        return found

    def _statement(self, node: Any) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return
        for name in ("body", "orelse", "finalbody"):
            if inner := getattr(node, name, None):
                setattr(node, name, self.block(inner))
        for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            part.body = self.block(part.body)
        head = [x for x in ast.iter_child_nodes(node) if isinstance(x, ast.expr)]
        if any(isinstance(x, _SUSPENDING) for x in own_nodes(head)):
            return
        match node:
            case ast.Assign() | ast.AnnAssign(value=ast.expr()):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                self._stored(node, targets, [x for x in targets if not isinstance(x, ast.Name)])
            case ast.AugAssign():
                self._placed(node.target)
                self._stored(node, [], [node.target])
            case ast.Expr(value=ast.Call() as call) if self.computing:
                node.value = self._within(call)
                for part, put in (*_each(call.args), *(_of(x, "value") for x in call.keywords)):
                    put(self._held(part) if self._may_raise(part) else part)
            case ast.Expr(value=ast.expr() as value) | ast.Return(value=ast.expr() as value):
                node.value = self._within(value)
            case ast.If():
                node.test = self._decides(node.test)
            case ast.For():
                node.iter = self._decides(node.iter)
            case _:
                pass

    def _stored(self, node: Any, targets: Sequence[ast.expr], places: Sequence[ast.expr]) -> None:
        """What is stored, and where (`places`: to more than a name), before it is."""
        node.value = self._within(node.value)
        if places and (self._may_raise(node.value) or any(map(_acts, targets))):
            node.value = self._held(node.value)
        for target in targets:
            self._placed(target)

    def _may_raise(self, value: ast.expr) -> bool:
        computed = self.computing and any(map(computes, own_nodes([value])))
        return computed or _acts(value)

    def _placed(self, target: ast.expr) -> None:
        """The parts of where something is stored that act."""
        inside = isinstance(target, ast.Tuple | ast.List | ast.Starred)
        for part, put in _parts(target):
            if inside:
                self._placed(part)
            elif _acts(part):
                put(self._held(self._within(part)))

    def _decides(self, node: ast.expr) -> ast.expr:
        """What decides whether others run: its parts are apart, and what a function gives is."""
        if not isinstance(node, ast.Call):
            return self._within(node)
        for part, put in _parts(node):
            if _acts(part):
                put(self._held(self._within(part)))
        return self._held(node) if calls(node) else node

    def _held(self, value: ast.expr) -> ast.expr:
        """A value, which a statement before this one computes."""
        if isinstance(value, _INERT):
            return value
        if isinstance(value, ast.Starred | ast.Slice | ast.Tuple):  # no values of their own
            for part, put in _parts(value):
                put(self._held(part))
            return value
        name = f"__mlc_{self.number}__"
        self.number += 1
        self.made.append(at(ast.Assign([ast.Name(name, ast.Store())], value), value))
        return at(ast.Name(name, ast.Load()), value)

    def _within(self, node: ast.expr) -> ast.expr:
        """An expression, of whose parts those that act before others, or before it, are apart."""
        parts = _parts(node)
        acting = [k for k, (part, _) in enumerate(parts) if _acts(part)]
        if not acting:
            return node
        last = len(parts) if calls(node) or isinstance(node, _CONDITIONAL) else acting[-1]
        for k, (part, put) in enumerate(parts):
            found = self._within(part) if k in acting else part
            put(self._held(found) if k < last and (k in acting or k < acting[-1]) else found)
        return node


def _acts(node: ast.AST) -> bool:
    """Whether a function may be called where it is evaluated."""
    return any(map(calls, own_nodes([node])))


def _parts(node: ast.expr) -> list[tuple[ast.expr, Put]]:
    """The expressions that are always evaluated before a node's own value, in their order."""
    match node:
        case ast.Call():
            function = [(node, "func")] if not isinstance(node.func, ast.Attribute) else []
            owner = [(node.func, "value")] if isinstance(node.func, ast.Attribute) else []
            named = [_of(word, "value") for word in node.keywords]
            return [*(_of(*x) for x in (*function, *owner)), *_each(node.args), *named]
        case ast.BinOp():
            return [_of(node, "left"), _of(node, "right")]
        case ast.Compare():
            return [_of(node, "left"), *_each(node.comparators)[:1]]
        case ast.Subscript():
            return [_of(node, "value"), _of(node, "slice")]
        case ast.BoolOp():
            return _each(node.values)[:1]
        case ast.IfExp():
            return [_of(node, "test")]
        case ast.Tuple() | ast.List() | ast.Set():
            return _each(node.elts)
        case ast.Dict():
            pairs: Any = zip(_each(node.keys), _each(node.values), strict=True)
            return [x for pair in pairs for x in pair if x[0] is not None]  # no key: **x
        case ast.Slice():
            names = ("lower", "upper", "step")
            return [_of(node, x) for x in names if getattr(node, x) is not None]
        case ast.UnaryOp():
            return [_of(node, "operand")]
        case ast.Attribute() | ast.Starred():
            return [_of(node, "value")]
        case _:
            return []


def _of(node: Any, name: str) -> tuple[ast.expr, Put]:
    return getattr(node, name), lambda x: setattr(node, name, x)


def _each(values: list[Any]) -> list[tuple[ast.expr, Put]]:
    def place(k: int) -> Put:
        return lambda x: values.__setitem__(k, x)

    return [(value, place(k)) for k, value in enumerate(values)]
