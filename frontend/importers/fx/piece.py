# pyright: basic
"""A compiled piece of a graph: traced and compiled once, called with addresses of tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from mlc.dialects.dims import Dim
from mlc.dialects.errors import CompilerBug
from mlc.frontend.call.compile import compile as compile_function
from mlc.frontend.call.spec import TensorSpec
from mlc.frontend.importers.fx.forms import Form, form_of
from mlc.frontend.importers.fx.run import Refused, Run, is_size, symbols_in
from mlc.frontend.importers.fx.stages import is_store
from mlc.runtime.pointers import PointerEntry

Node = Any
Tensor = Any


class Piece:
    """Nodes as one function. `outside`: nodes whose values others want."""

    def __init__(self, nodes: Sequence[Node], outside: Sequence[Node]) -> None:
        self.nodes = [n for n in nodes if not is_store(n)]
        self.stores = [n for n in nodes if is_store(n)]
        inside = set(nodes)
        self.inputs: list[Node] = list(
            dict.fromkeys(
                other
                for node in nodes
                for other in node.all_input_nodes
                if other not in inside and not is_size(other)
            )
        )
        self.outputs = list(outside)
        self.forms = [_form(node) for node in self.inputs]
        self.results = [_form(node) for node in self.outputs]
        self.written = [self.inputs.index(n.args[0]) for n in self.stores]
        self.lowered = self._lower()

    def _lower(self) -> Any:
        specs = [form.spec for form in self.forms]
        plain = {d for spec in specs for d in spec.dims if d.single_symbol is not None}
        beside = {Dim.of(s) for d in symbols_in(self.nodes) for s in d.symbols()}
        beside |= {Dim.of(s) for spec in specs for d in spec.dims for s in d.symbols()}
        # of sizes that are no axis of an input: arrays that nobody reads say them
        extra = [TensorSpec(d, dtype="u8") for d in sorted(beside - plain, key=str)]
        self.extra = [0] * len(extra)
        return compile_function(self._traced).lower(tuple(specs), tuple(extra))

    def compile(self) -> None:
        """Makes code of what was traced."""
        executable = self.lowered.compile()
        signature = executable.signature
        if len(signature.args) != len(self.forms) + len(self.extra) or executable.captured:
            raise CompilerBug("a piece of a graph captures arrays; expected none")
        self.executable = executable
        self.symbols: tuple[str, ...] = signature.symbols
        self.assumed = signature.assumed
        self._fitting: set[tuple[int, ...]] = set()
        self._entry = PointerEntry(
            executable.entry,
            len(signature.args),
            signature.size_count,
            len(signature.results),
        )
        self._prepare()

    def _traced(self, arrays: tuple[Any, ...], _: tuple[Any, ...]) -> tuple[Any, ...]:
        tensors = [form.seen(x) for form, x in zip(self.forms, arrays, strict=True)]
        run = Run(dict(zip(self.inputs, tensors, strict=True)))
        run.nodes(self.nodes)
        found = tuple(
            form.laid(run.values[node])
            for node, form in zip(self.outputs, self.results, strict=True)
        )
        stored = [run.values[node.args[1]] for node in self.stores]
        for k, value in zip(self.written, stored, strict=True):
            form = self.forms[k]
            whole = np.broadcast_to(value, form.shape).astype(arrays[k].dtype)
            arrays[k][...] = form.laid(whole)
        return found

    def _prepare(self) -> None:
        """What each call does, as far as it is the same for all."""
        torch = import_module("torch")
        self._empty = torch.empty_strided
        self._data_ptr = torch.Tensor.data_ptr
        self.copied = [k for k, form in enumerate(self.forms) if not form.dense]
        self.made = [_Made(node.meta["val"], form)
                     for node, form in zip(self.outputs, self.results, strict=True)]  # fmt: skip
        self.fixed: list[Any] | None = None
        if all(made.fixed is not None for made in self.made):
            self.fixed = [made.fixed for made in self.made]
        self.apart = bool(self.written)

    def __call__(self, tensors: list[Tensor], symbols: Mapping[str, int]) -> list[Tensor]:
        """The results, for tensors in the order of `inputs`."""
        for k in self.copied:
            tensors[k] = tensors[k].contiguous()
        addresses = list(map(self._data_ptr, tensors))
        if self.fixed is not None:
            results = [self._empty(size, step, dtype=kind) for size, step, kind in self.fixed]
        else:
            results = [made.new(self._empty, symbols) for made in self.made]
        places = list(map(self._data_ptr, results))
        places += [addresses[k] for k in self.written]
        sizes = [symbols[s] for s in self.symbols]
        if self.assumed and tuple(sizes) not in self._fitting:
            self._check(sizes)
        if self.extra:
            addresses += self.extra
        self._entry(addresses, sizes, places)
        return [made.finished(x, symbols) if made.gaps else x
                for made, x in zip(self.made, results, strict=True)]  # fmt: skip

    def _check(self, sizes: Sequence[int]) -> None:
        """CompilerBug where sizes are not such as tracing relied on: PyTorch's guards imply it."""
        known = dict(zip(self.symbols, sizes, strict=True))
        for dim in self.assumed:
            if dim.evaluate(known) < 0:
                raise CompilerBug(f"a graph is called with {known}; expected {dim} >= 0")
        self._fitting.add(tuple(sizes))


class _Made:
    """A result: what memory it takes. Where its strides leave gaps, it is copied at the end."""

    def __init__(self, value: Any, form: Form) -> None:
        self.dtype = value.dtype
        self.dims = [size_said(size) for size in value.shape]
        self.gaps = not form.dense
        self.strides = [size_said(step) for step in value.stride()]
        known = all(isinstance(n, int) for n in (*self.dims, *self.strides))
        whole = (tuple(self.dims), tuple(self.strides), self.dtype)
        self.fixed = whole if known and form.dense else None

    def new(self, empty: Any, symbols: Mapping[str, int]) -> Tensor:
        """Memory for it."""
        sizes = [size_now(n, symbols) for n in self.dims]
        if self.gaps:
            return import_module("torch").empty(sizes, dtype=self.dtype)
        return empty(sizes, [size_now(n, symbols) for n in self.strides], dtype=self.dtype)

    def finished(self, found: Tensor, symbols: Mapping[str, int]) -> Tensor:
        """It, with its strides."""
        torch = import_module("torch")
        strides = [size_now(n, symbols) for n in self.strides]
        return torch.empty_strided(found.shape, strides, dtype=self.dtype).copy_(found)


def size_said(size: Any) -> Any:
    """A size as an int or SymPy's expression."""
    return size if isinstance(size, int) else size.node.expr


def size_now(size: Any, symbols: Mapping[str, int]) -> int:
    """The number that a size is in a call."""
    if isinstance(size, int):
        return size
    return int(size.subs({s: symbols[str(s)] for s in size.free_symbols}))


def _form(node: Node) -> Form:
    form = form_of(node.meta["val"])
    if form is None:
        raise Refused(node, "a tensor that mlc does not take")
    return form
