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
    from mlc.dialects.errors import CompilerBug, DTypeError, MemoryLimitError, MlcError, ShapeError
    from mlc.frontend import nn, numpy, optim, random
    from mlc.frontend import torch_bridge as torch
    from mlc.frontend.check_grads import check_grads
    from mlc.frontend.compile import Compiled, compile  # noqa: A004 - mlc.compile
    from mlc.frontend.constant import constant
    from mlc.frontend.contract import ContractError
    from mlc.frontend.control import cond
    from mlc.frontend.custom_rules import checkpoint, custom_jvp, custom_vjp, stop_gradient
    from mlc.frontend.derivatives import grad, jvp, linearize, value_and_grad, vjp
    from mlc.frontend.errors import ConcretizationError, NotSupportedError
    from mlc.frontend.jacobians import hessian, jacfwd, jacobian, jacrev
    from mlc.frontend.loops import fori_loop, scan, while_loop
    from mlc.frontend.loops import map_ as map  # noqa: A004 - mlc.map
    from mlc.frontend.spec import TensorSpec
    from mlc.frontend.vmap import vmap
    from mlc.runtime.cuda.dlpack import DeviceArray, device_put
    from mlc.runtime.cuda.driver import stream
    from mlc.runtime.support import clear_pool
    from mlc.runtime.threads import get_threads, set_threads

_PLACES = {
    "compile": "mlc.frontend.compile",
    "Compiled": "mlc.frontend.compile",
    "cond": "mlc.frontend.control",
    "constant": "mlc.frontend.constant",
    "fori_loop": "mlc.frontend.loops",
    "map": "mlc.frontend.loops:map_",
    "scan": "mlc.frontend.loops",
    "while_loop": "mlc.frontend.loops",
    "vmap": "mlc.frontend.vmap",
    "TensorSpec": "mlc.frontend.spec",
    "grad": "mlc.frontend.derivatives",
    "value_and_grad": "mlc.frontend.derivatives",
    "vjp": "mlc.frontend.derivatives",
    "jvp": "mlc.frontend.derivatives",
    "linearize": "mlc.frontend.derivatives",
    "jacfwd": "mlc.frontend.jacobians",
    "jacobian": "mlc.frontend.jacobians",
    "jacrev": "mlc.frontend.jacobians",
    "hessian": "mlc.frontend.jacobians",
    "checkpoint": "mlc.frontend.custom_rules",
    "custom_vjp": "mlc.frontend.custom_rules",
    "custom_jvp": "mlc.frontend.custom_rules",
    "stop_gradient": "mlc.frontend.custom_rules",
    "check_grads": "mlc.frontend.check_grads",
    "nn": "mlc.frontend.nn:",
    "numpy": "mlc.frontend.numpy:",
    "optim": "mlc.frontend.optim:",
    "random": "mlc.frontend.random:",
    "torch": "mlc.frontend.torch_bridge:",
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
    "CompilerBug": "mlc.dialects.errors",
    "NotSupportedError": "mlc.frontend.errors",
    "ConcretizationError": "mlc.frontend.errors",
    "ContractError": "mlc.frontend.contract",
}
"""Where each public name lives; after a colon its name there, or nothing for the module itself."""

__all__ = [
    "Compiled",
    "CompilerBug",
    "ConcretizationError",
    "ContractError",
    "DeviceArray",
    "DTypeError",
    "MemoryLimitError",
    "MlcError",
    "NotSupportedError",
    "ShapeError",
    "TensorSpec",
    "__version__",
    "check_grads",
    "checkpoint",
    "clear_pool",
    "compile",
    "cond",
    "constant",
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
    "jvp",
    "linearize",
    "map",
    "nn",
    "numpy",
    "optim",
    "random",
    "scan",
    "set_threads",
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
