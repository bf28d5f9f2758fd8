"""
The source transform in front of the tracer (decisions.md D8).

Control flow becomes calls (staging/rewrite.py). In a copy of the user's function, every call,
attribute, item and every name from outside goes through the object `__mlc__`:

    np.zeros(n) + self.w
    __mlc__.call(__mlc__.attr(__mlc__.name("np", np), "zeros"), n) + __mlc__.attr(self, "w")

so that NumPy's functions are found whatever name leads to them, functions of the user's are traced
the same way, and arrays and numbers from outside are noticed (access.py). What it stores goes
through places (stores.py): `p["w"] -= g` is

    __mlc__.element(p, "w").value -= g

Positions stay, so that tracebacks show the user's lines. A function whose text is not known, or is
another by now, runs as it is (unobserved.py).
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable, Iterator, Sequence
from types import CellType, CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from mlc.frontend.staging.rewrite import GATHERS, staged
from mlc.frontend.staging.scopes import RUNTIME, at, bound_names, stored_names
from mlc.frontend.staging.syntax import RAW_CALLS, is_runtime
from mlc.frontend.trace.definitions import FUTURE_FLAGS, Definition, definition_of

Function = Callable[..., Any]

_transformed: WeakKeyDictionary[FunctionType, tuple[tuple[CodeType, int], FunctionType | None]] = (
    WeakKeyDictionary()
)
"""Functions by what they were made from, while that has the code that it had."""

_care: WeakKeyDictionary[CodeType, int] = WeakKeyDictionary()
"""Code in which errors are raised that the compiled function decides about: by functions that it
calls (1), or in any expression (2)."""

_outermost: dict[int, CodeType] = {}
"""The user's code that such code was made of, by its identity."""

_inner: WeakValueDictionary[int, CodeType] = WeakValueDictionary()
"""Code that the transform has made, by its identity: equal code may be a user's."""


def transformed(function: FunctionType) -> FunctionType | None:
    """The function with its loads, stores and calls observed; None where its text is not known."""
    if is_inner(function):
        return function  # made inside a transformed function, and so one itself
    key = function.__code__, _care.get(function.__code__, 0)
    known, made = _transformed.get(function, (None, None))
    if known is None or known[0] is not key[0] or known[1] != key[1]:
        made = _build(function)
        _transformed[function] = key, made
    if made is not None:
        made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return made


class Again(BaseException):
    """A function is traced anew, as functions that it calls raise errors at run time."""


def take_care(running: Sequence[FunctionType], care: int = 1) -> None:
    """
    Statements after calls (1), or all (2), in the innermost function wait for what is raised there,
    from now on. Raises Again where they do not so yet.
    """
    function = next((x for x in reversed(running) if not is_inner(x)), None)
    if function is None:
        return
    before = _care.get(function.__code__, 0)
    if before % GATHERS < care:
        _care[function.__code__] = before & GATHERS | care
        raise Again


def gather(code: CodeType) -> None:
    """
    A generator of this code, which asks a value for what only the compiled function knows, gives a
    list from now on. Raises Again where it does not so yet.
    """
    outermost = _outermost.get(id(code)) if code.co_flags & inspect.CO_GENERATOR else None
    if outermost is None or _inner.get(id(code)) is not code:
        return
    before = _care.get(outermost, 0)
    if not before & GATHERS:
        _care[outermost] = before | GATHERS
        raise Again


def is_inner(function: FunctionType) -> bool:
    """Whether it was made inside a transformed function."""
    return _inner.get(id(function.__code__)) is function.__code__


def _build(function: FunctionType) -> FunctionType | None:
    from mlc.frontend.trace.access import Access

    code = _rewritten_code(
        function.__code__, _class_name(function), frozenset(function.__globals__)
    )
    if code is None:
        return None
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[RUNTIME] = CellType(Access(function, dict(cells)))
    closure = tuple(cells[name] for name in code.co_freevars)
    made = FunctionType(code, function.__globals__, function.__name__, None, closure)
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
    rewriter = _Rewriter(frozenset(code.co_freevars), class_name, known, _care.get(code, 0))
    changed = rewriter.outermost(node)
    fresh.body = [changed] if isinstance(changed, ast.stmt) else [ast.Return(changed)]
    if code.co_name not in code.co_freevars and isinstance(changed, ast.stmt):
        fresh.body.insert(0, ast.Global([code.co_name]))  # what calls itself is no local here
    module = ast.Module([fresh], [])
    ast.copy_location(fresh, node)
    ast.fix_missing_locations(module)
    future = code.co_flags & FUTURE_FLAGS
    compiled = compile(module, code.co_filename, "exec", flags=future, dont_inherit=True)
    _remember_inner(compiled, code)
    return next(
        inner
        for factory in _codes(compiled)
        for inner in _codes(factory)
        if inner.co_name == code.co_name and inner.co_argcount == code.co_argcount
    )


def _remember_inner(code: CodeType, outermost: CodeType) -> None:
    for inner in _codes(code):
        if inner.co_flags & inspect.CO_OPTIMIZED:  # a class body's functions are as they were
            _inner[id(inner)] = inner
            if inner.co_flags & inspect.CO_GENERATOR:
                _outermost[id(inner)] = outermost
            _remember_inner(inner, outermost)


def _codes(code: CodeType) -> Iterator[CodeType]:
    return (constant for constant in code.co_consts if isinstance(constant, CodeType))


# Rewriting


class _Rewriter(ast.NodeTransformer):
    """Sends loads and calls through `__mlc__`."""

    def __init__(
        self,
        cells: frozenset[str],
        class_name: str | None,
        known: frozenset[str],
        care: int,
    ) -> None:
        self.care = care
        self.cells = cells
        self.known = (
            known  # globals there are now: names that are neither these nor builtins come later
        )
        self.class_name = class_name
        self.scopes: list[set[str]] = []

    def outermost(self, node: Definition) -> ast.stmt | ast.expr:
        """The definition itself, without decorators, defaults' values and annotations."""
        node = staged(_copy(node), self.care)
        arguments = node.args
        arguments.defaults = [at(ast.Constant(None), node) for _ in arguments.defaults]
        arguments.kw_defaults = [
            None if d is None else at(ast.Constant(None), node) for d in arguments.kw_defaults
        ]
        for parameter in ast.walk(arguments):
            if isinstance(parameter, ast.arg):
                parameter.annotation = None
        if isinstance(node, ast.FunctionDef):
            node.decorator_list, node.returns = [], None
        self._body(node)
        return node

    def _body(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        self.scopes.append(bound_names(node))
        if isinstance(node, ast.Lambda):
            node.body = self.visit(node.body)
        else:
            node.body = self._statements(node.body)
        self.scopes.pop()

    def _statements(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        visited: list[Any] = [self.visit(statement) for statement in statements]
        return [x for made in visited for x in (made if isinstance(made, list) else [made])]  # pyright: ignore[reportUnknownVariableType]

    def visit(self, node: ast.AST) -> Any:
        """Before a statement that binds names which are not the function's own, it is refused."""
        if not isinstance(node, ast.stmt):
            return super().visit(node)
        names = sorted(stored_names(node))
        outside = [n for n in names if not any(n in scope for scope in self.scopes)]
        before = [
            self._runtime(
                "rebinds",
                node,
                ast.Constant("nonlocal" if name in self.cells else "global"),
                ast.Constant(name),
            )
            for name in outside
        ]
        made = super().visit(node)
        if isinstance(made, ast.AugAssign) and isinstance(made.target, ast.Name) and not outside:
            held = ast.Name(made.target.id, ast.Load())
            adds = ast.Constant(isinstance(made.op, ast.Add))
            made.value = self._runtime("in_place", node, held, made.value, adds)
        return [*(at(ast.Expr(call), node) for call in before), made] if before else made

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
        own = ast.Attribute(ast.Name(RUNTIME, ast.Load()), "own", ast.Load())
        node.decorator_list = [*node.decorator_list, at(own, node)]
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        """`a, b = value`: of a list, its elements."""
        patterns = [x for x in node.targets if isinstance(x, ast.Tuple | ast.List)]
        self.generic_visit(node)
        if patterns and not isinstance(node.value, ast.Tuple):
            node.value = self._runtime("unpacked", node.value, node.value, _pattern(patterns[0]))
        return node

    def visit_Starred(self, node: ast.Starred) -> Any:
        """f(*values), (*values, 1)"""
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.value = self._runtime("spread", node.value, node.value)
        return node

    def visit_List(self, node: ast.List) -> Any:
        """[*values, 1]: a list holds what another holds."""
        for k, part in enumerate(node.elts):
            if isinstance(part, ast.Starred):
                part.value = self._runtime("sure", part.value, self.visit(part.value))
            else:
                node.elts[k] = self.visit(part)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        """Annotations of variables are not evaluated in functions; the values are."""
        node.target = self.visit(node.target)
        node.value = None if node.value is None else self.visit(node.value)
        return node

    def visit_match_case(self, node: ast.match_case) -> Any:
        """Patterns are not expressions."""
        node.guard = None if node.guard is None else self.visit(node.guard)
        node.body = self._statements(node.body)
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
        for generator in node.generators:
            generator.iter = self._runtime("sure", generator.iter, generator.iter)
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

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Any:
        """f"…{value}": its parts, of which some may be known only when the function runs."""
        parts: list[ast.expr] = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                spec = part.format_spec
                form = ast.Constant("") if spec is None else self.visit(spec)
                value: list[ast.expr] = [self.visit(part.value), ast.Constant(part.conversion)]
                parts.append(at(ast.Tuple([*value, form], ast.Load()), part))
            else:
                parts.append(part)
        return self._runtime("text", node, *parts)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        """ "… %g …" % value"""
        text = isinstance(node.left, ast.JoinedStr) or (
            isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
        )
        self.generic_visit(node)
        if not (text and isinstance(node.op, ast.Mod)):
            return node
        return self._runtime("percent", node, node.left, node.right)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        """obj.name"""
        if is_runtime(node):
            return node
        value, name = self.visit(node.value), ast.Constant(self._mangled(node.attr))
        if isinstance(node.ctx, ast.Load):
            return self._runtime("attr", node, value, name)
        return self._place("attribute", node, value, name)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        """obj[key]"""
        value, key = self.visit(node.value), _key_expression(self.visit(node.slice))
        if isinstance(node.ctx, ast.Load):
            return self._runtime("item", node, value, key)
        return self._place("element", node, value, key)

    def visit_Call(self, node: ast.Call) -> Any:
        """f(…)."""
        if is_runtime(node.func):
            node.args = [self.visit(a) for a in node.args]
            return node
        raw = isinstance(node.func, ast.Name) and node.func.id in RAW_CALLS
        function = node.func if raw else self.visit(node.func)
        arguments = [self.visit(a) for a in node.args]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        if raw:
            if ast.unparse(node.func) == "vars" and len(arguments) == 1:
                return self._runtime("attr", node, arguments[0], ast.Constant("__dict__"))
            node.args = arguments
            return node
        made = self._runtime("call", node, function, *arguments)
        made.keywords = node.keywords
        return made

    def _mangled(self, name: str) -> str:
        if self.class_name is None or not name.startswith("__") or name.endswith("__"):
            return name
        return f"_{self.class_name.lstrip('_')}{name}"

    def _place(self, method: str, node: Any, *arguments: ast.expr) -> ast.Attribute:
        """What is written, or deleted, instead of an attribute or an element."""
        place = self._runtime(method, node, *arguments)
        return at(ast.Attribute(place, "value", node.ctx), node)

    def _runtime(self, method: str, node: ast.AST, *arguments: ast.expr) -> ast.Call:
        function = ast.Attribute(ast.Name(RUNTIME, ast.Load()), method, ast.Load())
        return at(ast.Call(function, list(arguments), []), node)


def _pattern(target: ast.expr) -> ast.expr:
    """What a target is made of: a tuple of such, "*" for what takes the rest, else None."""
    if isinstance(target, ast.Tuple | ast.List):
        return at(ast.Tuple([_pattern(x) for x in target.elts], ast.Load()), target)
    return at(ast.Constant("*" if isinstance(target, ast.Starred) else None), target)


def _key_expression(key: ast.expr) -> ast.expr:
    """A subscript's slices as an expression: `1:2` is slice(1, 2)."""
    if isinstance(key, ast.Slice):
        ends = [ast.Constant(None) if e is None else e for e in (key.lower, key.upper, key.step)]
        return at(
            ast.Call(ast.Attribute(ast.Name(RUNTIME, ast.Load()), "slice", ast.Load()), ends, []),
            key,
        )
    if isinstance(key, ast.Tuple):
        return at(ast.Tuple([_key_expression(e) for e in key.elts], ast.Load()), key)
    return key


def _copy(node: Any) -> Any:
    import copy

    return copy.deepcopy(node)
