# pyright: basic
"""
Rows of factorisations and equations.

Where one fails NumPy raises an error, and so does a piece (`Piece` makes PyTorch's of it). A number
that says what has failed is 0, then, and a graph that may look at it is not for us; nor is one that
wants the factors of an LU decomposition. Way backs that want them only to solve another equation
solve it from the matrix (`without_factors`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from operator import getitem
from typing import Any

import numpy as np

from mlc.frontend.importers.equations import solved, solved_triangle
from mlc.frontend.importers.fx.run import At, row
from mlc.frontend.numpy.creation import full

Array = Any
Node = Any
_CHECK = "aten._linalg_check_errors.default"


def _is_check(node: Node) -> bool:
    """Whether a node raises an error where a number says that a factorisation has failed."""
    return str(node.target) == "with_effects" and str(node.args[1]) == _CHECK


def _no_fault(at: At, place: int, check_errors: bool = False) -> Array:
    """The number of what has failed: 0, where the graph looks at it only to raise an error."""
    asking = [n for user in at.node.users if user.args[1] == place for n in user.users]
    if not check_errors and not (asking and all(map(_is_check, asking))):
        raise at.refuse("a factorisation whose failure is a result")
    return full(at.shape_of(at.values[place]), 0, np.int32)


def _needs_no_factors(at: At, *places: int) -> None:
    if any(map(at.uses, places)):
        raise at.refuse("the factors of an LU decomposition")


def _adjoint(a: Array) -> Array:
    turned = np.swapaxes(a, -1, -2)
    return np.conj(turned) if a.dtype.kind == "c" else turned


@row("linalg_inv_ex")
def _inverse(at: At, a: Array, check_errors: bool = False) -> tuple[Array, ...]:
    return np.linalg.inv(a), _no_fault(at, 1, check_errors)


@row("linalg_cholesky_ex")
def _cholesky(
    at: At, a: Array, *, upper: bool = False, check_errors: bool = False
) -> tuple[Array, ...]:
    """One triangle is read."""
    found = np.linalg.cholesky(_adjoint(a) if upper else a)
    return _adjoint(found) if upper else found, _no_fault(at, 1, check_errors)


def _in_stacks(shape: Sequence[Any], *xs: Array) -> list[Array]:
    """Matrices as stacks of one shape."""
    return [np.broadcast_to(x, (*shape, *x.shape[-2:])) for x in xs]


def _solution(at: At, a: Array, b: Array, left: bool) -> Array:
    """x with a x = b, or x a = b; b may be a stack of lines."""
    line = len(at.shape) == a.ndim - 1 and b.ndim in (1, a.ndim - 1)
    b = b[..., None] if line else b
    a, b = _in_stacks(at.shape[:-1] if line else at.shape[:-2], a, b)
    found = solved(a, b, left=left)
    return found[..., 0] if line else found


@row("_linalg_solve_ex")
def _solve(
    at: At, a: Array, b: Array, *, left: bool = True, check_errors: bool = False
) -> tuple[Array, ...]:
    _needs_no_factors(at, 1, 2)
    return _solution(at, a, b, left), None, None, _no_fault(at, 3, check_errors)


_FACTORS = {"aten._linalg_solve_ex.default": (1, 2), "aten._linalg_slogdet.default": (2, 3)}
"""Ops with the places of the factors of their first argument, and of their pivots."""


@cache
def _are_of_transpose(op: Any, places: tuple[int, int], complex_: bool, contiguous: bool) -> bool:
    """Whether an op gives the factors of the transpose of such a matrix, as PyTorch chooses."""
    torch = import_module("torch")
    fake = import_module("torch._subclasses.fake_tensor")
    with fake.unset_fake_temporarily():
        kind = torch.cdouble if complex_ else torch.double
        a = torch.tensor([[1.0, 2.0], [4.0, 5.0]], dtype=kind)
        found = op(*[a if contiguous else a.mT] * (2 if places == (1, 2) else 1))
        p, low, high = torch.lu_unpack(*(found[k] for k in places))
        return bool(torch.allclose(p @ low @ high, a.mT if contiguous else a))


def solved_again(a: Any, b: Any, left: bool, adjoint: bool) -> Any:
    """x with a x = b, or x a = b, or of the adjoint of a, as PyTorch does it."""
    return import_module("torch").linalg.solve(a.mH if adjoint else a, b, left=left)


solved_again.mlc_row = "solved_again"  # pyright: ignore[reportFunctionMemberAccess]


@row("solved_again")
def _solved_again(at: At, a: Array, b: Array, left: bool, adjoint: bool) -> Array:
    return _solution(at, _adjoint(a) if adjoint else a, b, left)


def without_factors(module: Any) -> Any:
    """The joint graph of both ways, in which matrices are solved for where their factors are."""
    torch = import_module("torch")
    for node in list(module.graph.nodes):
        if node.target is not torch.ops.aten.linalg_lu_solve.default:
            continue
        factors, pivots, b, *_ = node.args
        if any(x.target is not getitem for x in (factors, pivots)):
            continue
        made, place = factors.args
        if pivots.args[0] is not made or _FACTORS.get(str(made.target)) != (place, pivots.args[1]):
            continue
        left, adjoint = node.kwargs.get("left", True), node.kwargs.get("adjoint", False)
        a = made.args[0].meta["val"]
        kind = a.is_complex(), a.is_contiguous()
        turned = _are_of_transpose(made.target, _FACTORS[str(made.target)], *kind)
        if turned and kind[0]:
            continue
        given = made.args[0], b, left, adjoint != turned
        with module.graph.inserting_before(node):
            again = module.graph.call_function(solved_again, given)
        again.meta = dict(node.meta)
        node.replace_all_uses_with(again)
        for old in (node, factors, pivots):
            if not old.users:
                module.graph.erase_node(old)
    module.recompile()
    return module


@row("_linalg_det")
def _determinant(at: At, a: Array) -> tuple[Array, ...]:
    _needs_no_factors(at, 1, 2)
    return np.linalg.det(a), None, None


@row("_linalg_slogdet")
def _logarithm_of_determinant(at: At, a: Array) -> tuple[Array, ...]:
    _needs_no_factors(at, 2, 3)
    return *np.linalg.slogdet(a), None, None


def _nothing(at: At, place: int) -> Array:
    """A result that was not asked for: PyTorch's has no elements."""
    return full(at.shape_of(at.values[place]), 0, at.dtype)


@row("linalg_qr")
def _qr(at: At, a: Array, mode: Any = "reduced") -> tuple[Array, ...]:
    if mode == "r":
        return _nothing(at, 0), np.linalg.qr(a, "r")
    return tuple(np.linalg.qr(a, mode))


@row("_linalg_svd")
def _svd(
    at: At, a: Array, full_matrices: bool = False, compute_uv: bool = True, *, driver: Any = None
) -> tuple[Array, ...]:
    if not compute_uv:
        return _nothing(at, 0), np.linalg.svd(a, compute_uv=False), _nothing(at, 2)
    if not (at.uses(0) or at.uses(2)):
        return None, np.linalg.svd(a, compute_uv=False), None
    return tuple(np.linalg.svd(a, full_matrices))


@row("_linalg_eigh")
def _eigh(at: At, a: Array, side: Any = "L", compute_v: bool = True) -> tuple[Array, ...]:
    if not compute_v:
        return np.linalg.eigvalsh(a, side), _nothing(at, 1)
    if not at.uses(1):
        return np.linalg.eigvalsh(a, side), None
    return tuple(np.linalg.eigh(a, side))


@row("linalg_eig")
def _eig(at: At, a: Array) -> tuple[Array, ...]:
    return tuple(np.linalg.eig(a))


@row("linalg_eigvals", "_linalg_eigvals")
def _eigvals(at: At, a: Array) -> Array:
    return np.linalg.eigvals(a)


@row("linalg_pinv")
def _pseudo_inverse(
    at: At, a: Array, *, atol: Array = None, rtol: Array = None, hermitian: bool = False
) -> Array:
    """Singular values up to `atol`, or `rtol` times the largest, count as 0."""
    if hermitian:
        raise at.refuse("a pseudo-inverse of which one triangle is read")
    usual = float(np.finfo(a.dtype).eps) * max(a.shape[-2:])
    if rtol is None:
        rtol = usual if atol is None else np.where(atol > 0, 0, usual)
    u, values, v = np.linalg.svd(a, False)
    least = values.max(-1, keepdims=True) * rtol
    least = least if atol is None else np.maximum(least, atol)
    large = values > least
    inverse = np.where(large, 1 / np.where(large, values, 1), 0).astype(values.dtype)
    return (_adjoint(v) * inverse[..., None, :]) @ _adjoint(u)


@row("linalg_solve_triangular")
def _solve_triangular(
    at: At, a: Array, b: Array, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Array:
    a, b = _in_stacks(at.shape[:-2], a, b)
    return solved_triangle(a, b, left=left, upper=upper, unit=unitriangular)


@row("cholesky_solve")
def _solved_by_cholesky(at: At, b: Array, a: Array, upper: bool = False) -> Array:
    """x with a aᴴ x = b, or aᴴ a x = b."""
    low, b = _in_stacks(at.shape[:-2], _adjoint(a) if upper else a, b)
    inner = solved_triangle(low, b, left=True, upper=False, unit=False)
    return solved_triangle(_adjoint(low), inner, left=True, upper=True, unit=False)


@row("cholesky_inverse")
def _inverse_by_cholesky(at: At, a: Array, upper: bool = False) -> Array:
    inner = np.linalg.inv(np.triu(a) if upper else np.tril(a))
    return inner @ _adjoint(inner) if upper else _adjoint(inner) @ inner
