"""What a GPU program takes, and what goes to the slow callable instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlc.dialects.dtypes import named_dtype
from mlc.dialects.signature import ArgSpec
from mlc.lazy_dataclass import dataclass
from mlc.runtime.cuda.dlpack import View, on_device, row_major, view_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]

PYTHON_TYPES: dict[str, type] = {"float": float, "int": int, "bool": bool}


class NotTakenError(Exception):
    """The arguments are for the slow callable."""


@dataclass(frozen=True, kw_only=True)
class Argument:
    """An argument that fits its spec: on the host or on the device; `number`: a Python number."""

    number: bool
    host: Array | None
    device: View | None
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def bits(self) -> int:
        """Of a number, as kernels read it."""
        assert self.host is not None
        return int.from_bytes(self.host.tobytes(), "little")

    def bounds(self) -> tuple[int, int]:
        """The addresses of its first byte and of the one behind its last."""
        import numpy as np

        if self.device is not None:
            return self.device.bounds
        assert self.host is not None
        return np.lib.array_utils.byte_bounds(self.host)


def argument_of(spec: ArgSpec, value: object, position: int) -> Argument:
    """An argument that fits; NotTakenError where it does not."""
    if spec.kind == "array" and on_device(value):
        array = view_of(value, f"argument {position}")
        taken = (
            array.row.name == spec.dtype
            and len(array.shape) == len(spec.dims)
            and (spec.layout == "general" or array.contiguous)
        )
        if not taken:
            raise NotTakenError
        return Argument(
            number=False, host=None, device=array, shape=array.shape, strides=array.strides
        )
    number = spec.kind != "array"
    host = _scalar(spec, value) if number else _host_array(spec, value)
    strides = row_major(host.shape)
    return Argument(number=number, host=host, device=None, shape=host.shape, strides=strides)


def _host_array(spec: ArgSpec, value: object) -> Array:
    """The array itself, or a copy without gaps."""
    import numpy as np

    if type(value) is not np.ndarray:
        raise NotTakenError
    array: Array = value
    if array.dtype != named_dtype(spec.dtype).numpy or array.ndim != len(spec.dims):
        raise NotTakenError
    if spec.donated and not (array.flags.c_contiguous and array.flags.writeable):
        raise NotTakenError
    return array if array.flags.c_contiguous else array.copy(order="C")


def _scalar(spec: ArgSpec, value: object) -> Array:
    import numpy as np

    if type(value) is not PYTHON_TYPES[spec.kind]:
        raise NotTakenError
    try:
        with np.errstate(over="ignore"):
            wide = np.array(value, "int64") if spec.kind == "int" else np.array(value)
            row = named_dtype(spec.dtype)
            if row.kind == "float":
                wide = wide.astype("float64")  # as NumPy converts Python integers
            narrow = wide.astype(row.numpy)
    except OverflowError:
        raise NotTakenError from None
    if spec.kind == "int" and narrow.dtype.kind == "i" and int(narrow) != value:
        raise NotTakenError
    return narrow
