"""
Control flow as calls: the bodies of `if`, `while` and `for` become functions (python.md §1).

    if t:                       def then(): nonlocal y; y = x
        y = x                   def rest(): return __mlc__.returns(y)
    else:              ->       return __mlc__.leave(
        return z                    __mlc__.branch(t, then, otherwise, rest, ("y",), False))
    return y

What decides is asked when the function is traced (flow.py): Python's values run Python's way. The
names that a body binds stay the function's own, as cells that both share. A body gives None, or how
it is left; statements after one that may leave are a function too, so that they can go where the
other branch is.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import field
from typing import Any, cast

from mlc.frontend.staging.chains import Chains
from mlc.frontend.staging.comprehensions import Comprehensions, names_seen
from mlc.frontend.staging.gathered import gathered
from mlc.frontend.staging.liveness import Liveness
from mlc.frontend.staging.matching import asked
from mlc.frontend.staging.scopes import (
    RUNTIME,
    WORDS,
    at,
    bound_in,
    bound_names,
    calls,
    computes,
    exits,
    is_sliced,
    own_nodes,
)
from mlc.frontend.staging.separated import separated
from mlc.frontend.staging.syntax import (
    EQUALITY,
    ITEM,
    RAW_CALLS,
    SINGLE,
    defined,
    may_be_collections,
    runtime,
    sharing,
    thunk,
)
from mlc.frontend.trace.definitions import Definition, parameters
from mlc.lazy_dataclass import dataclass

_FRAMES = RAW_CALLS - {"super", "globals", "__import__"}
"""Those that see another frame in a function of a body's own."""

_EXIT = "__mlc_exit__"
_DECIDED = frozenset({"isinstance", "issubclass", "callable"})
"""Builtins that give one of Python's bools whatever they are asked about."""

_SUSPENDING = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)


GATHERS = 4
"""Beside `care`: generators are functions that give lists (gathered.py)."""


def staged(node: Definition, care: int = 0) -> Definition:
    """
    The definition with its control flow as calls, changed in place.

    `care`: functions that it calls (1), or any expressions (2), may raise errors that the compiled
    function decides about; GATHERS beside it: generators give lists.
    """
    Chains().visit(node)
    return _Stager(care % GATHERS, bool(care & GATHERS), frozenset(names_seen(node))).definition(
        node
    )


@dataclass
class _Scope:
    """The function that a statement stands in."""

    first: str | None = None  # its first parameter
    elsewhere: set[str] = field(default_factory=set[str])  # names that it declares global
    shared: set[str] = field(default_factory=set[str])  # names that functions of bodies bind
    lent: set[str] = field(default_factory=set[str])  # names that functions inside it bind
    live: Liveness = field(default_factory=lambda: Liveness((), ()))  # names that are read again
    suspends: bool = False  # a generator: its statements stay


class _Stager(Comprehensions, ast.NodeTransformer):
    def __init__(self, care: int, gathers: bool, seen: frozenset[str]) -> None:
        super().__init__(seen)
        self.gathers = gathers
        self.care = care
        self.scope = _Scope()
        self.inside = False  # of a function made of a body
        self.loops: int = 0  # Python's own loops between that and the statement
        self.caught: int = 0  # `try` with handlers around the statement

    # functions

    def definition(self, node: Any) -> Any:
        """A function, also a nested one."""
        before = self.scope, self.inside, self.loops, self.caught
        self.scope, self.inside, self.loops, self.caught = _Scope(), False, 0, 0
        names = parameters(node)
        self.scope.first = names[0] if names else None
        if isinstance(node, ast.Lambda):
            outer, self.before = self.before, None
            node.body = self.visit(node.body)
            self.before = outer
        else:
            node.body = self._body(node, names)
        self.scope, self.inside, self.loops, self.caught = before
        return node

    def _body(self, node: ast.FunctionDef, names: Sequence[str]) -> list[ast.stmt]:
        if self.gathers:
            gathered(node)
        if self.care:
            node.body = separated(node.body, self.care)
        scope, own = self.scope, list(own_nodes(node.body))
        scope.suspends = any(isinstance(x, _SUSPENDING) for x in own)
        declared = [x for x in own if isinstance(x, ast.Global | ast.Nonlocal)]
        for declaration in declared:
            if isinstance(declaration, ast.Global):
                scope.elsewhere |= set(declaration.names)
        nested = (x for x in ast.walk(node) if isinstance(x, ast.Nonlocal) and x not in declared)
        outer = {name for declaration in declared for name in declaration.names}
        scope.lent = {name for x in nested for name in x.names} & (bound_names(node) | outer)
        scope.live = Liveness(node.body, scope.lent | scope.elsewhere | outer)
        statements = self.block(node.body, tail=True)
        first: list[ast.stmt] = [type(x)(x.names) for x in declared]
        if new := sorted(scope.shared - outer - set(names)):
            # never runs: says that these names are the function's
            targets: list[ast.expr] = [ast.Name(name, ast.Store()) for name in new]
            binding = ast.Assign(targets, ast.Constant(None))
            first.append(ast.If(ast.Constant(False), [binding], []))
        first += sharing(declared, node.body[0])
        return [*(at(x, node.body[0]) for x in first), *statements]

    def _nested(self, node: Any) -> Any:
        """A function inside: its defaults and decorators belong to the scope around it."""
        node.args.defaults = [self.visit(d) for d in node.args.defaults]
        node.args.kw_defaults = [
            None if d is None else self.visit(d) for d in node.args.kw_defaults
        ]
        if not isinstance(node, ast.Lambda):
            node.decorator_list = [self.visit(d) for d in node.decorator_list]
        return self.definition(node)

    visit_FunctionDef = visit_Lambda = _nested  # noqa: N815 - ast's names

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> Any:
        """Left as it is."""
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        """A class body is a scope that no function of a body could share; left as it is."""
        return node

    # statements

    def block(self, statements: Sequence[ast.stmt], *, tail: bool) -> list[ast.stmt]:
        """Statements one after another; `tail`: the function ends after them."""
        made: list[ast.stmt] = []
        outer = self.before
        for k, plain in enumerate(statements):
            self.before = []
            found, ends = self._statement(plain, statements[k + 1 :], tail)
            made += [*self.before, *found]
            if ends:
                break
        self.before = outer
        return made

    def _statement(
        self, plain: ast.stmt, behind: Sequence[ast.stmt], tail: bool
    ) -> tuple[list[ast.stmt], bool]:
        """What a statement becomes, and whether those behind it are in that."""
        statement = self._checked(plain) if isinstance(plain, ast.Assert) else plain
        if isinstance(statement, ast.Global | ast.Nonlocal):
            return [at(ast.Pass(), statement)], False
        if not self._stageable(statement):
            waiting = self._may_raise(statement)  # asked before calls are in functions
            made = self._plain(statement)
            if tail and behind and waiting:
                return made + self._going_on(statement, self._rest(behind, plain)), True
            return made, False
        if tail and self._exits(statement):
            last = behind[-1] if behind else plain
            return self._control(statement, self._rest(behind, last)), True
        return self._control(statement, None), False

    def _rest(self, statements: Sequence[ast.stmt], last: ast.stmt) -> list[ast.stmt]:
        """The statements after one, as a body that ends as the function does."""
        rest = list(statements)
        if not (self.inside or (rest and isinstance(rest[-1], ast.Return))):
            rest.append(at(ast.Return(ast.Constant(None)), last))
        return rest

    def _exits(self, node: ast.stmt) -> bool:
        """Whether control may leave the statement, also by an error in what it calls."""
        return exits(node) or self._may_raise(node)

    def _may_raise(self, node: ast.stmt) -> bool:
        """Whether statements behind it wait for what is raised in it."""
        if not self.care or isinstance(
            node, ast.Return | ast.Raise | ast.FunctionDef | ast.ClassDef
        ):
            return False
        return any(map(calls if self.care == 1 else computes, own_nodes([node])))

    def _going_on(self, node: ast.stmt, rest: list[ast.stmt]) -> list[ast.stmt]:
        """The statements after one that may have raised an error in what it calls."""
        names = self._names(rest)
        made = self._function("__mlc_rest__", rest, item=False)
        call = runtime("going_on", node, ast.Name("__mlc_rest__", ast.Load()), names)
        return [made, *self._called(call, node, leaves=True, tail=True)]

    def _stageable(self, node: ast.stmt) -> bool:
        if not isinstance(node, ast.If | ast.While | ast.For) or self.scope.suspends or self.loops:
            return False
        if any(map(_looks_at_frames, own_nodes([node]))):
            return False
        test = None if isinstance(node, ast.For) else node.test
        if isinstance(node, ast.If) and test is not None and _decided(test):
            inner = [x for x in own_nodes([*node.body, *node.orelse]) if _is_control(x)]
            return any(map(exits, inner))
        return True

    def _plain(self, node: ast.stmt) -> list[ast.stmt]:
        """A statement that stays, with what is in it rewritten."""
        match node:
            case ast.Return() if self.inside:
                value = ast.Constant(None) if node.value is None else self.visit(node.value)
                return [at(ast.Return(runtime("returns", node, value)), node)]
            case ast.Break() | ast.Continue() if self.inside and not self.loops:
                name = type(node).__name__.upper()
                code = ast.Attribute(ast.Name(RUNTIME, ast.Load()), name, ast.Load())
                return [at(ast.Return(code), node)]
            case ast.Raise(exc=ast.expr()) if self.scope.suspends:
                return [at(ast.Expr(runtime("raising", node)), node), self.visit(node)]
            case ast.Raise(exc=ast.expr() as error):
                parts = [self.visit(x) for x in (error, node.cause) if x is not None]
                code = runtime("raises_inside" if self.caught else "raises", node, *parts)
                return [at(ast.Return(self._leaving(code, node)), node)]
            case ast.AnnAssign(target=ast.Name()) if self.inside:
                if node.value is None:
                    return [at(ast.Pass(), node)]
                return [at(ast.Assign([node.target], self.visit(node.value)), node)]
            case _:
                return [self._around(node)]

    def _around(self, node: ast.stmt) -> ast.stmt:
        """A statement, its blocks as blocks and the rest as expressions."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return self.visit(node)
        loop = isinstance(node, ast.For | ast.While | ast.AsyncFor)
        catching = isinstance(node, ast.Try | ast.TryStar) and bool(node.handlers)
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.AST):
                setattr(node, name, self.visit(value))
            elif isinstance(value, list) and value:
                inner = (loop and name == "body", catching and name == "body")
                self.loops += inner[0]
                self.caught += inner[1]
                first = cast("list[Any]", value)[0]
                parts = self._parts(value)  # pyright: ignore[reportUnknownArgumentType]
                if inner[1]:
                    parts.insert(0, at(ast.Expr(runtime("catches", first)), first))
                setattr(node, name, parts)
                self.loops -= inner[0]
                self.caught -= inner[1]
        return node

    def _parts(self, parts: list[Any]) -> list[Any]:
        if isinstance(parts[0], ast.stmt):
            return self.block(parts, tail=False)
        for k, part in enumerate(parts):
            if isinstance(part, ast.match_case):
                asked(part)
            if isinstance(part, ast.ExceptHandler | ast.match_case):
                part.body = self.block(part.body, tail=False)
                if isinstance(part, ast.ExceptHandler):
                    part.body.insert(0, at(ast.Expr(runtime("caught", part.body[0])), part.body[0]))
                if isinstance(part, ast.match_case) and part.guard is not None:
                    part.guard = self.visit(part.guard)
            elif isinstance(part, ast.AST):
                parts[k] = self.visit(part)
        return parts

    # control flow

    def _control(self, node: ast.stmt, rest: list[ast.stmt] | None) -> list[ast.stmt]:
        """An `if` or a loop as a call, after the functions that it gets."""
        made: list[ast.stmt] = []

        def function(name: str, statements: Sequence[ast.stmt] | None, item: bool = False) -> Any:
            if not statements:
                return ast.Constant(None)
            name = f"__mlc_{name}__"
            made.append(self._function(name, statements, item))
            return ast.Name(name, ast.Load())

        def after() -> ast.expr:
            return ast.Constant(False) if rest is None else function("rest", rest)

        leaves = self._exits(node)
        match node:
            case ast.If():
                names = self._names([*node.body, *node.orelse, *(rest or [])])
                later = any(map(self._exits, node.orelse)) and not any(map(self._exits, node.body))
                parts = [self._truth(node.test), function("then", node.body)]
                parts += [function("else", node.orelse), after(), names, ast.Constant(later)]
                call = runtime("branch", node.test, *parts)
            case ast.While():
                test = at(ast.Return(node.test), node.test)
                names = self._names([ast.Expr(node.test), *node.body, *node.orelse, *(rest or [])])
                leaving = self._may_end(node)
                parts = [self._test(made, test), function("body", node.body)]
                parts += [function("else", node.orelse), after(), names, leaving]
                call = runtime("loop", test, *parts, *self._lives(node))
            case ast.For():
                sliced = ast.Constant(is_sliced(node.body))
                target = ast.Assign([node.target], ast.Name(ITEM, ast.Load()))
                body = [at(target, node.target), *node.body]
                names = self._names([*body, *node.orelse, *(rest or [])])
                leaving = self._may_end(node)
                parts = [self.visit(node.iter), function("body", body, item=True)]
                parts += [function("else", node.orelse), after(), names, leaving]
                call = runtime("each", node.iter, *parts, *self._lives(node), sliced)
            case _:
                raise AssertionError(type(node))
        return [*made, *self._called(call, node, leaves, tail=rest is not None)]

    def _names(self, statements: Sequence[ast.stmt]) -> ast.expr:
        """The names that statements bind, or may bind, before they are rewritten."""
        return _constants(sorted(bound_in(statements) | self.scope.lent))

    def _lives(self, node: ast.For | ast.While) -> tuple[ast.expr, ast.expr]:
        """The names that are each trip's own, and those that are read after the loop."""
        live, names = self.scope.live, bound_in([node])
        return _constants(live.own(node, names)), _constants(live.after(node, names))

    def _test(self, made: list[ast.stmt], test: ast.stmt) -> ast.expr:
        """A loop's test as a function, which gives the value itself."""
        assert isinstance(test, ast.Return)
        assert test.value is not None
        names = bound_in([ast.Expr(test.value)]) - self.scope.elsewhere
        self.scope.shared |= names
        made.append(defined("__mlc_test__", names, [at(ast.Return(self._truth(test.value)), test)]))
        return ast.Name("__mlc_test__", ast.Load())

    def _called(
        self, call: ast.expr, node: ast.stmt, leaves: bool, *, tail: bool
    ) -> list[ast.stmt]:
        """The call as a statement: what it gives is how the function is left, or None."""

        def left(code: ast.expr) -> ast.stmt:
            return at(ast.Return(self._leaving(code, node)), node)

        if tail:
            return [left(call)]
        if not leaves:
            return [at(ast.Expr(call), node)]
        held = ast.Assign([ast.Name(_EXIT, ast.Store())], call)
        some = ast.Compare(ast.Name(_EXIT, ast.Load()), [ast.IsNot()], [ast.Constant(None)])
        return [at(held, node), at(ast.If(some, [left(ast.Name(_EXIT, ast.Load()))], []), node)]

    def _may_end(self, node: ast.While | ast.For) -> ast.expr:
        """Whether a trip may be the last by its own doing."""
        return ast.Constant(any(map(self._exits, node.body)))

    def _leaving(self, code: ast.expr, like: ast.AST) -> ast.expr:
        """What is returned where a statement was left so."""
        return code if self.inside else runtime("leave", like, code)

    def _checked(self, node: ast.Assert) -> ast.stmt:
        """`assert` as an `if`."""
        message = [] if node.msg is None else [node.msg]
        error = ast.Raise(runtime("assertion", node, *message), None)
        made = ast.If(at(ast.UnaryOp(ast.Not(), node.test), node.test), [at(error, node)], [])
        return at(made, node)

    def _function(self, name: str, statements: Sequence[ast.stmt], item: bool) -> ast.stmt:
        names = bound_in(statements) | self.scope.lent
        before = self.inside, self.loops, self.caught
        self.inside, self.loops = True, 0
        body = self.block(statements, tail=True)
        self.inside, self.loops, self.caught = before
        outer = names & self.scope.elsewhere
        names -= outer
        self.scope.shared |= names
        if outer:
            body.insert(0, at(ast.Global(sorted(outer)), statements[0]))
        return defined(name, names, body, item)

    # expressions

    def _truth(self, node: ast.expr) -> Any:
        """An expression of which only the truth value counts."""
        if not isinstance(node, ast.BoolOp):
            return self.visit(node)
        plain = not all(map(_movable, node.values[1:])) or _decided(node)
        values: list[ast.expr] = [self._truth(value) for value in node.values]
        if plain:
            node.values = values
            return node
        name = "all_true" if isinstance(node.op, ast.And) else "any_true"
        return runtime(name, node, values[0], *map(thunk, values[1:]))

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """`a and b`, of which b is looked at where a does not decide."""
        plain = not all(map(_movable, node.values[1:])) or _decided(node)
        self.generic_visit(node)
        if plain:
            return node
        name = "both" if isinstance(node.op, ast.And) else "either"
        return runtime(name, node, node.values[0], *map(thunk, node.values[1:]))

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """`a if t else b`"""
        movable = _movable(node.body) and _movable(node.orelse) and not _decided(node.test)
        node.test = self._truth(node.test)
        node.body, node.orelse = self.visit(node.body), self.visit(node.orelse)
        if not movable:
            return node
        return runtime("choose", node, node.test, thunk(node.body), thunk(node.orelse))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        """`not a`"""
        plain = not isinstance(node.op, ast.Not) or _decided(node.operand)
        negates = isinstance(node.op, ast.Not)
        node.operand = self._truth(node.operand) if negates else self.visit(node.operand)
        return node if plain else runtime("opposite", node, node.operand)

    def visit_Compare(self, node: ast.Compare) -> Any:
        """`a < b < c`, `a in b`"""
        movable = all(map(_movable, node.comparators[1:]))
        self.generic_visit(node)
        if len(node.ops) == 1:
            name = SINGLE.get(type(node.ops[0]))
            if name is None or (name in EQUALITY and not may_be_collections(node)):
                return node
            return runtime(name, node, node.left, node.comparators[0])
        if not movable:
            return node
        words = ast.Tuple([ast.Constant(WORDS[type(op)]) for op in node.ops], ast.Load())
        first, *later = node.comparators
        return runtime("compared", node, words, node.left, first, *map(thunk, later))

    def visit_Call(self, node: ast.Call) -> Any:
        """`super()` in a function of a body says whose it is."""
        if not self.lazily(node):
            self.generic_visit(node)
        named = isinstance(node.func, ast.Name) and node.func.id == "super"
        if named and not node.args and self.inside and self.scope.first is not None:
            names = ("__class__", self.scope.first)
            node.args = [at(ast.Name(name, ast.Load()), node) for name in names]
        return node


def _constants(names: Sequence[str]) -> ast.expr:
    return ast.Tuple([ast.Constant(name) for name in names], ast.Load())


def _is_control(node: ast.AST) -> bool:
    return isinstance(node, ast.If | ast.While | ast.For)


def _looks_at_frames(node: ast.AST) -> bool:
    if isinstance(node, _SUSPENDING):
        return True
    return isinstance(node, ast.Call) and getattr(node.func, "id", None) in _FRAMES


def _movable(node: ast.expr) -> bool:
    """Whether an expression may be evaluated in a function of its own."""
    inside = own_nodes([node])
    return not any(isinstance(x, ast.NamedExpr) or _looks_at_frames(x) for x in inside)


def _decided(test: ast.expr) -> bool:
    """Whether no traced value can decide the test: `isinstance(x, tuple)`."""
    match test:
        case ast.Constant():
            return True
        case ast.UnaryOp(op=ast.Not()):
            return _decided(test.operand)
        case ast.BoolOp():
            return all(map(_decided, test.values))
        case ast.Call(func=ast.Name(id=name)):
            return name in _DECIDED
        case _:
            return False
