"""`mlc.block_kernel`: a function of one program of a grid, and its launch for all of them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn, cast, overload

import numpy as np

from mlc.dialects.errors import DTypeError, ShapeError
from mlc.frontend.block.value import is_whole_number
from mlc.frontend.call.compile import Compiled
from mlc.frontend.call.compile import compile as compiled_function
from mlc.frontend.call.spec import TensorSpec
from mlc.frontend.trace.definitions import keep_text
from mlc.frontend.trace.kinds import class_of, is_array
from mlc.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from mlc.frontend.call.lowered import Lowered
    from mlc.frontend.call.stats import Stats

HINTS = {"num_warps", "num_stages", "num_ctas", "maxnreg"}
"""What a launch may say about registers and threads; the compiler decides them itself."""

Kind = Literal["array", "number", "static"]
Grid = int | Sequence[int] | Callable[[dict[str, Any]], Any]


@dataclass(frozen=True)
class Parameter:
    """What a parameter is: the array or float of a name, or a value of the program."""

    name: str
    kind: Kind
    value: Any
    type: str = ""  # tells 1 from True and 1.0


@dataclass(frozen=True)
class How:
    """What a launch's program depends on, but for the types of its arrays."""

    grid: tuple[int, ...]
    parameters: tuple[Parameter, ...]
    shapes: tuple[tuple[int, ...], ...]


class BlockKernel:
    """A kernel: `kernel[grid](…)` runs the function once for each position of the grid."""

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.signature = inspect.signature(function)
        self.constants = {
            name for name, p in self.signature.parameters.items() if _is_constexpr(p.annotation)
        }
        self._options = dict(options)
        self._compiled: dict[str | None, Compiled[..., Any]] = {}

    def __getitem__(self, grid: Grid) -> Launch:
        """The launch of a grid: a number, up to three, or a function of the arguments by name."""
        return Launch(self, grid)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """A kernel has no result of its own."""
        name = self.function.__name__
        raise TypeError(f"{name} is a block kernel: say its grid, {name}[grid](…)")

    def __mlc_function__(self) -> Callable[..., Any]:
        """The Python function, for a kernel that calls this one."""
        return self.function

    def __repr__(self) -> str:
        return f"<block kernel {self.function.__qualname__}>"

    def compiled(self, target: str | None) -> Compiled[..., Any]:
        """The function of a whole grid, for a target."""
        found = self._compiled.get(target)
        if found is None:
            from mlc.frontend.block.program import Program

            whole = Program(self.function).run
            found = compiled_function(
                target=target,
                static=("how",),
                threads=self._options.get("threads"),
                numerics=self._options.get("numerics", "standard"),
            )(whole)
            found.__name__ = self.function.__name__
            self._compiled[target] = found
        return found

    def stats(self) -> list[Stats]:
        """Calls and compilations, for each target that there was."""
        return [compiled.stats() for compiled in self._compiled.values()]

    @property
    def target(self) -> str | None:
        """The target that the kernel was declared for."""
        return self._options.get("target")


class Launch:
    """A kernel with its grid."""

    def __init__(self, kernel: BlockKernel, grid: Grid) -> None:
        self.kernel = kernel
        self.grid = grid

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Runs the grid's programs, in no order, on the device where the arrays are."""
        target, given = self._given(args, kwargs)
        if 0 not in given[-1].grid:
            self.kernel.compiled(target)(*given)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The program of this launch, to look at; a `TensorSpec` stands for an array."""
        target, given = self._given(args, kwargs)
        return self.kernel.compiled(target).lower(*given)

    def reference(self, *args: Any, **kwargs: Any) -> None:
        """Runs the launch in the reference interpreter."""
        target, given = self._given(args, kwargs)
        if 0 not in given[-1].grid:
            self.kernel.compiled(target).reference(*given)

    def _given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str | None, Any]:
        """The target, and the arguments of the function of a whole grid."""
        kernel = self.kernel
        rest = {name: value for name, value in kwargs.items() if name not in HINTS}
        bound = kernel.signature.bind(*args, **rest)
        bound.apply_defaults()
        arguments = bound.arguments
        made = _Arguments()
        parameters = tuple(
            made.parameter(name, value, constant=name in kernel.constants)
            for name, value in arguments.items()
        )
        grid = _grid(kernel, self.grid, arguments)
        shapes = tuple(map(_shape, made.arrays.values()))
        target = kernel.target
        if target is None and any(_on_device(array) for array in made.arrays.values()):
            target = "cuda"
        return target, (made.arrays, made.numbers, How(grid, parameters, shapes))


class _Arguments:
    """Arrays and floats of a launch. An array that is given twice is one array."""

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}
        self.numbers: dict[str, float] = {}
        self.names: dict[int, str] = {}  # of arrays

    def parameter(self, name: str, value: Any, *, constant: bool) -> Parameter:
        """What the parameter is."""
        kind = class_of(value)
        if constant or value is None or issubclass(kind, bool | str | np.dtype | type):
            return Parameter(name, "static", value, kind.__name__)
        if is_whole_number(value):
            return Parameter(name, "static", int(value), "int")
        if issubclass(kind, float | np.floating):
            self.numbers[name] = float(value)
            return Parameter(name, "number", name)
        if id(value) not in self.names or isinstance(value, TensorSpec):
            self.names[id(value)] = name
            self.arrays[name] = memory_of(name, value)
        return Parameter(name, "array", self.names[id(value)])


def memory_of(name: str, value: Any) -> Any:
    """The array as it lies in memory: elements of a strided one with those between."""
    if isinstance(value, TensorSpec):
        return value
    if _on_device(value):
        from mlc.runtime.cuda.dlpack import view_of

        view = view_of(value, f"argument {name!r}")
        if view.contiguous:
            return value
        return replace(view, shape=(_reach(name, view.shape, view.strides),), strides=(1,))
    from mlc.runtime.interop import as_array

    array = value if is_array(value) else as_array(value, f"argument {name!r}")
    if array.flags.c_contiguous:
        return array
    parts = [divmod(stride, array.itemsize) for stride in array.strides]
    if any(rest for _, rest in parts):
        raise DTypeError(
            f"argument {name!r} has strides {array.strides}; expected whole elements of"
            f" {array.itemsize} bytes. Pass {name}.copy()."
        )
    reach = _reach(name, array.shape, [stride for stride, _ in parts])
    return np.lib.stride_tricks.as_strided(array, (reach,), (array.itemsize,))


def _reach(name: str, shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from an array's first to its last."""
    if any(stride < 0 < n for n, stride in zip(shape, strides, strict=True)):
        raise DTypeError(
            f"argument {name!r} has strides {tuple(strides)}; expected none below 0."
            f" Pass {name}.copy()."
        )
    last = sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    return last + 1 if 0 not in shape else 0


def _on_device(value: Any) -> bool:
    if is_array(value) or isinstance(value, TensorSpec):
        return False
    from mlc.runtime.cuda.dlpack import on_device

    return on_device(value)


def _shape(array: Any) -> tuple[int, ...]:
    if not isinstance(array, TensorSpec):
        return tuple(map(int, array.shape))
    sizes = [dim.constant for dim in array.dims]
    if None in sizes:
        raise ShapeError(f"{array}: a block kernel's arrays have known sizes")
    return tuple(size or 0 for size in sizes)


def _grid(kernel: BlockKernel, grid: Grid, arguments: Mapping[str, Any]) -> tuple[int, ...]:
    if callable(grid):
        grid = grid(dict(arguments))
    given = cast("Any", grid)
    sizes: list[Any] = [given] if is_whole_number(given) else []
    if isinstance(given, list | tuple):
        sizes = list(cast("Sequence[Any]", given))
    if not 1 <= len(sizes) <= 3 or not all(is_whole_number(n) and n >= 0 for n in sizes):
        name = kernel.function.__name__
        message = f"{name}[grid]: the grid is {given!r}; expected one to three numbers >= 0"
        raise ShapeError(message)
    return tuple(map(int, sizes))


def _is_constexpr(annotation: Any) -> bool:
    from mlc.frontend.block.language import constexpr

    name = annotation if isinstance(annotation, str) else ""
    return annotation is constexpr or name.rpartition(".")[2] == "constexpr"


@overload
def block_kernel(function: Callable[..., Any], /, **options: Any) -> BlockKernel: ...


@overload
def block_kernel(**options: Any) -> Callable[[Callable[..., Any]], BlockKernel]: ...


def block_kernel(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """
    A kernel written for one program of a grid, with the names of `mlc.block.language`:

        @mlc.block_kernel
        def add(z_ptr, x_ptr, y_ptr, n, BLOCK: tl.constexpr):
            at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            inside = at < n
            x = tl.load(x_ptr + at, mask=inside)
            y = tl.load(y_ptr + at, mask=inside)
            tl.store(z_ptr + at, x + y, mask=inside)

        add[(mlc.block.cdiv(n, 1000),)](z, x, y, n, BLOCK=1000)

    Arrays are their memory, integers and `tl.constexpr` are part of the program, floats are not.
    Blocks may have any length. It runs on the GPU where its arrays are, or on the CPU; `target=`
    names another one. `threads=` and `numerics=` are those of `mlc.compile`. What a program stores
    is in the arrays when the call returns; two programs must not store to one element.
    """
    accepted = ("target", "threads", "numerics")
    if unknown := sorted(set(options) - set(accepted)):
        raise TypeError(
            f"mlc.block_kernel has no option {unknown[0]!r}; expected one of {', '.join(accepted)}"
        )

    def decorate(decorated: Callable[..., Any]) -> BlockKernel:
        if not callable(decorated) or isinstance(decorated, type):
            raise TypeError(f"mlc.block_kernel expects a function, found {decorated!r}")
        keep_text(decorated)
        return BlockKernel(decorated, options)

    return decorate if function is None else decorate(function)
