"""
Generators as functions that give a list: where a branch on traced values decides what is yielded.

    for e in v:                     made = []
        if e > 0:                   for e in v:
            yield e        ->           if e > 0:
                                            made.append(e)
                                    return made

What the generator does and what its caller does no longer alternate, and all is computed; one that
need not end stays a generator.
"""

from __future__ import annotations

import ast

from mlc.frontend.staging.scopes import at, own_nodes

_MADE = "__mlc_made__"


def gathered(node: ast.FunctionDef) -> None:
    """Changes a generator's body so, if that is possible."""
    own = list(own_nodes(node.body))
    yields = [x for x in own if isinstance(x, ast.Yield | ast.YieldFrom | ast.Await)]
    statements = [x for x in own if isinstance(x, ast.Expr) and _is_yield(x.value)]
    plain = all(x.value is None for x in own if isinstance(x, ast.Return))
    if not yields or len(yields) != len(statements) or not plain or any(map(_is_endless, own)):
        return
    first = ast.Assign([ast.Name(_MADE, ast.Store())], ast.List([], ast.Load()))
    body = [_Gatherer().visit(x) for x in node.body]
    last = ast.Return(ast.Name(_MADE, ast.Load()))
    node.body = [at(first, body[0]), *body, at(last, node.body[-1])]


def _is_yield(node: ast.expr) -> bool:
    return isinstance(node, ast.YieldFrom) or (isinstance(node, ast.Yield) and bool(node.value))


def _is_endless(node: ast.AST) -> bool:
    """Whether nothing in a loop ends it."""
    if not (isinstance(node, ast.While) and isinstance(node.test, ast.Constant)):
        return False
    return not any(isinstance(x, ast.Break | ast.Return | ast.Raise) for x in own_nodes(node.body))


class _Gatherer(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """A function inside has yields of its own."""
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        """Likewise."""
        return node

    def visit_Return(self, node: ast.Return) -> ast.Return:
        """The end of a generator."""
        return at(ast.Return(ast.Name(_MADE, ast.Load())), node)

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        """yield value; yield from values"""
        value = node.value
        if not isinstance(value, ast.Yield | ast.YieldFrom) or value.value is None:
            return node
        method = "append" if isinstance(value, ast.Yield) else "extend"
        function = ast.Attribute(ast.Name(_MADE, ast.Load()), method, ast.Load())
        return at(ast.Expr(ast.Call(function, [value.value], [])), node)
