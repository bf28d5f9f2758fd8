"""
The reference interpreter: what a program at the levels tensor, plan and tiles means, on NumPy
arrays (D23).

Each op's own `reference` is the meaning; the interpreter only turns symbolic shapes into concrete
ones and walks regions. No code is generated, so it judges every pass and every lowering.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.dims import Shape, shape_of
from mlc.dialects.errors import CompilerBug, DTypeError, PlanError, ShapeError
from mlc.dialects.plan import KernelOp
from mlc.dialects.program import entry_function
from mlc.dialects.tensor.bind import BindOp
from mlc.dialects.tensor.calls import CallOp, FunctionUse, function_named, sizes_of
from mlc.dialects.tensor.control import ControlOp, ForOp, IfOp, WhileOp, YieldOp
from mlc.dialects.tensor.create import IotaOp, SizeOp
from mlc.dialects.tensor.monoid import MONOIDS
from mlc.dialects.tensor.op import TensorOp, element_dtype
from mlc.dialects.tensor.placing import DynamicSliceOp, PadOp
from mlc.dialects.tensor.room import RoomOp
from mlc.dialects.tensor.rule import RuleOp
from mlc.dialects.tensor.shape import BroadcastOp, ReshapeOp, SliceOp
from mlc.dialects.tensor.stream import StreamOp
from mlc.dialects.tensor.tiles import TileOp, TilesOp
from mlc.dialects.tensor.window import ConvOp, WindowOp
from mlc.dialects.tensor.within import WithinOp
from mlc.dialects.tile.kernel import CallOp as TileCallOp
from mlc.dialects.tile.kernel import KernelOp as TileKernelOp
from mlc.dialects.tile.kernel import called
from mlc.dialects.tile.types import view_of

Array = NDArray[Any]
Observer = Callable[[Operation, Array], None]

CHUNKS = 3
"""Of the trips of a loop whose region combines states, so that it is run too."""


def interpret(
    module: ModuleOp,
    arrays: Sequence[Array],
    sizes: Mapping[str, int] | None = None,
    *,
    observe: Observer | None = None,
    workers: int = 1,
    seed: int = 0,
) -> list[Array]:
    """
    The results of the module's function for `arrays`, as new C-contiguous arrays. Tile programs are
    run by so many workers, in an order that `seed` fixes.

    `sizes` gives the symbols' values; a symbol that is the size of an argument's axis may be left
    out. `observe(op, value)` sees every op's result, in order.
    """
    function = entry_function(module)
    block = function.body.block
    if len(arrays) != len(block.args):
        raise TypeError(
            f"{function.sym_name.data} takes {len(block.args)} arrays, found {len(arrays)}"
        )
    symbols = dict(sizes or {})
    inputs = [np.asarray(x) for x in arrays]
    for argument, array in zip(block.args, inputs, strict=True):
        _bind_sizes(shape_of(argument.type), array, symbols)
    for position, (argument, array) in enumerate(zip(block.args, inputs, strict=True)):
        _check_argument(position, argument, array, symbols)
    frame = _Frame(symbols, observe, workers=workers, seed=seed)
    with np.errstate(all="ignore"):
        results = frame.run(block, inputs)
    return [np.array(x, order="C") for x in results]


def interpret_kernel(
    kernel: TileKernelOp,
    arrays: Sequence[Array],
    sizes: Mapping[str, int] | None = None,
    *,
    workers: int = 1,
    seed: int = 0,
) -> list[Array]:
    """What a tile program writes, given the arrays that it reads; else as `interpret`."""
    from mlc.runtime.tiles.run import run_kernel  # few programs need it

    symbols = dict(sizes or {})
    for argument, array in zip(kernel.inputs, arrays, strict=True):
        _bind_sizes(view_of(argument).shape, array, symbols)
    with np.errstate(all="ignore"):
        return run_kernel(kernel, arrays, symbols, _InPlan(), workers=workers, seed=seed)


class _InPlan:
    """Runs the plan's ops in tile programs."""

    def block(
        self, block: Block, arguments: Sequence[Array], symbols: Mapping[str, int]
    ) -> list[Array]:
        """What a block yields."""
        return _Frame(symbols, None).run(block, arguments)

    def op(self, op: TensorOp, operands: Sequence[Array], symbols: Mapping[str, int]) -> Array:
        """One op's result."""
        frame = _Frame(symbols, None)
        frame.values.update(zip(op.operands, operands, strict=True))
        return frame.evaluate(op)


class _Frame:
    """The values of one run, with the symbols' values."""

    def __init__(
        self,
        symbols: Mapping[str, int],
        observe: Observer | None,
        *,
        workers: int = 1,
        seed: int = 0,
    ) -> None:
        self.symbols = symbols
        self.observe = observe
        self.workers, self.seed = workers, seed
        self.values: dict[SSAValue, Array] = {}

    def run(self, block: Block, arguments: Sequence[Array]) -> list[Array]:
        """The values the block ends with."""
        self.values.update(zip(block.args, arguments, strict=True))
        for op in block.ops:
            if isinstance(op, TensorOp):
                self.values[op.results[0]] = value = self.evaluate(op)
                if self.observe is not None:
                    self.observe(op, value)
            elif isinstance(op, YieldOp | ReturnOp):
                return [self.values[x] for x in op.operands]
            elif isinstance(op, ControlOp):
                self.values.update(zip(op.results, self.control(op), strict=True))
            elif isinstance(op, KernelOp):
                inputs = [self.values[x] for x in op.operands]
                self.values.update(zip(op.results, self.run(op.block, inputs), strict=True))
            elif isinstance(op, TileCallOp):
                self.values.update(zip(op.results, self.tile_call(op), strict=True))
            elif isinstance(op, CallOp):
                self.values.update(zip(op.results, self.call(op), strict=True))
            elif isinstance(op, FunctionUse):
                raise PlanError(f"{op.name} {op.callee}: the pass expand-transforms comes first")
            else:
                raise CompilerBug(
                    f"the interpreter reads the levels tensor, plan and tiles; found '{op.name}'"
                )
        raise CompilerBug("a block ends without mlc.yield or func.return")

    def call(self, op: CallOp) -> list[Array]:
        """What a function of the module gives."""
        function = function_named(op)
        assert function is not None
        sizes = sizes_of(function, op.properties).items()
        symbols = {name: dim.evaluate(self.symbols) for name, dim in sizes}
        frame = _Frame(symbols, self.observe, workers=self.workers, seed=self.seed)
        return frame.run(function.body.block, [self.values[x] for x in op.inputs])

    def tile_call(self, op: TileCallOp) -> list[Array]:
        """What a tile program writes."""
        from mlc.runtime.tiles.run import run_kernel

        kernel = called(op)
        assert kernel is not None
        found = run_kernel(
            kernel,
            [self.values[x] for x in op.inputs],
            self.symbols,
            _InPlan(),
            workers=self.workers,
            seed=self.seed,
        )
        return [x.reshape(self.shape(out)) for x, out in zip(found, op.outs, strict=True)]

    def control(self, op: ControlOp) -> list[Array]:
        """The results of an op with regions."""
        carried = [self.values[x] for x in op.starts]
        match op:
            case ForOp():
                for trip in range(int(self.values[op.count])):
                    carried = self.run(op.body.block, [np.asarray(trip, np.int64), *carried])
            case WhileOp():
                while self.run(op.condition.block, carried)[0]:
                    carried = self.run(op.body.block, carried)
            case IfOp():
                taken = op.then if self.values[op.condition] else op.otherwise
                carried = self.run(taken.block, [])
            case RuleOp():
                carried = self.run(op.body.block, carried)
            case TilesOp():
                carried = self.tiles(op, carried)
            case BindOp():
                self.symbols = {**self.symbols, op.symbol.data: int(self.values[op.x])}
            case _:
                raise CompilerBug(f"the interpreter does not know '{op.name}'")
        return carried

    def tiles(self, op: TilesOp, starts: list[Array]) -> list[Array]:
        """
        The results of a tile loop: its trips in order, in several chunks where states are combined.
        """
        placed = [np.empty(self.shape(x), element_dtype(x).numpy) for x in op.placed]
        for k in op.meeting:
            dtype = element_dtype(op.placed[k])
            placed[k][...] = MONOIDS[op.monoids[k]].identity(dtype)[0]
        extents = [n.evaluate(self.symbols) for n in op.extents]
        ranges = [range(0, n, step) for n, step in zip(extents, op.steps, strict=True)]
        trips = list(itertools.product(*ranges))
        count = CHUNKS if op.combine is not None else 1
        if op.parts is not None:
            count = op.parts.value.data
        bounds = [len(trips) * k // count for k in range(count + 1)]
        states = [
            self.trips(op, trips[low:high], starts, placed)
            for low, high in itertools.pairwise(bounds)
        ]
        if op.parts is not None:
            return [*placed, *(np.stack(x) for x in zip(*states, strict=True))]
        carried = states[0]
        for other in states[1:]:
            assert op.combine is not None
            carried = self.run(op.combine.block, [*carried, *other])
        return [*placed, *carried]

    def trips(
        self,
        op: TilesOp,
        trips: Sequence[tuple[int, ...]],
        carried: list[Array],
        placed: Sequence[Array],
    ) -> list[Array]:
        """What is carried after some trips of a tile loop, which write their tiles."""
        extents = [n.evaluate(self.symbols) for n in op.extents]
        outer = self.symbols
        for at in trips:
            sizes = [min(s, n - k) for s, n, k in zip(op.steps, extents, at, strict=True)]
            named = {name: n for name, n in zip(op.symbols, sizes, strict=True) if name}
            self.symbols = {**outer, **named}
            positions = [np.asarray(k, np.int64) for k in at]
            places = [
                whole[_place(whole.ndim, axes, at, sizes)]
                for whole, axes in zip(placed, op.axes, strict=True)
            ]
            so_far = [np.array(places[k]) for k in op.meeting]
            results = self.run(op.body.block, [*positions, *so_far, *carried])
            carried = results[len(placed) :]
            for place, tile in zip(places, results, strict=False):
                place[...] = tile
        self.symbols = outer
        return carried

    def shape(self, value: SSAValue) -> tuple[int, ...]:
        """The concrete shape of a value."""
        return tuple(dim.evaluate(self.symbols) for dim in shape_of(value.type))

    def evaluate(self, op: TensorOp) -> Array:
        """One op's result, by its `reference`."""
        operands = [self.values[x] for x in op.operands]
        match op:
            case SizeOp():
                return np.asarray(op.dim.evaluate(self.symbols), dtype=np.int64)
            case IotaOp():
                return op.reference_at(self.shape(op.result))
            case StreamOp():
                return self.run(op.block, operands)[0]
            case BroadcastOp() | ReshapeOp():
                return op.reference_at(operands[0], self.shape(op.result))
            case SliceOp():
                offsets = tuple(offset.evaluate(self.symbols) for offset, _ in op.starts())
                return op.reference_at(operands[0], self.shape(op.result), offsets)
            case PadOp():
                low, high = (
                    tuple(dim.evaluate(self.symbols) for dim in widths.data)
                    for widths in (op.low, op.high)
                )
                return op.reference_at(operands[0], operands[1], low, high)
            case ConvOp():
                return op.reference_at(operands, self.shape(op.result))
            case WindowOp():
                window = tuple(dim.evaluate(self.symbols) for dim in op.window.data)
                return op.reference_at(operands[0], self.shape(op.result), window)
            case WithinOp() | RoomOp():
                return op.reference_at(operands[0], op.extent.evaluate(self.symbols))
            case DynamicSliceOp() | TileOp():
                return op.reference_at(operands, self.shape(op.result))
            case _:
                return np.asarray(op.reference(*operands), dtype=op.dtype.numpy)


def _place(
    rank: int, axes: Sequence[int], at: Sequence[int], sizes: Sequence[int]
) -> tuple[slice, ...]:
    """Where a tile lies in a result: all of the axes that no loop axis has."""
    place = [slice(None)] * rank
    for axis, k, n in zip(axes, at, sizes, strict=True):
        if axis >= 0:
            place[axis] = slice(k, k + n)
    return tuple(place)


def _bind_sizes(shape: Shape, array: Array, symbols: dict[str, int]) -> None:
    """Symbols that are a whole axis, where nobody gave them a value."""
    for dim, size in zip(shape, array.shape, strict=False):
        if (name := dim.single_symbol) is not None:
            symbols.setdefault(name, size)


def _check_argument(
    position: int, argument: SSAValue, array: Array, symbols: Mapping[str, int]
) -> None:
    dtype = element_dtype(argument)
    if array.dtype != dtype.numpy:
        raise DTypeError(f"argument {position} is {array.dtype}, expected {dtype.numpy}")
    dims = shape_of(argument.type)
    expected = tuple(dim.evaluate(symbols) for dim in dims)
    if array.shape != expected:
        named = "" if all(d.constant is not None for d in dims) else f" = {_spell(dims)}"
        raise ShapeError(f"argument {position} has shape {array.shape}, expected {expected}{named}")


def _spell(dims: Sequence[object]) -> str:
    return f"({', '.join(map(str, dims))})"
