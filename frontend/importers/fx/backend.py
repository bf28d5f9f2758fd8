# pyright: basic
"""`torch.compile(model, backend="mlc")`: what PyTorch calls with each graph of a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from mlc.frontend.importers.fx import (
    control,
    elementwise,
    layers,
    linalg,
    orders,
    reduce,
    sampling,
    shape,
    spectra,
    windows,
)
from mlc.frontend.importers.fx.graph import compiled
from mlc.frontend.importers.fx.run import ROWS, op_name

_FAMILIES = (
    control, elementwise, layers, linalg, orders, reduce, sampling, shape, spectra, windows,
)  # fmt: skip
"""Whose import fills `ROWS`."""


def compile_fx(module: Any, inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """
    The compiled form of a graph that TorchDynamo has captured, its way back included.

    AOTAutograd takes the graph apart into core ATen ops, but for those that mlc knows whole.
    TypeError for options, of which there are none.
    """
    if options:
        raise TypeError(f'backend="mlc" takes no options, found {", ".join(options)}')
    common = import_module("torch._dynamo.backends.common")
    backend = common.aot_autograd(
        fw_compiler=_compiler("forward"),
        bw_compiler=_compiler("backward"),
        inference_compiler=_compiler("inference"),
        decompositions=_decompositions(),
        partition_fn=_partitioned,
        keep_inference_input_mutations=True,
    )
    return backend(module, inputs)


def _partitioned(module: Any, *given: Any, **options: Any) -> Any:
    """The way there and the way back, of the joint graph of both."""
    partition = import_module("functorch.compile").min_cut_rematerialization_partition
    return partition(linalg.without_factors(module), *given, **options)


def _compiler(name: str) -> Callable[..., Any]:
    def compile_graph(module: Any, inputs: Sequence[Any]) -> Any:
        call = compiled(module, name)
        call._boxed_call = True  # pyright: ignore[reportFunctionMemberAccess]
        return call

    return compile_graph


def _decompositions() -> dict[Any, Any]:
    """PyTorch's table of decompositions into core ops, without those of ops that have a row."""
    table = import_module("torch._decomp").core_aten_decompositions()
    return {op: rule for op, rule in table.items() if op_name(op) not in ROWS}
