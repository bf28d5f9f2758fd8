"""A GPU program as a callable: arguments onto the device, the launch plan, results back."""

from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

from mlc.dialects import abi
from mlc.dialects.dtypes import DType, named_dtype
from mlc.dialects.launch import ARENA, ERROR_WORD, FIRST_SIZE, LaunchPlan, TensorMap
from mlc.dialects.signature import EntrySignature, solve, solved
from mlc.lazy_dataclass import dataclass
from mlc.runtime import layout
from mlc.runtime.cuda.arguments import PYTHON_TYPES, Argument, NotTakenError, argument_of
from mlc.runtime.cuda.dlpack import DeviceArray, View, exporter
from mlc.runtime.cuda.driver import Device
from mlc.runtime.cuda.entry import (
    NUMBER_DTYPES,
    Entry,
    Made,
    Number,
    Record,
    key_of,
    recordable,
    work_stream,
)
from mlc.runtime.cuda.interpret import ProgramError, run_steps
from mlc.runtime.cuda.native import Function
from mlc.runtime.cuda.pool import Block, current_stream
from mlc.runtime.cuda.recording import Address, Launched, Recorder
from mlc.runtime.cuda.replay import Replay
from mlc.runtime.cuda.staging import packed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]

OnError = Callable[[int, int, int], NoReturn]
"""(site, value, extent) of the error word; raises what NumPy raises, at the user's line."""

ArenaBytes = Callable[[Sequence[int]], int]
"""Values of the symbols -> bytes of what is between kernels."""

MOST_REPLAYS = 64  # calls of a program with different sizes, on different streams


@dataclass(frozen=True)
class _Out:
    """A result's memory."""

    block: Block | None  # None: it lies where a donated argument does
    pointer: int
    dtype: DType
    shape: tuple[int, ...]


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
        arena_bytes: ArenaBytes | None = None,
    ) -> None:
        self._device, self._plan, self._signature = on, plan, signature
        self._arena_bytes = arena_bytes
        self._solution = solve(signature)
        self._slow, self._on_error = slow, on_error
        self._arenas: dict[int, Block] = {}  # by stream
        self._numbers: dict[int, Block] = {}  # by stream: the places of numbers among the arguments
        self._calls = 0
        self._replays: dict[tuple[int, ...], Replay] = {}  # by stream and sizes, the latest last
        self._recorder = Recorder()
        self._stream = 0  # of the call under way
        with on.active():
            self._functions = {name: on.native.load(text, name) for name, text in ptx.items()}
            self._error_word = on.host_words(abi.CTX_BYTES)
            self._constants = [self._upload(data) for data in self._plan.constants]
            on.native.synchronize(0)
        self._entry = Entry(
            len(signature.args),
            len(signature.results),
            as_tuple=signature.as_tuple,
            error_at=self._error_word.address + abi.CTX_ERROR_SITE if plan.fails else None,
        )
        self._builtin: weakref.ref[Callable[..., object]] | None = None
        if plan.fails:
            on.checked.add(self)

    def _upload(self, data: bytes) -> Block:
        block = self._device.pool.take(len(data))
        if data:
            source = ctypes.create_string_buffer(data, len(data))
            at = ctypes.addressof(source)
            self._device.native.copy_in(block.pointer, at, len(data), 0)
        return block

    def set_slow(self, slow: Callable[..., object]) -> None:
        """Replace the callable that takes what this program does not."""
        self._slow = slow

    @property
    def calls(self) -> int:
        """The calls that this program has taken."""
        return self._calls + self._entry.calls

    @property
    def builtin(self) -> Callable[..., object]:
        """The callable that costs no Python frame; it keeps the program."""
        if layout.layout_fault() is not None:
            return self
        known = None if self._builtin is None else self._builtin()
        if known is None:
            known = self._entry.builtin("program", self, self)
            self._builtin = weakref.ref(known)
        return known

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Run the program, or the slow callable when it does not take the arguments."""
        self.check_error()
        try:
            arguments, symbols = self._checked(args, kwargs)
        except NotTakenError:
            return self._slow(*args, **kwargs)
        self._calls += 1
        with self._device.active():
            self._entry.set_busy(True)
            try:
                return self._run(args, arguments, symbols)
            except MemoryError as error:
                raise MemoryError(f"{error}; {self._needs(arguments, symbols)}") from None
            finally:
                self._entry.set_busy(False)

    def call_at(
        self, inputs: Sequence[int], sizes: Sequence[int], outs: Sequence[int], stream: int
    ) -> None:
        """
        A call on memory of the device, whose addresses nobody checks: multiples of
        `abi.POINTER_ALIGNMENT`; arrays without gaps; a size for each symbol. A result that is
        written over an argument has its address.
        """
        self.check_error()
        self._calls += 1
        with self._device.active():
            self._entry.set_busy(True)
            try:
                self._stream = stream
                self._started(list(sizes), [*inputs, *outs])
            finally:
                self._entry.set_busy(False)

    def _needs(self, arguments: Sequence[Argument], symbols: Mapping[str, int]) -> str:
        """What a call takes, by the plan's parts."""
        copied = sum(x.host.nbytes for x in arguments if x.host is not None and not x.number)
        results = sum(
            named_dtype(x.dtype).bytes * math.prod(dim.evaluate(symbols) for dim in x.shape)
            for x in self._signature.results
            if x.alias_of is None
        )
        said = f"the call takes {copied:,} bytes for arguments of the host, {results:,} for results"
        if self._arena_bytes is None:
            return said
        arena = self._arena_bytes([symbols[name] for name in self._signature.symbols])
        return f"{said}, {arena:,} between kernels (peak_bytes= of mlc.compile limits these)"

    # arguments --------------------------------------------------------------------------------

    def _checked(
        self, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[list[Argument], dict[str, int]]:
        specs = self._signature.args
        if kwargs or len(args) != len(specs):
            raise NotTakenError
        found = [argument_of(s, x, k) for k, (s, x) in enumerate(zip(specs, args, strict=True))]
        symbols = solved(self._solution, [x.shape for x in found])
        if symbols is None or not self._are_apart(found):
            raise NotTakenError
        return found, symbols

    def _are_apart(self, arguments: list[Argument]) -> bool:
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

    def _on_stream(self, arguments: list[Argument]) -> int:
        """The caller's stream, on which all arguments are ready."""
        views = [x.device for x in arguments if x.device is not None]
        streams = {type(x.origin): work_stream(type(x.origin)) for x in views}
        known = [stream for stream in streams.values() if stream is not None]
        stream = known[0] if known else current_stream()
        for view in views:
            ready = view.ready_on
            if streams[type(view.origin)] != stream and ready not in (None, stream):
                self._device.native.follow(stream, ready)
        return stream

    def _placed(self, arguments: list[Argument], keep: list[Block]) -> list[int]:
        """
        Where the arguments are on the device, copied there if they must be; of numbers the bits,
        which are stored there by kernels.
        """
        hosts = [x.host for x in arguments if x.host is not None and not x.number]
        pointers = iter(self._device.staging.upload(hosts, keep, self._stream))
        found: list[int] = []
        for x in arguments:
            if x.device is not None:
                found.append(self._in_place(x.device, keep))
            else:
                found.append(x.bits if x.number else next(pointers))
        return found

    def _stored(self, values: list[Address]) -> list[int]:
        """Has kernels store the numbers among the arguments; where each argument is."""
        found: list[int] = list(values)
        for k, spec in enumerate(self._signature.args):
            if spec.kind != "array":
                numbers = self._numbers.get(self._stream)
                if numbers is None:
                    total = abi.POINTER_ALIGNMENT * len(values)
                    numbers = self._device.pool.take(total, self._stream)
                    self._numbers[self._stream] = numbers
                found[k] = numbers.pointer + abi.POINTER_ALIGNMENT * k
                self.write_number(found[k], values[k])
        return found

    def _in_place(self, array: View, keep: list[Block]) -> int:
        """Where an array is; a copy where kernels cannot begin there."""
        if array.pointer % abi.POINTER_ALIGNMENT == 0 or not array.contiguous:
            return array.pointer
        size_bytes = array.row.bytes * math.prod(array.shape)
        block = self._device.pool.take(size_bytes, self._stream)
        keep.append(block)
        self._device.native.copy(block.pointer, array.pointer, size_bytes, self._stream)
        return block.pointer

    # one call ---------------------------------------------------------------------------------

    def _run(
        self, args: Sequence[object], arguments: list[Argument], symbols: dict[str, int]
    ) -> object:
        signature = self._signature
        self._stream = self._on_stream(arguments)
        keep: list[Block] = []
        sizes = [symbols[name] for name in signature.symbols]
        sizes += [arguments[k].strides[axis] for k, axis in signature.strided]
        inputs = self._placed(arguments, keep)
        outs = self._places(symbols, inputs, on_device=any(a.device for a in arguments))
        bases = [*inputs, *(out.pointer for out in outs)]
        replay = self._started(sizes, bases)
        if replay is not None:
            self._record(replay, arguments, outs)
        return self._results(args, arguments, outs)

    def _started(self, sizes: list[int], bases: list[int]) -> Replay | None:
        """Starts a call; what makes it again, unless that depends on data."""
        key = (self._stream, *sizes)
        replay = self._replays.pop(key, None)
        if replay is None:
            replay = self._followed(sizes, bases)
        else:
            replay.start(bases)
        if replay is not None:
            self._replays[key] = replay
            while len(self._replays) > MOST_REPLAYS:
                del self._replays[next(iter(self._replays))]
                self._entry.keep(list(self._replays.values()))
        return replay

    def _followed(self, sizes: list[int], bases: list[int]) -> Replay | None:
        """Follows the launch plan; what makes the call again, unless that depends on data."""
        plan = self._plan
        registers = [0] * plan.registers
        for register, value in plan.known:
            registers[register] = value
        registers[FIRST_SIZE : FIRST_SIZE + len(sizes)] = sizes
        recorder = self._recorder = Recorder()
        places = self._stored([recorder.address(x, k) for k, x in enumerate(bases)])
        registers[plan.first_input : plan.first_input + len(bases)] = places
        for k, block in enumerate(self._constants):
            registers[plan.first_constant + k] = block.pointer
        registers[ERROR_WORD] = self._error_word.address
        if self._stream in self._arenas:
            registers[ARENA] = self._arenas[self._stream].pointer
        try:
            run_steps(plan.steps, registers, self)
        except ProgramError as error:
            self._on_error(error.site, error.value, error.extent)
        if not recorder.repeatable:
            return None
        return Replay(self._device, recorder.launches, bases, self._stream)

    def _record(self, replay: Replay, arguments: list[Argument], outs: list[_Out]) -> None:
        """Lets native code make the next call with such arguments."""
        given: list[View | Number] = []
        for spec, x in zip(self._signature.args, arguments, strict=True):
            if x.device is not None:
                given.append(x.device)
            elif x.number and spec.dtype in NUMBER_DTYPES:
                given.append(Number(PYTHON_TYPES[spec.kind], spec.dtype))
            else:
                return
        if recordable(given) and not self._entry.knows(key_of(replay.stream, given)):
            specs = self._signature.results
            made = [Made(o.dtype, o.shape, s.alias_of) for s, o in zip(specs, outs, strict=True)]
            self._entry.add(Record(self._device.pool, replay, given, made))

    def _places(
        self, symbols: dict[str, int], inputs: Sequence[int], *, on_device: bool
    ) -> list[_Out]:
        """
        Memory for the results: that of donated arguments, else a block each where they stay on the
        device, else one for all.
        """
        specs, pool, stream = self._signature.results, self._device.pool, self._stream
        kinds = [named_dtype(spec.dtype) for spec in specs]
        shapes = [tuple(dim.evaluate(symbols) for dim in spec.shape) for spec in specs]
        sizes = [
            0 if spec.alias_of is not None else d.bytes * math.prod(shape)
            for spec, d, shape in zip(specs, kinds, shapes, strict=True)
        ]
        offsets, total = packed(sizes)
        together = None if on_device else pool.take(total, stream)
        outs: list[_Out] = []
        for k, spec in enumerate(specs):
            if spec.alias_of is not None:
                outs.append(_Out(None, inputs[spec.alias_of], kinds[k], shapes[k]))
            elif together is not None:
                outs.append(_Out(together, together.pointer + offsets[k], kinds[k], shapes[k]))
            else:
                block = pool.take(sizes[k], stream)
                outs.append(_Out(block, block.pointer, kinds[k], shapes[k]))
        return outs

    def check_error(self) -> None:
        """Raises for the first run-time error that a kernel of an earlier call has recorded."""
        words = self._error_word.words
        if not words[abi.CTX_ERROR_SITE // 8]:
            return
        with self._device.active():
            self._device.synchronize()  # what belongs to the site has been written then
            offsets = (abi.CTX_ERROR_SITE, abi.CTX_ERROR_VALUE, abi.CTX_ERROR_EXTENT)
            site, value, extent = (words[offset // 8] for offset in offsets)
            words[abi.CTX_ERROR_SITE // 8] = 0
        self._on_error(site, value, extent)

    def _results(
        self, args: Sequence[object], arguments: list[Argument], outs: list[_Out]
    ) -> object:
        origin = next((a for a, x in zip(args, arguments, strict=True) if x.device), None)
        if origin is not None:
            make = exporter(origin)
            blocks = [(o, o.block) for o in outs if o.block is not None]
            made = [make(DeviceArray.of(block, o.dtype, o.shape)) for o, block in blocks]
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
        if origin is None:
            self._device.native.synchronize(self._stream)
            self.check_error()
        if self._signature.as_tuple:
            return tuple(results)
        return results[0] if results else None

    def _to_host(self, outs: list[_Out]) -> list[object]:
        import numpy as np

        arrays = [np.empty(out.shape, out.dtype.numpy) for out in outs]
        if outs:
            first = outs[0].pointer
            offsets = [out.pointer - first for out in outs]
            self._device.staging.download(first, offsets, arrays, self._stream)
        return [array if array.ndim else array[()] for array in arrays]

    def _write_back(self, argument: Argument, out: _Out) -> None:
        """A donated argument gets its result, where that was made in a copy on the device."""
        size_bytes, native = out.dtype.bytes * math.prod(out.shape), self._device.native
        if argument.device is not None:
            if argument.device.pointer != out.pointer:
                native.copy(argument.device.pointer, out.pointer, size_bytes, self._stream)
        elif argument.host is not None and size_bytes:
            native.copy_out(argument.host.ctypes.data, out.pointer, size_bytes, self._stream)

    # what the launch plan asks for --------------------------------------------------------------

    def reserve(self, size_bytes: int) -> int:
        """The arena's address, with at least so many bytes."""
        stream, found = self._stream, self._arenas.get(self._stream)
        if found is None or found.size_bytes < size_bytes:
            # launches recorded before know the old arena
            self._replays = {k: x for k, x in self._replays.items() if x.stream != stream}
            self._entry.keep(list(self._replays.values()))
            found = None
            self._arenas.pop(stream, None)
            found = self._arenas[stream] = self._device.pool.take(size_bytes, stream)
        return found.pointer

    def launch(
        self,
        kernel: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[int | TensorMap],
        shared_bytes: int = 0,
    ) -> None:
        """Starts a kernel."""
        self._launch(self._functions[kernel], grid, block, arguments, shared_bytes)

    def write_number(self, address: int, value: int) -> None:
        """Stores an i64 on the device, in order with the launches."""
        self._launch(self._device.number_writer, (1, 1, 1), (1, 1, 1), (address, value))

    def _launch(
        self,
        function: Function,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[int | TensorMap],
        shared_bytes: int = 0,
    ) -> None:
        native, recorder = self._device.native, self._recorder
        native.launch(function, grid, block, arguments, self._stream, shared_bytes)
        recorder.launch(Launched(function.handle, grid, block, tuple(arguments), shared_bytes))
        maps = [x for x in arguments if isinstance(x, TensorMap)]
        if not all(native.begins_with_address(x) for x in maps):
            recorder.repeatable = False

    def read_number(self, address: int, size_bytes: int) -> int:
        """The signed integer at an address on the device."""
        self._recorder.repeatable = False
        word = (ctypes.c_char * size_bytes)()
        self._fetch(ctypes.addressof(word), address, size_bytes)
        return int.from_bytes(word.raw, "little", signed=True)

    def _fetch(self, target: int, address: int, size_bytes: int) -> None:
        """Fills memory of the host."""
        self._device.native.copy_out(target, address, size_bytes, self._stream)
        self._device.native.synchronize(self._stream)

    def library(
        self, routine: int, dtype: int, operands: Sequence[int], output: int, sizes: Sequence[int]
    ) -> int:
        """Fetches the operands of a library routine, lets the host compute, brings the result."""
        import numpy as np

        from mlc.dialects.dtypes import DTYPES
        from mlc.runtime import library

        self._recorder.repeatable = False

        def compute() -> None:
            kind = DTYPES[dtype].numpy
            arrays = [np.empty(shape, kind) for shape in library.operand_shapes(routine, sizes)]
            for array, address in zip(arrays, operands, strict=False):
                if array.nbytes:
                    self._fetch(array.ctypes.data, address, array.nbytes)
            found = np.ascontiguousarray(library.computed(routine, dtype, arrays))
            if found.nbytes:
                native, at = self._device.native, found.ctypes.data
                native.copy_in(output, at, found.nbytes, self._stream)
                native.synchronize(self._stream)

        return library.status_of(compute)
