# pyright: basic, reportMissingImports=false
"""StableHLO text, compiled and run by JAX's CPU client."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np


def run_by_jax(text: str, arguments: Sequence[Any]) -> list[Any]:
    """The results of `main` for arrays, whose sizes take the place of open ones."""
    import jax
    from jax._src import compiler, xla_bridge
    from jax._src.interpreters import mlir
    from jaxlib import _jax
    from jaxlib.mlir import ir

    jax.config.update("jax_enable_x64", True)
    if re.search(r"@main\([^)]*\?", text):
        text = _of_sizes(text, arguments)
        with mlir.make_ir_context():
            module = ir.Module.parse(text)
            text = _jax.mlir.refine_polymorphic_shapes(mlir.module_to_bytecode(module), True, True)
    client = xla_bridge.get_backend("cpu")
    options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
    devices = _jax.DeviceList(tuple(client.local_devices()[:1]))
    loaded = client.compile_and_load(text, devices, options)
    given = [jax.device_put(np.asarray(x), client.local_devices()[0]) for x in arguments]
    found = loaded.execute_sharded(given).disassemble_into_single_device_arrays()
    return [np.asarray(each[0]) for each in found]


def _of_sizes(text: str, arguments: Sequence[Any]) -> str:
    """A `main` of known sizes around the one of open ones."""
    from mlc.dialects.dims import Dim
    from mlc.dialects.dtypes import numpy_dtype
    from mlc.lowering.stablehlo.text import kind_of

    head = re.search(r"func\.func public @main\((.*)\) -> \((.*)\) \{", text)
    assert head is not None
    open_kinds = re.findall(r"%\w+: (tensor<[^>]*(?:<[^>]*>)?[^>]*>)", head[1])
    kinds = [
        kind_of(numpy_dtype(np.asarray(x).dtype), tuple(map(Dim.const, np.shape(x))))
        for x in arguments
    ]
    lines = [
        f"%b{k} = stablehlo.convert %a{k} : ({kind}) -> {wide}"
        for k, (kind, wide) in enumerate(zip(kinds, open_kinds, strict=True))
    ]
    count = len(re.findall(r"tensor<", head[2]))
    names = ", ".join(f"%r#{k}" if count > 1 else "%r" for k in range(count))
    arguments_ = ", ".join(f"%a{k}: {kind}" for k, kind in enumerate(kinds))
    values = ", ".join(f"%b{k}" for k in range(len(kinds)))
    result = f"%r:{count}" if count > 1 else "%r"
    wrapped = "\n".join(
        [
            f"func.func public @main({arguments_}) -> ({head[2]}) {{",
            *lines,
            f"{result} = call @open({values}) : ({', '.join(open_kinds)}) -> ({head[2]})",
            f"return {names} : {head[2]}",
            "}",
        ]
    )
    inner = text.replace("func.func public @main", "func.func private @open", 1)
    return inner.rstrip().removesuffix("}") + wrapped + "\n}\n"
