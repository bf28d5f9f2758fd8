"""
Arrays of other libraries in and out (DLPack), and clear refusals of what cannot be taken.

The path of arguments that the native shim passed on: it costs microseconds, not nanoseconds.
"""

from __future__ import annotations

import ctypes
import sys
from array import ArrayType
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]

# SOURCE: dlpack.h, DLDeviceType
_CPU_DEVICES = (1, 3, 11)  # CPU, CUDA host memory (pinned), ROCm host memory
_DEVICE_NAMES = {2: "CUDA", 13: "CUDA managed", 7: "Vulkan", 8: "Metal", 10: "ROCm"}

_KINDS = {
    "O": "holds Python objects",
    "V": "is structured",
    "S": "holds bytes",
    "U": "holds text",
    "T": "holds text",
    "M": "holds dates",
    "m": "holds time differences",
}


@runtime_checkable
class DLPackArray(Protocol):
    """What the array API standard asks of an array that can be shared."""

    def __dlpack__(self) -> object: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...


def as_array(value: object, where: str) -> Array:
    """
    `value` as an ndarray in native byte order, sharing memory where possible.

    `where` names the argument in messages, such as "argument 'x'". TypeError with the remedy for
    what has no such form.
    """
    import numpy as np

    if isinstance(value, np.generic):
        value = np.asarray(cast(object, value))
    if isinstance(value, np.ndarray):
        return _plain(cast("Array", value), where)
    if isinstance(value, DLPackArray):
        return _plain(_from_dlpack(value, where), where)
    if isinstance(value, memoryview | bytearray | ArrayType | ctypes.Array) or any(
        hasattr(value, name) for name in ("__array_interface__", "__array__")
    ):
        return _plain(np.asarray(value), where)
    raise TypeError(
        f"{where} is a {_type_name(value)}; expected an array (NumPy, or anything with __dlpack__) "
        "or a Python number; convert it with np.asarray"
    )


def _plain(array: Array, where: str) -> Array:
    import numpy as np

    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            f"{where} is a masked array, whose mask would be lost; fill it first: x.filled(0)"
        )
    if isinstance(array, np.matrix):
        raise TypeError(
            f"{where} is a numpy.matrix, whose * means @; pass np.asarray(x) and write @"
        )
    if type(array) is not np.ndarray:
        array = np.asarray(array)
    reason = _KINDS.get(array.dtype.kind)
    if array.dtype.names is not None:
        raise TypeError(
            f"{where} has dtype {array.dtype}, which is structured; expected numbers or bool; "
            f"pass its fields one by one: x[{array.dtype.names[0]!r}], …"
        )
    if reason is not None and array.dtype.type.__module__ == "numpy":
        raise TypeError(
            f"{where} has dtype {array.dtype}, which {reason}; expected numbers or bool; convert "
            "it first, such as x.astype(np.float64)"
        )
    if not array.dtype.isnative:
        return array.astype(array.dtype.newbyteorder("="))  # foreign byte order: a copy
    if not array.flags.aligned:
        return array.copy()
    return array


def _from_dlpack(value: DLPackArray, where: str) -> Array:
    import numpy as np

    device, _ = value.__dlpack_device__()
    if int(device) not in _CPU_DEVICES:
        name = _DEVICE_NAMES.get(int(device), f"DLPack type {int(device)}")
        raise TypeError(
            f"{where} is a {_type_name(value)} on a {name} device, but the function is compiled "
            'for the CPU; compile it with target="cuda", or move the argument to the CPU'
        )
    try:
        if (words := _words_of_bf16(value)) is not None:
            return words
        return np.from_dlpack(value)  # pyright: ignore[reportArgumentType]
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(
            f"{where} is a {_type_name(value)} that NumPy cannot view: {error}; pass a plain CPU "
            "array, such as x.detach().numpy() or np.asarray(x)"
        ) from error


def result_maker(origin: object) -> Callable[[object], object] | None:
    """
    What turns a NumPy result into an array of `origin`'s library, sharing memory; None when
    `origin` is NumPy's or no array.
    """
    import numpy as np

    if isinstance(origin, np.ndarray | np.generic) or not isinstance(origin, DLPackArray):
        return None
    from_dlpack = _namespace_function(origin)
    if from_dlpack is None:
        return None

    def make(result: object) -> object:
        array = np.asarray(result)
        if array.dtype.name == "bfloat16" and (torch := _torch_of(origin)) is not None:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return from_dlpack(array)

    return make


def _torch_of(value: object) -> Any:
    """PyTorch, of one of its tensors."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(value, torch.Tensor) else None


def _words_of_bf16(value: Any) -> Array | None:
    """The memory of a tensor of bfloat16, which NumPy's own DLPack does not know."""
    torch = _torch_of(value)
    if torch is None or value.dtype is not torch.bfloat16 or value.requires_grad:
        return None
    import ml_dtypes

    return value.view(torch.int16).numpy().view(ml_dtypes.bfloat16)


def _namespace_function(origin: object) -> Callable[[object], object] | None:
    namespace = getattr(origin, "__array_namespace__", None)
    candidates: list[object] = [namespace()] if callable(namespace) else []
    # jaxlib's arrays are jax's
    root = type(origin).__module__.partition(".")[0].removesuffix("lib")
    modules = (f"{root}.numpy", root, f"{root}.utils.dlpack")
    candidates += [sys.modules.get(module) for module in modules]
    for candidate in candidates:
        function = getattr(candidate, "from_dlpack", None)
        if callable(function):
            return cast("Callable[[object], object]", function)
    return None


def _type_name(value: object) -> str:
    kind = type(value)
    name = kind.__qualname__
    return name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"
