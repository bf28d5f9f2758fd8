# pyright: basic
"""A compiled piece of a graph: traced and compiled once, called with addresses of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from itertools import accumulate
from operator import mul
from typing import Any

import numpy as np

from mlc.dialects.dims import Dim
from mlc.dialects.errors import CompilerBug
from mlc.frontend.call.compile import compile as compile_function
from mlc.frontend.call.spec import TensorSpec
from mlc.frontend.call.specialisation import near
from mlc.frontend.importers.fx.devices import DeviceEntry, aligned, one_device
from mlc.frontend.importers.fx.forms import Form, dim_of, form_of, hint_of, is_lazy
from mlc.frontend.importers.fx.run import Refused, Run, is_graph, is_size, symbols_in
from mlc.frontend.importers.fx.stages import is_store
from mlc.runtime.pointers import PointerEntry, packed
from mlc.runtime.tensors import Addresses, addresses_of

Node = Any
Tensor = Any

Plan = tuple[bytes, list[tuple[tuple[int, ...], tuple[int, ...], Any]]]
"""The sizes of a call, and of each result its sizes, strides and element type."""

LEAST_READ = 16
"""Arguments from which on native code reads their addresses sooner: docs/measurements.md."""
DESCRIBED = {
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128",
}  # fmt: skip
"""Element types that every DLPack has a name for."""
MOST_PLANS = 1000
"""Kept of one piece, each for other sizes."""


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
                if other not in inside and not is_size(other) and not is_graph(other)
            )
        )
        self.outputs = list(outside)
        self.device = one_device(nodes)
        self.forms = [_form(node) for node in self.inputs]
        self.results = [_form(node) for node in self.outputs]
        self.written = [self.inputs.index(n.args[0]) for n in self.stores]
        for k, node in zip(self.written, self.stores, strict=True):
            if self.forms[k].thin or not self.forms[k].dense or is_lazy(node.args[0].meta["val"]):
                raise Refused(node, "a write to an argument whose strides leave gaps")
        self.lowered = self._lower()

    def _lower(self) -> Any:
        specs = [form.spec for form in self.forms]
        plain = {d for spec in specs for d in spec.dims if d.single_symbol is not None}
        beside = {Dim.of(s) for d in symbols_in(self.nodes) for s in d.symbols()}
        beside |= {Dim.of(s) for spec in specs for d in spec.dims for s in d.symbols()}
        # of sizes that are no axis of an input: arrays that nobody reads say them
        extra = [TensorSpec(d, dtype="u8") for d in sorted(beside - plain, key=str)]
        self.extra = [0] * len(extra)
        target = "host" if self.device.type == "cpu" else "cuda"
        made = compile_function(target=target, typical=self._typical())(self._traced)
        return made.lower(tuple(specs), tuple(extra))

    def _typical(self) -> dict[str, int]:
        """About the sizes that the graph was traced with."""
        found: dict[str, int] = {}
        for size in (n for node in self.inputs for n in node.meta["val"].shape):
            dim, hint = dim_of(size), hint_of(size)
            if hint is not None and dim is not None and (name := dim.single_symbol) is not None:
                found[name] = near(hint)
        return found

    def compile(self) -> None:
        """Makes code of what was traced."""
        executable = self.lowered.compile()
        signature = executable.signature
        if len(signature.args) != len(self.forms) + len(self.extra) or executable.captured:
            raise CompilerBug("a piece of a graph captures arrays; expected none")
        written = [spec.alias_of for spec in signature.results]
        count = len(written) - len(self.written)
        made, self._in_place = written[:count], written[count:]
        if made != [None] * len(made) or sorted(self.written) != self._in_place:
            raise CompilerBug(f"a piece of a graph writes {written}; expected {self.written}")
        self.executable = executable
        self.symbols: tuple[str, ...] = signature.symbols
        self.assumed = signature.assumed
        torch = import_module("torch")
        self._empty, self._data_ptr = torch.empty_strided, torch.Tensor.data_ptr
        self._on_gpu = self.device.type == "cuda"
        if self._on_gpu:
            self._empty = partial(torch.empty_strided, device=self.device)
            self._entry = DeviceEntry(executable.entry, len(self.symbols), self.device)
        else:
            entry, results = executable.entry, len(signature.results)
            self._entry = PointerEntry(entry, len(signature.args), results)
        if any(site.raises is np.linalg.LinAlgError for site in executable.artifact.sites):
            self._entry = _failing_as_pytorch(self._entry)
        said = [node.meta["val"] for node in self.inputs]
        self._lazy = [k for k, value in enumerate(said) if is_lazy(value)]
        self._copied = [k for k, form in enumerate(self.forms) if not form.dense]
        self._gaps = [k for k, form in enumerate(self.results) if not form.dense]
        self._made = [_Made(node.meta["val"], form.dense)
                      for node, form in zip(self.outputs, self.results, strict=True)]  # fmt: skip
        # what may fail and no result needs makes a number more: nobody reads it
        self._checks = [((), (), torch.int64)] * (count - len(self.outputs))
        self._plans: dict[tuple[int, ...], Plan] = {}
        self._fixed = None if self.symbols else self._plan({})

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

    def __call__(self, tensors: list[Tensor], symbols: Mapping[str, int]) -> list[Tensor]:
        """The results, for tensors in the order of `inputs`."""
        for k in self._lazy:
            tensors[k] = tensors[k].resolve_conj().resolve_neg()
        for k in self._copied:
            tensors[k] = tensors[k].contiguous()
        moved = aligned(tensors) if self._on_gpu else ()
        sizes, shapes = self._fixed or self._plan(symbols)
        results = [self._empty(size, step, dtype=kind) for size, step, kind in shapes]
        if self.written or self.extra:
            addresses = [*map(self._data_ptr, tensors), *self.extra]
            places = [*map(self._data_ptr, results), *(addresses[k] for k in self._in_place)]
            self._entry(addresses, sizes, places)
        else:
            self._entry(map(self._data_ptr, tensors), sizes, map(self._data_ptr, results))
        for k, tensor in moved:
            if k in self.written:
                tensor.copy_(tensors[k])
        for k in self._gaps:
            results[k] = self._made[k].spread(results[k], symbols)
        if self._checks:
            del results[len(self.outputs) :]
        return results

    def direct(self) -> Callable[[list[Tensor]], list[Tensor]]:
        """`__call__` for a graph without open sizes; nothing is asked that is known."""
        odd = (self._lazy, self._copied, self._gaps, self.written, self.extra, self._checks)
        if self._fixed is None or self._on_gpu or any(odd):
            return lambda tensors: self(tensors, {})
        (sizes, shapes), entry, address = self._fixed, self._entry, self._data_ptr
        make, read = _empty_on_cpu(), _addresses(self.inputs)
        if read is not None and isinstance(entry, PointerEntry):
            of_tensors = entry.of_tensors

            def call(tensors: list[Tensor]) -> list[Tensor]:
                results = [make(size, step, kind) for size, step, kind in shapes]
                of_tensors(read, tensors, sizes, map(address, results))
                return results

            return call

        def call_few(tensors: list[Tensor]) -> list[Tensor]:
            results = [make(size, step, kind) for size, step, kind in shapes]
            entry(map(address, tensors), sizes, map(address, results))
            return results

        return call_few

    def _plan(self, symbols: Mapping[str, int]) -> Plan:
        """
        Sizes and shapes of results for a call. CompilerBug where sizes are not such as tracing
        relied on: PyTorch's guards imply it.
        """
        key = tuple(symbols.values())
        if (found := self._plans.get(key)) is not None:
            return found
        for dim in self.assumed:
            if dim.evaluate(symbols) < 0:
                raise CompilerBug(f"a graph is called with {symbols}; expected {dim} >= 0")
        sizes = packed([symbols[s] for s in self.symbols])
        if len(self._plans) >= MOST_PLANS:
            self._plans.clear()
        plan = self._plans[key] = (
            sizes,
            [*(made.shape(symbols) for made in self._made), *self._checks],
        )
        return plan


class _Made:
    """A result: what memory it takes. One whose strides leave gaps is computed without them."""

    def __init__(self, value: Any, dense: bool) -> None:
        self._dtype, self._dense = value.dtype, dense
        self._dims = [size_said(size) for size in value.shape]
        self._strides = [size_said(step) for step in value.stride()]

    def shape(self, symbols: Mapping[str, int]) -> tuple[tuple[int, ...], tuple[int, ...], Any]:
        """Sizes, strides and element type of the memory."""
        sizes = tuple(size_now(n, symbols) for n in self._dims)
        if self._dense:
            return sizes, tuple(size_now(n, symbols) for n in self._strides), self._dtype
        steps = accumulate(reversed(sizes[1:]), mul, initial=1)
        return sizes, tuple(steps)[::-1] if sizes else (), self._dtype

    def spread(self, found: Tensor, symbols: Mapping[str, int]) -> Tensor:
        """What was computed, with the strides that the graph says."""
        strides = [size_now(n, symbols) for n in self._strides]
        empty = import_module("torch").empty_strided
        result = place = empty(found.shape, strides, dtype=self._dtype, device=found.device)
        for axis, step in enumerate(strides):
            if step == 0 and found.shape[axis] > 1:  # all places along it are one
                place, found = place.narrow(axis, 0, 1), found.narrow(axis, 0, 1)
        place.copy_(found)
        return result


def _failing_as_pytorch(entry: Callable[..., None]) -> Callable[..., None]:
    """An entry whose errors of factorisations are PyTorch's."""
    kind = import_module("torch").linalg.LinAlgError

    def call(*given: Any) -> None:
        try:
            entry(*given)
        except np.linalg.LinAlgError as error:
            raise kind(str(error)) from error

    return call


def _addresses(nodes: Sequence[Node]) -> Addresses | None:
    """What reads addresses of many tensors; None where PyTorch has no such way."""
    kinds = {str(node.meta["val"].dtype).removeprefix("torch.") for node in nodes}
    if len(nodes) < LEAST_READ or kinds - DESCRIBED:
        return None
    return addresses_of(import_module("torch").Tensor)


def _empty_on_cpu() -> Callable[..., Tensor]:
    """`torch.empty_strided` of sizes, strides and a type: the quick form that inductor takes."""
    torch = import_module("torch")
    quick = getattr(getattr(torch._C._dynamo, "guards", None), "_empty_strided_cpu", None)
    return quick or (lambda size, step, kind: torch.empty_strided(size, step, dtype=kind))


def size_said(size: Any) -> Any:
    """A size as an int, as our polynomial, or as SymPy's expression."""
    if isinstance(size, int):
        return size
    dim = dim_of(size)
    return size.node.expr if dim is None else dim


def size_now(size: Any, symbols: Mapping[str, int]) -> int:
    """The number that a size is in a call."""
    if isinstance(size, int):
        return size
    if isinstance(size, Dim):
        return size.evaluate(symbols)
    return int(size.subs({s: symbols[str(s)] for s in size.free_symbols}))


def _form(node: Node) -> Form:
    form = form_of(node.meta["val"])
    if form is None:
        raise Refused(node, "a tensor that mlc does not take")
    return form
