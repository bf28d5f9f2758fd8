"""
mlc: NumPy functions to native CPU and GPU code, through levels that can be read.

    @mlc.compile
    def step(w, x, y): ...

Names are loaded when they are first used, so that `import mlc` costs little.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mlc.version import __version__

if TYPE_CHECKING:
    from mlc.dialects.errors import (
        CompilerBug,
        DTypeError,
        MemoryLimitError,
        MlcError,
        ParallelError,
        ShapeError,
    )
    from mlc.frontend import block, nn, numpy, optim, random, torch
    from mlc.frontend.block.launch import BlockKernel, block_kernel
    from mlc.frontend.call.compile import Compiled, compile  # noqa: A004 - mlc.compile
    from mlc.frontend.call.contract import ContractError
    from mlc.frontend.call.disabled import disable
    from mlc.frontend.call.spec import TensorSpec
    from mlc.frontend.errors import ConcretizationError, NotSupportedError
    from mlc.frontend.importers import mlir, onnx, stablehlo
    from mlc.frontend.importers.jax import wrap as jax
    from mlc.frontend.staging.items import prange
    from mlc.frontend.trace.autocast import autocast
    from mlc.frontend.trace.constant import constant
    from mlc.frontend.trace.containers import register_container
    from mlc.frontend.trace.control import cond
    from mlc.frontend.trace.loops import fori_loop, scan, while_loop
    from mlc.frontend.trace.loops import map_ as map  # noqa: A004 - mlc.map
    from mlc.frontend.transforms.check_grads import check_grads
    from mlc.frontend.transforms.custom_rules import (
        checkpoint,
        custom_jvp,
        custom_vjp,
        stop_gradient,
    )
    from mlc.frontend.transforms.derivatives import grad, jvp, linearize, value_and_grad, vjp
    from mlc.frontend.transforms.jacobians import hessian, jacfwd, jacobian, jacrev
    from mlc.frontend.transforms.vmap import vmap
    from mlc.runtime.cuda.dlpack import DeviceArray, device_put
    from mlc.runtime.cuda.driver import stream
    from mlc.runtime.support import clear_pool
    from mlc.runtime.threads import get_threads, set_threads
    from mlc.saved import load

_PLACES = {
    "autocast": "mlc.frontend.trace.autocast",
    "compile": "mlc.frontend.call.compile",
    "Compiled": "mlc.frontend.call.compile",
    "cond": "mlc.frontend.trace.control",
    "constant": "mlc.frontend.trace.constant",
    "disable": "mlc.frontend.call.disabled",
    "fori_loop": "mlc.frontend.trace.loops",
    "map": "mlc.frontend.trace.loops:map_",
    "scan": "mlc.frontend.trace.loops",
    "while_loop": "mlc.frontend.trace.loops",
    "vmap": "mlc.frontend.transforms.vmap",
    "TensorSpec": "mlc.frontend.call.spec",
    "grad": "mlc.frontend.transforms.derivatives",
    "value_and_grad": "mlc.frontend.transforms.derivatives",
    "vjp": "mlc.frontend.transforms.derivatives",
    "jvp": "mlc.frontend.transforms.derivatives",
    "linearize": "mlc.frontend.transforms.derivatives",
    "jacfwd": "mlc.frontend.transforms.jacobians",
    "jacobian": "mlc.frontend.transforms.jacobians",
    "jacrev": "mlc.frontend.transforms.jacobians",
    "hessian": "mlc.frontend.transforms.jacobians",
    "checkpoint": "mlc.frontend.transforms.custom_rules",
    "custom_vjp": "mlc.frontend.transforms.custom_rules",
    "custom_jvp": "mlc.frontend.transforms.custom_rules",
    "stop_gradient": "mlc.frontend.transforms.custom_rules",
    "check_grads": "mlc.frontend.transforms.check_grads",
    "block": "mlc.frontend.block:",
    "block_kernel": "mlc.frontend.block.launch",
    "BlockKernel": "mlc.frontend.block.launch",
    "nn": "mlc.frontend.nn:",
    "numpy": "mlc.frontend.numpy:",
    "mlir": "mlc.frontend.importers.mlir:",
    "onnx": "mlc.frontend.importers.onnx:",
    "optim": "mlc.frontend.optim:",
    "register_container": "mlc.frontend.trace.containers",
    "prange": "mlc.frontend.staging.items",
    "random": "mlc.frontend.random:",
    "torch": "mlc.frontend.torch:",
    "jax": "mlc.frontend.importers.jax:wrap",
    "stablehlo": "mlc.frontend.importers.stablehlo:",
    "load": "mlc.saved",
    "set_threads": "mlc.runtime.threads",
    "get_threads": "mlc.runtime.threads",
    "clear_pool": "mlc.runtime.support",
    "DeviceArray": "mlc.runtime.cuda.dlpack",
    "device_put": "mlc.runtime.cuda.dlpack",
    "stream": "mlc.runtime.cuda.driver",
    "MlcError": "mlc.dialects.errors",
    "ShapeError": "mlc.dialects.errors",
    "DTypeError": "mlc.dialects.errors",
    "MemoryLimitError": "mlc.dialects.errors",
    "ParallelError": "mlc.dialects.errors",
    "CompilerBug": "mlc.dialects.errors",
    "NotSupportedError": "mlc.frontend.errors",
    "ConcretizationError": "mlc.frontend.errors",
    "ContractError": "mlc.frontend.call.contract",
}
"""Where each public name lives; after a colon its name there, or nothing for the module itself."""

__all__ = [
    "BlockKernel",
    "Compiled",
    "CompilerBug",
    "ConcretizationError",
    "ContractError",
    "DeviceArray",
    "DTypeError",
    "MemoryLimitError",
    "MlcError",
    "NotSupportedError",
    "ParallelError",
    "ShapeError",
    "TensorSpec",
    "__version__",
    "autocast",
    "block",
    "block_kernel",
    "check_grads",
    "checkpoint",
    "clear_pool",
    "compile",
    "cond",
    "constant",
    "disable",
    "custom_jvp",
    "custom_vjp",
    "device_put",
    "fori_loop",
    "get_threads",
    "grad",
    "hessian",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jax",
    "jvp",
    "linearize",
    "load",
    "map",
    "mlir",
    "nn",
    "numpy",
    "onnx",
    "optim",
    "prange",
    "random",
    "scan",
    "register_container",
    "set_threads",
    "stablehlo",
    "stop_gradient",
    "stream",
    "torch",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
]


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'mlc' has no attribute {name!r}")
    path, colon, inside = place.partition(":")
    module = import_module(path)
    value = module if colon and not inside else getattr(module, inside or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
