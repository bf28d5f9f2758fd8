"""Tensor-level functions built by hand, taken down through every level, called on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    ModuleOp,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Block, Region, SSAValue

from mlc.dialects import abi
from mlc.dialects.dims import Dim, Shape, shape_of, tensor_type
from mlc.dialects.dtypes import DType
from mlc.dialects.signature import ArgSpec, EntrySignature, ResultSpec
from mlc.dialects.target.attribute import TargetAttr
from mlc.dialects.tensor.op import OpBuilder, element_dtype
from mlc.lowering.emit import emit_kernel, emit_main
from mlc.lowering.loops import lower_to_loops
from mlc.passes.math.expand_math import ExpandMathPass
from mlc.passes.plan.fusion.form_kernels import FormKernelsPass
from mlc.passes.plan.memory.plan_buffers import PlanBuffersPass
from mlc.passes.plan.tiling.schedule import SchedulePass
from mlc.runtime import jit, threads
from mlc.runtime.entry import EntryState
from mlc.runtime.llvm import compile_object
from mlc.runtime.probe import host_target
from mlc.runtime.support import support
from tests.every_op.guarded import GuardedEntry

Array = NDArray[Any]
Body = Callable[[OpBuilder, Sequence[SSAValue]], Sequence[SSAValue]]


@dataclass(frozen=True)
class Argument:
    """One array argument; `strided` takes any strides."""

    dtype: DType
    dims: Shape
    strided: bool = False


def function_module(
    arguments: Sequence[Argument], body: Body, symbols: Sequence[str] = (), name: str = "f"
) -> ModuleOp:
    """A tensor-level module with one function of `arguments`."""
    types = [tensor_type(a.dtype.ir, a.dims) for a in arguments]
    block = Block(arg_types=types)
    results = list(body(OpBuilder(block.add_op), block.args))
    return function_of(block, arguments, results, symbols, name)


def function_of(
    block: Block,
    arguments: Sequence[Argument],
    results: Sequence[SSAValue],
    symbols: Sequence[str] = (),
    name: str = "f",
) -> ModuleOp:
    """A tensor-level module with the function whose body `block` is, but for its return."""
    types = [a.type for a in block.args]
    block.add_op(func.ReturnOp(*results))
    general = DictionaryAttr({"mlc.layout": StringAttr("general")})
    function = func.FuncOp(
        name,
        FunctionType.from_lists(types, [r.type for r in results]),
        Region(block),
        arg_attrs=ArrayAttr([general if a.strided else DictionaryAttr({}) for a in arguments]),
    )
    function.attributes["mlc.entry"] = UnitAttr()
    function.attributes["mlc.symbols"] = ArrayAttr([StringAttr(s) for s in symbols])
    return ModuleOp([function], attributes={"mlc.target": TargetAttr(host_target())})


def _sizes(shape: Shape) -> tuple[int | Dim, ...]:
    return tuple(d if d.constant is None else d.constant for d in shape)


def signature_of(module: ModuleOp) -> EntrySignature:
    """The entry's signature, read off the tensor-level function."""
    function = next(op for op in module.body.block.ops if isinstance(op, func.FuncOp))
    marks = function.arg_attrs
    assert marks is not None
    arguments = [
        ArgSpec(
            "array",
            element_dtype(x).name,
            _sizes(shape_of(x.type)),
            "general" if "mlc.layout" in mark.data else "c",
        )
        for x, mark in zip(function.args, marks.data, strict=True)
    ]
    last = function.body.block.last_op
    assert last is not None
    results = [ResultSpec(element_dtype(x).name, _sizes(shape_of(x.type))) for x in last.operands]
    names = function.attributes["mlc.symbols"]
    assert isinstance(names, ArrayAttr)
    symbols = tuple(cast("StringAttr", s).data for s in cast("ArrayAttr[Attribute]", names).data)
    return EntrySignature(tuple(arguments), tuple(results), symbols, returns_tuple=True)


def _unused(*args: object, **kwargs: object) -> NoReturn:
    raise AssertionError("the entry is called without its shim")


def _on_error(site: int, value: int, extent: int) -> NoReturn:
    raise IndexError(f"site {site}: index {value} is out of bounds for size {extent}")


def to_plan(module: ModuleOp, *, fusion: str = "none") -> ModuleOp:
    """The module at the plan level, in place."""
    context = Context()
    for step in (FormKernelsPass(fusion=fusion), SchedulePass(), PlanBuffersPass()):
        step.apply(context, module)
    return module


def compile_plan(
    module: ModuleOp,
    signature: EntrySignature,
    *,
    opt_level: int = 1,
    thread_count: int | None = None,
) -> GuardedEntry:
    """A module of the level plan or tiles as a callable on arrays."""
    target = host_target()
    loops = lower_to_loops(module)
    ExpandMathPass().apply(Context(), loops)
    functions = [op for op in loops.body.block.ops if isinstance(op, func.FuncOp)]
    entry = next(f for f in functions if "mlc.entry" in f.attributes)
    texts = [emit_main(f, target) if f is entry else emit_kernel(f, target) for f in functions]
    objects = [compile_object(text, target, opt_level=opt_level) for text in texts]
    name = entry.sym_name.data
    state = EntryState(_unused, _on_error, thread_count)
    if any(b"GOMP_parallel" in image for image in objects):
        threads.bind_for(thread_count)
    imports = {**support().symbols, abi.STATE_SYMBOL: state.address}
    state.code = jit.load(objects, imports=imports, exports=(name,))
    return GuardedEntry(state.code.address(name), signature, state)


def evaluate(dims: Shape, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """A concrete shape."""
    return tuple(d.evaluate(sizes) for d in dims)
