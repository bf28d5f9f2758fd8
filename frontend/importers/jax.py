# pyright: basic
"""`mlc.jax`: functions of JAX as functions of ours, through the StableHLO that JAX writes."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from mlc.frontend.errors import NotSupportedError
from mlc.frontend.importers.stablehlo import Imported, load
from mlc.frontend.trace.trace import current
from mlc.frontend.trace.tracer import Tracer

NARROW = {"int4": "int8", "int2": "int8", "uint4": "uint8", "uint2": "uint8"}
"""Dtypes whose elements programs have in bytes."""


class FromJax:
    """A function of JAX. Each signature is lowered by JAX once, and compiled by mlc."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        jax = import_module("jax")
        self.__name__ = getattr(function, "__name__", "jax")
        self._jax = jax
        self._jitted = jax.jit(function, keep_unused=True, **options)
        self._known: dict[Any, tuple[Imported, Any, list[Any], list[Any]]] = {}

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """As JAX's: arrays of JAX, in the containers that the function makes."""
        tree = self._jax.tree
        leaves, structure = tree.flatten((arguments, keywords))
        specs = self._specs(leaves)
        key = structure, tuple((str(spec.shape), str(spec.dtype)) for spec in specs)
        if key not in self._known:
            self._known[key] = self._lowered(structure, specs)
        imported, outside, kinds, ends = self._known[key]
        given = [_as_kind(leaf, kind) for leaf, kind in zip(leaves, kinds, strict=True)]
        found = imported(*given)
        results = list(found) if isinstance(found, tuple) else [found]
        if current() is None:
            results = [
                self._jax.numpy.asarray(np.asarray(x, end) if end.name in NARROW else x)
                for x, end in zip(results, ends, strict=True)
            ]
        return tree.unflatten(outside, results)

    def _lowered(
        self, structure: Any, specs: list[Any]
    ) -> tuple[Imported, Any, list[Any], list[Any]]:
        """The function, how its results are held, and the dtypes of arguments and results."""
        arguments, keywords = self._jax.tree.unflatten(structure, specs)
        if not all(isinstance(n, int) for spec in specs for n in spec.shape):
            export = import_module("jax.export")
            written = export.export(self._jitted)(*arguments, **keywords)
            kinds = [x.dtype for x in written.in_avals]
            ends = [x.dtype for x in written.out_avals]
            return load(written.mlir_module(), name=self.__name__), written.out_tree, kinds, ends
        lowered = self._jitted.lower(*arguments, **keywords)
        kinds = [x.dtype for x in self._jax.tree.leaves(lowered.in_avals)]
        ends = [x.dtype for x in self._jax.tree.leaves(lowered.out_info)]
        return load(lowered.as_text(), name=self.__name__), lowered.out_tree, kinds, ends

    def _specs(self, leaves: list[Any]) -> list[Any]:
        """Shapes and dtypes; sizes that are open are so in JAX as well, by the same names."""
        symbolic = import_module("jax.export") if any(map(_is_open, leaves)) else None
        scope = None if symbolic is None else symbolic.SymbolicScope()
        found: list[Any] = []
        for leaf in leaves:
            array = leaf if hasattr(leaf, "dtype") else self._jax.numpy.asarray(leaf)
            shape = np.shape(array) if not isinstance(leaf, Tracer) else leaf.shape
            if symbolic is not None and _is_open(leaf):
                text = ", ".join(str(dim) for dim in leaf.dims)
                if "//" in text:
                    raise NotSupportedError(f"mlc.jax({self.__name__}): an array of shape ({text})")
                shape = symbolic.symbolic_shape(text, scope=scope)
            found.append(self._jax.ShapeDtypeStruct(shape, array.dtype))
        return found


def _is_open(leaf: Any) -> bool:
    return isinstance(leaf, Tracer) and any(d.constant is None for d in leaf.dims)


def _as_kind(leaf: Any, dtype: Any) -> Any:
    """
    An argument as the lowered function takes it: JAX may have narrowed it, and what is narrower
    than a byte is in bytes.
    """
    if dtype.name in NARROW:
        dtype = np.dtype(NARROW[dtype.name])
    if isinstance(leaf, Tracer):
        return leaf if leaf.dtype == dtype else leaf.astype(dtype)
    return np.asarray(leaf, dtype)


def wrap(function: Callable[..., Any], **options: Any) -> FromJax:
    """
    A function of JAX as one of ours: it compiles, differentiates (`mlc.grad`) and batches
    (`mlc.vmap`) like functions of NumPy, and may be called in them. `options` are those of
    `jax.jit`. ModuleNotFoundError where JAX is not installed, NotSupportedError for ops of
    StableHLO that are not supported.
    """
    return FromJax(function, options)
