"""
The source transform in front of the tracer (decisions.md D8).

It changes no control flow. In a copy of the user's function, every call, attribute, item and every
name from outside goes through the object `__mlc__`:

    np.zeros(n) + self.w
    __mlc__.call(__mlc__.attr(__mlc__.name("np", np), "zeros"), n) + __mlc__.attr(self, "w")

so that NumPy's functions are found whatever name leads to them, functions of the user's are traced
the same way, and arrays and numbers from outside are noticed (access.py). Positions stay, so that
tracebacks show the user's lines. Without source the function runs as it is, by protocols alone.
"""

from __future__ import annotations

import ast
import builtins
import linecache
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import CellType, CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

Function = Callable[..., Any]
Definition = ast.FunctionDef | ast.Lambda
RUNTIME = "__mlc__"
RAW_CALLS = frozenset({"super", "locals", "globals", "vars", "dir", "eval", "exec", "__import__"})
"""Calls that look at their caller's frame."""

_transformed: WeakKeyDictionary[FunctionType, FunctionType] = WeakKeyDictionary()


def transformed(function: FunctionType) -> FunctionType:
    """The function with its loads and calls observed; itself where it has no source."""
    if RUNTIME in function.__code__.co_freevars:
        return function  # made inside a transformed function, and so one itself
    found = _transformed.get(function)
    if found is None:
        found = _transformed[function] = _build(function)
    return found


def _build(function: FunctionType) -> FunctionType:
    from mlc.frontend.access import Access

    code = _rewritten_code(
        function.__code__, _class_name(function), frozenset(function.__globals__)
    )
    if code is None:
        return function
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[RUNTIME] = CellType(Access(function, dict(cells)))
    closure = tuple(cells[name] for name in code.co_freevars)
    made = FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, closure
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__ = function.__qualname__
    return made


def _class_name(function: FunctionType) -> str | None:
    """The class whose body holds the function, for names such as `self.__x`."""
    *_, holder, _ = ("<locals>", *function.__qualname__.split("."))
    return None if holder == "<locals>" else holder


def _rewritten_code(
    code: CodeType, class_name: str | None, known: frozenset[str]
) -> CodeType | None:
    node = definition_of(code)
    if node is None:
        return None
    fresh = ast.parse("def factory(): pass").body[0]
    assert isinstance(fresh, ast.FunctionDef)
    fresh.args.args = [ast.arg(RUNTIME), *(ast.arg(name) for name in code.co_freevars)]
    rewriter = _Rewriter(frozenset(code.co_freevars), class_name, known)
    changed = rewriter.outermost(node)
    fresh.body = [changed] if isinstance(changed, ast.stmt) else [ast.Return(changed)]
    if code.co_name not in code.co_freevars and isinstance(changed, ast.stmt):
        fresh.body.insert(0, ast.Global([code.co_name]))  # what calls itself is no local here
    module = ast.Module([fresh], [])
    ast.copy_location(fresh, node)
    ast.fix_missing_locations(module)
    import __future__

    future = 0
    for name in __future__.all_feature_names:
        future |= getattr(__future__, name).compiler_flag & code.co_flags
    compiled = compile(module, code.co_filename, "exec", flags=future, dont_inherit=True)
    return next(
        inner
        for factory in _codes(compiled)
        for inner in _codes(factory)
        if inner.co_name == code.co_name and inner.co_argcount == code.co_argcount
    )


def _codes(code: CodeType) -> Iterator[CodeType]:
    return (constant for constant in code.co_consts if isinstance(constant, CodeType))


# Finding the definition


@lru_cache(maxsize=32)
def _definitions(filename: str, lines: tuple[str, ...]) -> dict[int, list[Definition]]:
    """Functions and lambdas of a file, by the line where their code begins."""
    try:
        tree = ast.parse("".join(lines), filename)
    except (SyntaxError, ValueError):
        return {}
    found: dict[int, list[Definition]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            found.setdefault(first, []).append(node)
        elif isinstance(node, ast.Lambda):
            found.setdefault(node.lineno, []).append(node)
    return found


def definition_of(code: CodeType) -> Definition | None:
    """The syntax tree of a code object; None without source, or where several could be meant."""
    lines = tuple(linecache.getlines(code.co_filename))
    if not lines:
        return None
    wanted = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    candidates = [
        node
        for node in _definitions(code.co_filename, lines).get(code.co_firstlineno, [])
        if getattr(node, "name", "<lambda>") == code.co_name and _parameters(node) == wanted
    ]
    if len(candidates) > 1:
        columns = {column for *_, column, _ in code.co_positions() if column is not None}
        inside = [c for c in candidates if c.col_offset <= max(columns, default=0)]
        starts = [c for c in inside if _contains(c, code)]
        candidates = starts if len(starts) == 1 else []
    return candidates[0] if candidates else None


def _contains(node: Definition, code: CodeType) -> bool:
    """Whether the code's columns are those of the node's body."""
    body = node.body if isinstance(node.body, ast.expr) else node.body[0]
    starts = [c for line, _, c, _ in code.co_positions() if c is not None and line == body.lineno]
    return bool(starts) and min(starts) == body.col_offset


def _parameters(node: Definition) -> tuple[str, ...]:
    a = node.args
    return tuple(p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs))


# Rewriting


def _bound_names(node: ast.AST) -> set[str]:
    """The names that belong to the scope that `node` opens."""
    names: set[str] = set()
    outer: set[str] = set()
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        names |= set(_parameters(node))  # pyright: ignore[reportArgumentType]
        names |= {p.arg for p in (node.args.vararg, node.args.kwarg) if p is not None}
        body: list[ast.AST] = [node.body] if isinstance(node.body, ast.expr) else list(node.body)
    elif isinstance(node, ast.ClassDef):
        body = list(node.body)
    else:
        body = [node]
    _collect(body, names, outer, inside_comprehension=False)
    return names - outer


def _collect(
    nodes: list[ast.AST], names: set[str], outer: set[str], *, inside_comprehension: bool
) -> None:
    for node in nodes:
        inner = inside_comprehension
        match node:
            case ast.Global() | ast.Nonlocal():
                outer.update(node.names)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
                continue
            case ast.Lambda():
                continue
            case ast.NamedExpr(target=ast.Name(id=name)):
                names.add(name)
            case ast.Name(ctx=ast.Store() | ast.Del()) if not inside_comprehension:
                names.add(node.id)
            case ast.alias():
                names.add((node.asname or node.name).partition(".")[0])
            case ast.ExceptHandler(name=str(name)):
                names.add(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.MatchMapping(rest=str(name)):
                names.add(name)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                inner = True
            case _:
                pass
        _collect(list(ast.iter_child_nodes(node)), names, outer, inside_comprehension=inner)


_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class _Rewriter(ast.NodeTransformer):
    """Sends loads and calls through `__mlc__`."""

    def __init__(
        self, cells: frozenset[str], class_name: str | None, known: frozenset[str]
    ) -> None:
        self.cells = cells
        self.known = (
            known  # globals there are now: names that are neither these nor builtins come later
        )
        self.class_name = class_name
        self.scopes: list[set[str]] = []

    def outermost(self, node: Definition) -> ast.stmt | ast.expr:
        """The definition itself, without decorators, defaults' values and annotations."""
        node = _copy(node)
        arguments = node.args
        arguments.defaults = [_at(ast.Constant(None), node) for _ in arguments.defaults]
        arguments.kw_defaults = [
            None if d is None else _at(ast.Constant(None), node) for d in arguments.kw_defaults
        ]
        for parameter in ast.walk(arguments):
            if isinstance(parameter, ast.arg):
                parameter.annotation = None
        if isinstance(node, ast.FunctionDef):
            node.decorator_list, node.returns = [], None
        self._body(node)
        return node

    def _body(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        self.scopes.append(_bound_names(node))
        if isinstance(node, ast.Lambda):
            node.body = self.visit(node.body)
        else:
            node.body = [self.visit(statement) for statement in node.body]
        self.scopes.pop()

    def _nested(self, node: Any) -> Any:
        """A function inside: its defaults and decorators belong to the scope around it."""
        node.args.defaults = [self.visit(d) for d in node.args.defaults]
        node.args.kw_defaults = [
            None if d is None else self.visit(d) for d in node.args.kw_defaults
        ]
        if not isinstance(node, ast.Lambda):
            node.decorator_list = [self.visit(d) for d in node.decorator_list]
            node.returns = None
            for parameter in ast.walk(node.args):
                if isinstance(parameter, ast.arg):
                    parameter.annotation = None
        self._body(node)
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _nested  # noqa: N815 - ast's names

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        """A class body is a scope of its own that functions in it do not see; left as it is."""
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        """Annotations of variables are not evaluated in functions; the values are."""
        node.target = self.visit(node.target)
        node.value = None if node.value is None else self.visit(node.value)
        return node

    def visit_match_case(self, node: ast.match_case) -> Any:
        """Patterns are not expressions."""
        node.guard = None if node.guard is None else self.visit(node.guard)
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def _comprehension(self, node: Any) -> Any:
        bound = {
            name.id
            for generator in node.generators
            for name in ast.walk(generator.target)
            if isinstance(name, ast.Name)
        }
        self.scopes.append(bound)
        self.generic_visit(node)
        self.scopes.pop()
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension  # noqa: N815

    def visit_Name(self, node: ast.Name) -> Any:
        """A name from outside the function, unless it is a builtin."""
        if not isinstance(node.ctx, ast.Load) or any(node.id in scope for scope in self.scopes):
            return node
        if node.id in self.cells:
            return self._runtime("cell", node, ast.Constant(node.id), _copy(node))
        if node.id == "__class__" or (hasattr(builtins, node.id) and node.id not in self.known):
            return node
        return self._runtime("name", node, ast.Constant(node.id), _copy(node))

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        """obj.name, where it is read."""
        node.value = self.visit(node.value)
        if not isinstance(node.ctx, ast.Load):
            return node
        return self._runtime("attr", node, node.value, ast.Constant(self._mangled(node.attr)))

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        """obj[key], where it is read."""
        node.value, node.slice = self.visit(node.value), self.visit(node.slice)
        if not isinstance(node.ctx, ast.Load):
            return node
        return self._runtime("item", node, node.value, _key_expression(node.slice))

    def visit_Call(self, node: ast.Call) -> Any:
        """f(…)."""
        raw = isinstance(node.func, ast.Name) and node.func.id in RAW_CALLS
        function = node.func if raw else self.visit(node.func)
        arguments = [self.visit(a) for a in node.args]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        if raw:
            node.args = arguments
            return node
        made = self._runtime("call", node, function, *arguments)
        made.keywords = node.keywords
        return made

    def _mangled(self, name: str) -> str:
        if self.class_name is None or not name.startswith("__") or name.endswith("__"):
            return name
        return f"_{self.class_name.lstrip('_')}{name}"

    def _runtime(self, method: str, node: ast.AST, *arguments: ast.expr) -> ast.Call:
        function = ast.Attribute(ast.Name(RUNTIME, ast.Load()), method, ast.Load())
        return _at(ast.Call(function, list(arguments), []), node)


def _key_expression(key: ast.expr) -> ast.expr:
    """A subscript's slices as an expression: `1:2` is slice(1, 2)."""
    if isinstance(key, ast.Slice):
        ends = [ast.Constant(None) if e is None else e for e in (key.lower, key.upper, key.step)]
        return _at(
            ast.Call(ast.Attribute(ast.Name(RUNTIME, ast.Load()), "slice", ast.Load()), ends, []),
            key,
        )
    if isinstance(key, ast.Tuple):
        return _at(ast.Tuple([_key_expression(e) for e in key.elts], ast.Load()), key)
    return key


def _at(node: Any, like: ast.AST) -> Any:
    """The node and its new children at the position of another."""
    ast.copy_location(node, like)
    for child in ast.walk(node):
        if not hasattr(child, "lineno") and "lineno" in child._attributes:
            ast.copy_location(child, like)
    return node


def _copy(node: Any) -> Any:
    import copy

    return copy.deepcopy(node)
