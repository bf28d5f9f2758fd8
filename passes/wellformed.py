"""
What must hold of a function at the tensor and plan levels beside what its ops say of themselves.
Everything that reads such a function relies on it; texts are checked before anything does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from mlc.dialects.dims import Dim, DimsAttr, shape_of
from mlc.dialects.errors import PlanError
from mlc.dialects.plan import KernelOp
from mlc.dialects.program import ASSUME, DONATED, RESULTS, SYMBOLS, result_names, symbols_of
from mlc.dialects.target.attribute import target_of
from mlc.dialects.tensor.bind import BindOp
from mlc.dialects.tensor.calls import FunctionUse, uses_of_functions
from mlc.dialects.tensor.control import ControlOp, YieldOp
from mlc.dialects.tensor.op import TensorOp, tensor_fault
from mlc.dialects.tensor.rule import RuleOp
from mlc.dialects.tensor.shape import SliceOp, known_ends
from mlc.dialects.tensor.tiles import TileOp, TilesOp
from mlc.dialects.tile.kernel import CallOp
from mlc.dialects.tile.kernel import KernelOp as TileKernel
from mlc.dialects.typical import is_typical_attribute
from mlc.passes.plan_faults import plan_faults
from mlc.passes.tensor.call_graph import callees_first

_NUMERICS = ("strict", "standard", "fast")

Fault = tuple[Operation, str]


def faults(module: ModuleOp) -> Iterator[Fault]:
    """Every op that does not fit, and the message about it; functions without a body count not."""
    numerics = module.attributes.get("mlc.numerics", StringAttr("standard"))
    if not isinstance(numerics, StringAttr) or numerics.data not in _NUMERICS:
        yield module, f"mlc.numerics = {numerics}; expected one of {', '.join(_NUMERICS)}"
    typical = module.attributes.get("mlc.typical")
    if typical is not None and not is_typical_attribute(typical):
        yield module, f"mlc.typical = {typical}; expected sizes of symbols, such as {{B = 2 : i64}}"
    limit = module.attributes.get("mlc.peak_bytes")
    if limit is not None and not (isinstance(limit, IntegerAttr) and limit.value.data >= 0):
        yield module, f"mlc.peak_bytes = {limit}; expected a number of bytes"
    for function in module.body.block.ops:
        if isinstance(function, TileKernel):
            continue  # says all of itself
        if not isinstance(function, FuncOp):
            yield function, "stands outside of functions; expected functions alone in the module"
        elif function.body.blocks:
            found = next(_signature_faults(function), None)
            if found is not None:
                yield found
                continue  # nothing else can be said of it
            found = next(_body_faults(function), None)
            if found is not None:
                yield found
            else:
                yield from plan_faults(function, target_of(module))
    use = next(uses_of_functions(module), None)
    if use is None:
        return
    if any(isinstance(op, KernelOp | TileKernel) for op in module.walk()):
        yield use, "names a function beside kernels; expected the tensor level, or one function"
    try:
        callees_first(module)
    except PlanError as error:
        yield module, str(error)


def use_of_function(module: ModuleOp) -> Fault | None:
    """The first op that names a function, and what must be done before others meet it."""
    for op in uses_of_functions(module):
        return op, f"names {op.callee}; the passes expand-transforms and inline-calls come first"
    return None


def slices_past_ends(module: ModuleOp) -> Iterator[Fault]:
    """
    Slices with known places of axes whose sizes are symbols, where the function does not say
    (`mlc.assume`) that there are so many: what compiled code would read lies anywhere.
    """
    for function in module.body.block.ops:
        if not isinstance(function, FuncOp):
            continue
        said = function.attributes.get(ASSUME)
        known = said.data if isinstance(said, DimsAttr) else ()
        for op in function.walk():
            if not isinstance(op, SliceOp):
                continue
            axes = zip(shape_of(op.x.type), op.shape, op.starts(), strict=True)
            for axis, (extent, count, (offset, step)) in enumerate(axes):
                ends = known_ends(count, offset, step)
                if extent.constant is not None or ends is None:
                    continue
                last = max(ends)
                room = extent - 1 - last
                left = [(room - x).constant for x in known]
                if not any(n is not None and n >= 0 for n in left):
                    yield (
                        op,
                        f"reads element {last} of axis {axis}, which has {extent}; expected"
                        f' {ASSUME} = #mlc.dims<"{room}"> of the function: so many are there',
                    )


def _signature_faults(function: FuncOp) -> Iterator[Fault]:
    kind = function.function_type
    for where, types in (("argument", kind.inputs), ("result", kind.outputs)):
        for k, found in enumerate(types):
            if fault := tensor_fault(found):
                yield (
                    function,
                    f"{where} {k}: {fault}; expected the tensor or the plan level, with tensors of"
                    " known dtypes",
                )
    if len(function.body.blocks) != 1:
        yield function, "found several blocks; expected one, with control flow as mlc.if, mlc.for"
        return
    if not isinstance(function.body.block.last_op, ReturnOp):
        yield function, "the body must end with func.return"
    for message in (_symbols_fault(function), _results_fault(function)):
        if message:
            yield function, message
    yield from ((function, message) for message in _donation_faults(function))


def _names_fault(function: FuncOp, attribute: str) -> str | None:
    """What is wrong with an attribute that lists names; it may be missing."""
    listed = function.attributes.get(attribute)
    if listed is None:
        return None
    if not isinstance(listed, ArrayAttr):
        return f"{attribute} = {listed}; expected a list of names"
    entries = cast("tuple[Attribute, ...]", listed.data)  # pyright: ignore[reportUnknownMemberType]
    names = [entry.data for entry in entries if isinstance(entry, StringAttr)]
    if len(names) != len(entries) or len(set(names)) != len(names):
        return f"{attribute} = {listed}; expected different names"
    return None


def _results_fault(function: FuncOp) -> str | None:
    count, names = len(function.function_type.outputs), len(result_names(function))
    if names > count:
        return f"{RESULTS} = {function.attributes[RESULTS]}; expected {count} at most"
    return _names_fault(function, RESULTS)


def _symbols_fault(function: FuncOp) -> str | None:
    if SYMBOLS not in function.attributes:
        return None
    if fault := _names_fault(function, SYMBOLS):
        return fault
    names, listed = symbols_of(function), function.attributes[SYMBOLS]
    said = {
        n for kind in function.function_type.inputs for d in shape_of(kind) for n in d.symbols()
    }
    if missing := sorted(said - set(names)):
        return (
            f"{SYMBOLS} = {listed}; expected {', '.join(missing)} too, which types of arguments say"
        )
    return None


def _donation_faults(function: FuncOp) -> Iterator[str]:
    inputs, outputs = function.function_type.inputs.data, function.function_type.outputs.data
    taken: set[int] = set()
    for k, attributes in enumerate(function.arg_attrs or ()):
        entry = attributes.data.get(DONATED)
        if entry is None:
            continue
        number = entry.value.data if isinstance(entry, IntegerAttr) else -1
        if not 0 <= number < len(outputs):
            yield f"{DONATED} = {entry} of argument {k}; expected the number of a result"
        elif inputs[k] != outputs[number]:
            yield (
                f"argument {k} is {inputs[k]} and result {number}, which takes its place,"
                f" {outputs[number]}; expected one type"
            )
        elif number in taken:
            yield f"result {number} takes the place of two arguments; expected one"
        taken.add(number)


def _body_faults(function: FuncOp) -> Iterator[Fault]:
    start = frozenset(symbols_of(function))
    pending: list[tuple[Block, frozenset[str], KernelOp | None]] = [
        (function.body.block, start, None)
    ]
    while pending:
        block, symbols, around = pending.pop()
        for op in block.ops:
            message = _level_fault(op, around) or _symbol_fault(op, symbols)
            if message is None and isinstance(op, TileOp):
                message = _tile_fault(op)
            if message:
                yield op, message
            if isinstance(op, BindOp):
                symbols |= {op.symbol.data}
            inner = symbols | set(op.symbols) if isinstance(op, TilesOp) else symbols
            inside = op if isinstance(op, KernelOp) else around
            pending += [(b, inner, inside) for region in op.regions for b in region.blocks]


def _tile_fault(op: TileOp) -> str | None:
    """A tile lies inside where it moves with a loop around it that goes no further."""
    whole, part = shape_of(op.x.type), shape_of(op.result.type)
    for axis, position in zip(op.along, op.positions, strict=True):
        found = _loop_axis(position)
        if found is None:
            return f"its position on axis {axis} is not that of a tile loop around it"
        extent, size = found
        if not _fits(part[axis], size) or not _fits(extent, whole[axis]):
            return (
                f"takes {part[axis]} of {whole[axis]} on axis {axis}, where the loop goes to"
                f" {extent} in tiles of {size}"
            )
    return None


def _loop_axis(position: SSAValue) -> tuple[Dim, Dim] | None:
    """Extent and tile's size of the loop axis that a position is of, in kernels too."""
    while isinstance(position, BlockArgument):
        above = position.owner.parent_op()
        if isinstance(above, KernelOp):
            position = above.inputs[position.index]
        elif isinstance(above, TilesOp) and position.index < len(above.positions):
            return above.extents[position.index], above.tile_dim(position.index)
        else:
            return None
    return None


def _fits(size: Dim, room: Dim) -> bool:
    """Whether one is known not to be larger than the other."""
    difference = (room - size).constant
    return difference is not None and difference >= 0


def _level_fault(op: Operation, around: KernelOp | None) -> str | None:
    if around is not None:
        if not isinstance(op, TensorOp | YieldOp) and not (
            around.is_nest and isinstance(op, ControlOp)
        ):
            return "stands in a kernel; expected tensor ops"
    elif not isinstance(
        op, TensorOp | ControlOp | FunctionUse | KernelOp | CallOp | YieldOp | ReturnOp | RuleOp
    ):
        return "belongs to neither the tensor nor the plan level; expected ops of mlc"
    return None


def check_unplanned(name: str, function: FuncOp) -> None:
    """PlanError where the pass `name`, which reads programs as they are written, meets a plan."""
    for op in function.walk():
        if isinstance(op, TilesOp | KernelOp | CallOp):
            raise PlanError(
                f"{name}: @{function.sym_name.data} holds {op.name}; expected the tensor level,"
                " before tiles and kernels are formed"
            )


def _symbol_fault(op: Operation, symbols: frozenset[str]) -> str | None:
    types: list[Attribute] = [x.type for x in op.results]
    shapes = [shape_of(kind) for kind in types if tensor_fault(kind) is None]
    shapes += [entry.data for entry in op.properties.values() if isinstance(entry, DimsAttr)]
    unknown = {name for shape in shapes for dim in shape for name in dim.symbols()} - symbols
    if not unknown:
        return None
    known = ", ".join(sorted(symbols)) or "none"
    return f"nobody gives {min(unknown)!r} a value; the symbols are those of arguments: {known}"
