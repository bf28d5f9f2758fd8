"""A GPU program as a callable: arguments onto the device, the launch plan, results back."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from mlc.dialects import abi
from mlc.dialects.dtypes import DType, named_dtype
from mlc.dialects.launch import ARENA, ERROR_WORD, FIRST_SIZE, LaunchPlan, TensorMap
from mlc.dialects.signature import ArgSpec, EntrySignature, solve, solved
from mlc.dialects.target.gpu import GpuTarget
from mlc.runtime.cuda.dlpack import (
    DeviceArray,
    Result,
    device_array,
    exporter,
    on_device,
    row_major,
)
from mlc.runtime.cuda.driver import Block, Device, GpuError, device
from mlc.runtime.cuda.interpret import ProgramError, run_steps
from mlc.runtime.cuda.recording import Launched, Made, Recorder, Recording, exchange_api
from mlc.runtime.cuda.staging import Staging, packed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]

OnError = Callable[[int, int, int], NoReturn]
"""(site, value, extent) of the error word; raises what NumPy raises, at the user's line."""

MOST_RECORDINGS = 16  # calls of a program with different shapes
POINTER_ALIGNMENT = 16  # bytes; what kernels take for granted of every buffer
_PYTHON_TYPES: dict[str, type] = {"float": float, "int": int, "bool": bool}


class _NotTakenError(Exception):
    """The arguments are for the slow callable."""


@dataclass(frozen=True, kw_only=True)
class _Argument:
    """An argument that fits its spec: on the host or on the device."""

    host: Array | None
    device: DeviceArray | None
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def bounds(self) -> tuple[int, int]:
        """The addresses of its first byte and of the one behind its last."""
        import numpy as np

        if self.device is not None:
            return self.device.bounds
        assert self.host is not None
        return np.lib.array_utils.byte_bounds(self.host)


@dataclass(frozen=True)
class _Out:
    """A result's memory."""

    block: Block | None  # None: it lies where a donated argument does
    pointer: int
    dtype: DType
    shape: tuple[int, ...]


def load_program(
    plan: LaunchPlan,
    ptx: Mapping[str, str],
    signature: EntrySignature,
    target: GpuTarget,
    *,
    slow: Callable[..., object],
    on_error: OnError,
) -> LoadedProgram:
    """
    The program on this process's GPU. GpuError where there is none, or another one than the
    program is for. `ptx`: of each kernel, by name.

    `slow` gets the arguments that the program does not take. `on_error` raises for a run-time error
    of the kernels.
    """
    found = device()
    have, want = found.compute_capability, target.compute_capability
    if have < want or (target.arch_specific and have != want):
        raise GpuError(
            f"the program is compiled for {target.sm}, the GPU ({found.name}) has compute "
            f'capability {have}; compile it with target="cuda"'
        )
    return LoadedProgram(found, plan, ptx, signature, slow=slow, on_error=on_error)


class LoadedProgram:
    """A callable that runs a program."""

    def __init__(
        self,
        on: Device,
        plan: LaunchPlan,
        ptx: Mapping[str, str],
        signature: EntrySignature,
        *,
        slow: Callable[..., object],
        on_error: OnError,
    ) -> None:
        self._device, self._plan, self._signature = on, plan, signature
        self._solution = solve(signature)
        self._slow, self._on_error = slow, on_error
        self._arena: Block | None = None
        self.calls = 0
        self._staging = Staging(on)
        self._recordings: list[Recording] = []
        self._recorder: Recorder | None = None
        with on.active():
            self._functions = {name: on.load(text, name) for name, text in ptx.items()}
            self._error_word = on.pool.take(abi.CTX_BYTES)
            on.fill_words(self._error_word.pointer, 0, abi.CTX_BYTES // 4)
            self._constants = [self._upload(data) for data in self._plan.constants]

    def _upload(self, data: bytes) -> Block:
        block = self._device.pool.take(len(data))
        if data:
            self._device.to_device(block.pointer, data)
        return block

    def set_slow(self, slow: Callable[..., object]) -> None:
        """Replace the callable that takes what this program does not."""
        self._slow = slow

    @property
    def builtin(self) -> Callable[..., object]:
        """The callable, under the name that a CPU entry has for it."""
        return self

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Run the program, or the slow callable when it does not take the arguments."""
        if self._recordings and not kwargs:
            with self._device.lock():
                made = self._repeated(args)
            if made is not None:
                return made if self._signature.as_tuple else made[0] if made else None
        try:
            arguments, symbols = self._checked(args, kwargs)
        except _NotTakenError:
            return self._slow(*args, **kwargs)
        self.calls += 1
        with self._device.active():
            return self._run(args, arguments, symbols)

    def _repeated(self, args: tuple[object, ...]) -> tuple[object, ...] | None:
        """The results of a call that was recorded; None where none fits."""
        for k, recording in enumerate(self._recordings):
            made = recording.run(args)
            if made is None:
                continue
            self.calls += 1
            if k:
                self._recordings.insert(0, self._recordings.pop(k))
            if self._plan.fails:
                with self._device.active():
                    self._check_error_word()
            return made
        return None

    # arguments --------------------------------------------------------------------------------

    def _checked(
        self, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[list[_Argument], dict[str, int]]:
        specs = self._signature.args
        if kwargs or len(args) != len(specs):
            raise _NotTakenError
        found = [_argument(s, x, k) for k, (s, x) in enumerate(zip(specs, args, strict=True))]
        symbols = solved(self._solution, [x.shape for x in found])
        if symbols is None or not self._are_apart(found):
            raise _NotTakenError
        return found, symbols

    def _are_apart(self, arguments: list[_Argument]) -> bool:
        """Whether no donated array overlaps another one."""
        donated = [k for k, spec in enumerate(self._signature.args) if spec.donated]
        if not donated:
            return True
        bounds = [argument.bounds() for argument in arguments]
        return all(
            bounds[k][1] <= other[0] or bounds[k][0] >= other[1]
            for k in donated
            for n, other in enumerate(bounds)
            if n != k and (arguments[k].device is None) == (arguments[n].device is None)
        )

    def _placed(self, arguments: list[_Argument], keep: list[Block]) -> list[int]:
        """Where the arguments are on the device; copied there if they must be."""
        hosts = [argument.host for argument in arguments if argument.host is not None]
        pointers = iter(self._staging.upload(hosts, keep))
        return [
            next(pointers) if argument.device is None else self._in_place(argument.device, keep)
            for argument in arguments
        ]

    def _in_place(self, array: DeviceArray, keep: list[Block]) -> int:
        """Where an array is; a copy where kernels cannot begin there."""
        if array.pointer % POINTER_ALIGNMENT == 0 or not array.contiguous:
            return array.pointer
        size_bytes = array.row.bytes * math.prod(array.shape)
        block = self._device.pool.take(size_bytes)
        keep.append(block)
        self._device.copy(block.pointer, array.pointer, size_bytes)
        return block.pointer

    # one call ---------------------------------------------------------------------------------

    def _run(
        self, args: Sequence[object], arguments: list[_Argument], symbols: dict[str, int]
    ) -> object:
        plan, signature = self._plan, self._signature
        keep: list[Block] = []
        registers = [0] * plan.registers
        for register, value in plan.known:
            registers[register] = value
        sizes = [symbols[name] for name in signature.symbols]
        sizes += [arguments[k].strides[axis] for k, axis in signature.strided]
        registers[FIRST_SIZE : FIRST_SIZE + len(sizes)] = sizes
        inputs = self._placed(arguments, keep)
        outs = self._places(symbols, inputs, on_device=any(a.device for a in arguments))
        bases = [*inputs, *(out.pointer for out in outs)]
        recorder = self._recorder = None if keep else _recorder(arguments)
        if recorder is not None:
            places = enumerate(bases)
            registers[plan.first_input : plan.first_input + len(bases)] = [
                recorder.address(x, k) for k, x in places
            ]
        else:
            registers[plan.first_input : plan.first_input + len(bases)] = bases
        for k, block in enumerate(self._constants):
            registers[plan.first_constant + k] = block.pointer
        registers[ERROR_WORD] = self._error_word.pointer
        if self._arena is not None:
            registers[ARENA] = self._arena.pointer
        try:
            run_steps(plan.steps, registers, self)
        except ProgramError as error:
            self._on_error(error.site, error.value, error.extent)
        if recorder is not None and recorder.repeatable:
            self._record(recorder, arguments, bases, outs)
        self._check_error_word()
        return self._results(args, arguments, outs)

    def _record(
        self, recorder: Recorder, arguments: list[_Argument], bases: list[int], outs: list[_Out]
    ) -> None:
        """Keeps the call for the next with such arguments."""
        made = [
            Made(out.dtype, out.shape, out.dtype.bytes * math.prod(out.shape), spec.alias_of)
            for spec, out in zip(self._signature.results, outs, strict=True)
        ]
        arrays = [x.device for x in arguments if x.device is not None]
        self._recordings.insert(0, Recording(self._device, recorder, arrays, bases, made))
        del self._recordings[MOST_RECORDINGS:]

    def _places(
        self, symbols: dict[str, int], inputs: Sequence[int], *, on_device: bool
    ) -> list[_Out]:
        """
        Memory for the results: that of donated arguments, else a block each where they stay on the
        device, else one for all.
        """
        specs = self._signature.results
        kinds = [named_dtype(spec.dtype) for spec in specs]
        shapes = [tuple(dim.evaluate(symbols) for dim in spec.shape) for spec in specs]
        sizes = [
            0 if spec.alias_of is not None else d.bytes * math.prod(shape)
            for spec, d, shape in zip(specs, kinds, shapes, strict=True)
        ]
        offsets, total = packed(sizes)
        together = None if on_device else self._device.pool.take(total)
        outs: list[_Out] = []
        for k, spec in enumerate(specs):
            if spec.alias_of is not None:
                outs.append(_Out(None, inputs[spec.alias_of], kinds[k], shapes[k]))
            elif together is not None:
                outs.append(_Out(together, together.pointer + offsets[k], kinds[k], shapes[k]))
            else:
                block = self._device.pool.take(sizes[k])
                outs.append(_Out(block, block.pointer, kinds[k], shapes[k]))
        return outs

    def _check_error_word(self) -> None:
        """Raises for the first run-time error that a kernel has recorded."""
        if not self._plan.fails:
            return
        words = (ctypes.c_int64 * (abi.CTX_BYTES // 8))()
        self._device.to_host(words, self._error_word.pointer)
        site = words[abi.CTX_ERROR_SITE // 8]
        if site:
            self._device.fill_words(self._error_word.pointer, 0, abi.CTX_BYTES // 4)
            value, extent = words[abi.CTX_ERROR_VALUE // 8], words[abi.CTX_ERROR_EXTENT // 8]
            self._on_error(site, value, extent)

    def _results(
        self, args: Sequence[object], arguments: list[_Argument], outs: list[_Out]
    ) -> object:
        origin = next((a for a, x in zip(args, arguments, strict=True) if x.device), None)
        if origin is not None:
            make = exporter(origin)
            blocks = [(o, o.block) for o in outs if o.block is not None]
            made = [make(Result(self._device, block, o.dtype, o.shape)) for o, block in blocks]
        else:
            made = self._to_host([out for out in outs if out.block is not None])
        rest = iter(made)
        results: list[object] = []
        for spec, out in zip(self._signature.results, outs, strict=True):
            if spec.alias_of is None:
                results.append(next(rest))
            else:
                self._write_back(arguments[spec.alias_of], out)
                results.append(args[spec.alias_of])
        if self._signature.as_tuple:
            return tuple(results)
        return results[0] if results else None

    def _to_host(self, outs: list[_Out]) -> list[object]:
        import numpy as np

        arrays = [np.empty(out.shape, out.dtype.numpy) for out in outs]
        if outs:
            first = outs[0].pointer
            self._staging.download(first, [out.pointer - first for out in outs], arrays)
        return [array if array.ndim else array[()] for array in arrays]

    def _write_back(self, argument: _Argument, out: _Out) -> None:
        """A donated argument gets its result, where that was made in a copy on the device."""
        size_bytes = out.dtype.bytes * math.prod(out.shape)
        if argument.device is not None:
            if argument.device.pointer != out.pointer:
                self._device.copy(argument.device.pointer, out.pointer, size_bytes)
        elif argument.host is not None and size_bytes:
            self._device.to_host(argument.host, out.pointer)

    # what the launch plan asks for --------------------------------------------------------------

    def reserve(self, size_bytes: int) -> int:
        """The arena's address, with at least so many bytes."""
        if self._arena is None or self._arena.size_bytes < size_bytes:
            self._recordings.clear()  # their launches know the old arena
            self._arena = None
            self._arena = self._device.pool.take(size_bytes)
        return self._arena.pointer

    def launch(
        self,
        kernel: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[int | TensorMap],
        shared_bytes: int = 0,
    ) -> None:
        """Starts a kernel."""
        function = self._functions[kernel]
        self._device.launch(function, grid, block, arguments, shared_bytes)
        if self._recorder is not None:
            launched = Launched(function.handle, grid, block, tuple(arguments), shared_bytes)
            self._recorder.launch(launched)
            maps = [x for x in arguments if isinstance(x, TensorMap)]
            if not all(self._device.native.begins_with_address(x) for x in maps):
                self._recorder.repeatable = False

    def _depends_on_data(self) -> None:
        """What the host does now may differ at the next call."""
        if self._recorder is not None:
            self._recorder.repeatable = False

    def read_number(self, address: int, size_bytes: int) -> int:
        """The signed integer at an address on the device."""
        self._depends_on_data()
        word = (ctypes.c_char * size_bytes)()
        self._device.to_host(word, address)
        return int.from_bytes(word.raw, "little", signed=True)

    def library(
        self, routine: int, dtype: int, operands: Sequence[int], output: int, sizes: Sequence[int]
    ) -> int:
        """Fetches the operands of a library routine, lets the host compute, brings the result."""
        import numpy as np

        from mlc.runtime import library

        self._depends_on_data()

        def compute() -> None:
            kind = library.DTYPES[dtype].numpy
            arrays = [np.empty(shape, kind) for shape in library.operand_shapes(routine, sizes)]
            for array, address in zip(arrays, operands, strict=False):
                if array.nbytes:
                    self._device.to_host(array, address)
            found = library.computed(routine, dtype, arrays)
            if found.nbytes:
                self._device.to_device(output, np.ascontiguousarray(found))

        return library.status_of(compute)

    def write_number(self, address: int, value: int) -> None:
        """Stores an i64 on the device, in order with the launches."""
        self._depends_on_data()
        self._device.fill_words(address, value & 0xFFFFFFFF, 1)
        self._device.fill_words(address + 4, (value >> 32) & 0xFFFFFFFF, 1)


def _recorder(arguments: list[_Argument]) -> Recorder | None:
    """For a call that may be recorded: all arrays on the device, of a library that shares fast."""
    arrays = [x.device for x in arguments]
    shared = arrays and all(x is not None and exchange_api(type(x.origin)) for x in arrays)
    return Recorder() if shared else None


def _argument(spec: ArgSpec, value: object, position: int) -> _Argument:
    if spec.kind == "array" and on_device(value):
        array = device_array(value, f"argument {position}")
        taken = (
            array.row.name == spec.dtype
            and len(array.shape) == len(spec.dims)
            and (spec.layout == "general" or array.contiguous)
        )
        if not taken:
            raise _NotTakenError
        return _Argument(host=None, device=array, shape=array.shape, strides=array.strides)
    host = _scalar(spec, value) if spec.kind != "array" else _host_array(spec, value)
    return _Argument(host=host, device=None, shape=host.shape, strides=row_major(host.shape))


def _host_array(spec: ArgSpec, value: object) -> Array:
    """The array itself, or a copy without gaps."""
    import numpy as np

    if type(value) is not np.ndarray:
        raise _NotTakenError
    array: Array = value
    if array.dtype != named_dtype(spec.dtype).numpy or array.ndim != len(spec.dims):
        raise _NotTakenError
    if spec.donated and not (array.flags.c_contiguous and array.flags.writeable):
        raise _NotTakenError
    return array if array.flags.c_contiguous else array.copy(order="C")


def _scalar(spec: ArgSpec, value: object) -> Array:
    import numpy as np

    if type(value) is not _PYTHON_TYPES[spec.kind]:
        raise _NotTakenError
    try:
        with np.errstate(over="ignore"):
            wide = np.array(value, "int64") if spec.kind == "int" else np.array(value)
            narrow = wide.astype(named_dtype(spec.dtype).numpy)
    except OverflowError:
        raise _NotTakenError from None
    if spec.kind == "int" and narrow.dtype.kind == "i" and int(narrow) != value:
        raise _NotTakenError
    return narrow
