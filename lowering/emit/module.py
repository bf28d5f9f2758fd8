"""
LLVM IR text of one kernel, or of the entry function that calls the kernels. One module each: the
text is a key of the object cache, so names depend on nothing but the order of the ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    DictionaryAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects.gpu_async import TensorMapType
from mlc.dialects.par import BarrierOp, ContextType
from mlc.dialects.program import ALL_PASSES, NO_PASSES
from mlc.dialects.target.cpu import CpuTarget
from mlc.dialects.target.intrinsics import rows_of
from mlc.lowering.emit import (
    arith,
    complex_parts,
    compress,
    dot,
    lane_tables,
    math,
    memref,
    par,
    scf,
    vector,
)
from mlc.lowering.emit.function import FunctionText, ModuleText, Rules
from mlc.lowering.emit.types import EmitError, symbol

ENTRY_ATTRIBUTE = "mlc.entry"
BY_VALUE = 'byval([128 x i8]) align 64 "nvvm.grid_constant"'
"""Of a tensor map, which a kernel reads where its parameters lie. SOURCE: LLVM, NVPTX usage"""


TUNING = "fast-dpwssd"
"""
What else LLVM should know of a machine with VNNI: without it vpdpwssd becomes a multiplication and
an addition again, for the latency of one sum, where a register tile has many.
"""


def _call(e: FunctionText, op: func.CallOp) -> None:
    callee = cast("SymbolRefAttr", op.properties["callee"]).root_reference.data
    types = [text for operand in op.operands for text in e.flatten_types(operand.type)]
    parts = [part for operand in op.operands for part in e.flatten(operand)]
    arguments = ", ".join(f"{t} {part}" for t, part in zip(types, parts, strict=True))
    result = _result_type(e, op.res)
    declaration = f"declare {result} {symbol(callee)}({', '.join(types)}) nounwind"
    e.module.declare(callee, declaration)
    results: Sequence[SSAValue] = op.results
    if results:
        e.define(results[0], f"call {result} {symbol(callee)}({arguments})")
    else:
        e.do(f"call void {symbol(callee)}({arguments})")


def _result_type(e: FunctionText, results: Sequence[SSAValue]) -> str:
    if not results:
        return "void"
    if len(results) > 1:
        raise EmitError(f"emit: @{e.name}: functions return at most one value, got {len(results)}")
    return e.type(results[0].type)


def _return(e: FunctionText, op: func.ReturnOp) -> None:
    if e.exits is not None:
        e.do("ret i32 0")
    elif op.operands:
        value = op.operands[0]
        e.do(f"ret {e.type(value.type)} {e[value]}")
    else:
        e.do("ret void")


_FUNC = Rules()
_FUNC.on(func.CallOp, _call)
_FUNC.on(func.ReturnOp, _return)

CPU_RULES = Rules()
for _table in (
    arith.RULES,
    math.RULES,
    lane_tables.RULES,
    memref.RULES,
    vector.RULES,
    compress.RULES,
    dot.RULES,
    complex_parts.RULES,
    scf.RULES,
    par.RULES,
    _FUNC,
):
    CPU_RULES.update(_table)


def emit_kernel(kernel: func.FuncOp, target: CpuTarget) -> str:
    """
    The LLVM module with one kernel. Its native signature is its arguments in order: ctx is a
    pointer, index an i64, a memref a pointer followed by one i64 per dynamic size of dims >= 1
    (row-major) or per dynamic stride (strided layout).
    """
    module = module_text(_name(kernel), target, frees_memory=False)
    if ALL_PASSES in kernel.attributes:
        module.attributes += f' "{ALL_PASSES}"'
    write_function(kernel, module, CPU_RULES)
    return _text_for(target, module)


def emit_main(main: func.FuncOp, target: CpuTarget) -> str:
    """
    The LLVM module with the C entry `i32 f(ptr ctx, ptr args, ptr sizes, ptr outs)`, which calls
    the kernels as extern functions. The func's attribute `mlc.entry` counts inputs and outputs.
    """
    name = _name(main)
    module = module_text(name, target, frees_memory=True)
    if NO_PASSES in main.attributes:
        module.attributes += f' "{NO_PASSES}"'
    e = FunctionText(module, CPU_RULES, name)
    e.exits = set()
    _load_arguments(e, main)
    e.run(main.body.block)
    for status in sorted(e.exits):
        e.open(par.exit_label(status))
        e.do(f"ret i32 {status}")
    e.finish(f"define i32 {symbol(name)}(ptr %ctx, ptr %args, ptr %sizes, ptr %outs) #0 {{")
    return _text_for(target, module)


def _load_arguments(e: FunctionText, main: func.FuncOp) -> None:
    """Takes index arguments from `sizes`, then pointers from `args` and then from `outs`."""
    inputs, outputs = _counts(main)
    sizes = buffers = 0
    for argument in main.body.block.args:
        if isinstance(argument.type, ContextType):
            e[argument] = "%ctx"
        elif isinstance(argument.type, IndexType):
            e.define(argument, f"load i64, ptr {_slot(e, '%sizes', sizes)}, align 8")
            sizes += 1
        elif isinstance(argument.type, MemRefType):
            array, k = ("%args", buffers) if buffers < inputs else ("%outs", buffers - inputs)
            pointer = e.put(f"load ptr, ptr {_slot(e, array, k)}, align 8")
            e.bind(argument, iter([pointer]))
            buffers += 1
        else:
            raise EmitError(
                f"emit: @{e.name}: the entry takes ctx, index and 1-D memref arguments, "
                f"got {argument.type}"
            )
    if buffers != inputs + outputs:
        raise EmitError(
            f"emit: @{e.name}: {ENTRY_ATTRIBUTE} counts {inputs} inputs and {outputs} outputs, "
            f"the function takes {buffers} buffers"
        )


def _slot(e: FunctionText, array: str, k: int) -> str:
    return e.put(f"getelementptr inbounds i64, ptr {array}, i64 {k}") if k else array


def _counts(main: func.FuncOp) -> tuple[int, int]:
    entry = main.attributes.get(ENTRY_ATTRIBUTE)
    if not isinstance(entry, DictionaryAttr):
        raise EmitError(
            f"emit: @{_name(main)}: the entry function needs {ENTRY_ATTRIBUTE} = "
            "{inputs = …, outputs = …}"
        )

    def count(key: str) -> int:
        return cast("IntegerAttr[IntegerType]", entry.data[key]).value.data

    return count("inputs"), count("outputs")


def _name(function: func.FuncOp) -> str:
    return function.sym_name.data


def module_text(name: str, target: CpuTarget, *, frees_memory: bool) -> ModuleText:
    """An empty module for `target`; only the entry may free memory (it may move the arena)."""
    words = ["nounwind"] if frees_memory else ["nofree", "nounwind"]
    pairs = {
        "target-cpu": target.cpu_name,
        "frame-pointer": "none",
        "no-trapping-math": "true",
        "min-legal-vector-width": str(target.vector_bits),
        "prefer-vector-width": str(target.vector_bits),
    }
    words += [f'"{key}"="{value}"' for key, value in pairs.items() if value]
    return ModuleText(
        name,
        target.triple,
        " ".join(words),
        target.vector_bits,
        least_masked_bytes=target.least_masked_bytes,
    )


def _text_for(target: CpuTarget, module: ModuleText) -> str:
    """The whole module, whose functions may use what they call and nothing else beyond the CPU."""
    rows = (row for row in rows_of(target) if row.name in module.instructions)
    called = dict.fromkeys(need for row in rows for need in row.needs)
    tuning = [TUNING] if any("vnni" in name for name in called) else []
    features = ",".join([*filter(None, [target.features]), *(f"+{x}" for x in (*called, *tuning))])
    if features:
        module.attributes += f' "target-features"="{features}"'
    return module.text()


def write_function(
    function: func.FuncOp, module: ModuleText, rules: Rules, linkage: str = "define"
) -> None:
    """Writes one func.func into the module. `linkage` stands before the return type."""
    name = _name(function)
    e = FunctionText(module, rules, name)
    waits = any(isinstance(op, BarrierOp) for op in function.walk())
    parameters: list[str] = []
    for k, argument in enumerate(function.body.block.args):
        types = e.flatten_types(argument.type)
        parts = [f"%a{k}" if part == 0 else f"%a{k}.{part}" for part in range(len(types))]
        attributes = _parameter_attributes(function, k, waits=waits)
        if isinstance(argument.type, TensorMapType):
            attributes = BY_VALUE
        elif isinstance(argument.type, ContextType):
            attributes = "noalias"  # its fields are no arrays
        for part, (spelled, text) in enumerate(zip(types, parts, strict=True)):
            words = f"{attributes} " if part == 0 and attributes else ""
            parameters.append(f"{spelled} {words}{text}")
        if attributes and attributes != BY_VALUE:
            e.pointer_attributes[parts[0]] = attributes
        e.bind(argument, iter(parts))
    e.run(function.body.block)
    returned = function.body.block.last_op
    operands = list(returned.operands) if returned is not None else []
    result = _result_type(e, operands)
    e.finish(f"{linkage} {result} {symbol(name)}({', '.join(parameters)}) #0 {{")


def _parameter_attributes(function: func.FuncOp, k: int, *, waits: bool) -> str:
    """
    noalias, readonly and align of argument `k`, as LLVM spells them. `waits`: the function has a
    barrier, after which it reads what others wrote: `noalias` would deny that.
    """
    attributes = _argument_attributes(function, k)
    words = [word for word in ("noalias", "readonly") if f"mlc.{word}" in attributes]
    if waits and "readonly" not in words:
        words = [word for word in words if word != "noalias"]
    align = attributes.get("mlc.align")
    if align is not None:
        words.append(f"align {cast('IntegerAttr[IntegerType]', align).value.data}")
    return " ".join(words)


def _argument_attributes(function: func.FuncOp, k: int) -> dict[str, Attribute]:
    all_attributes = function.arg_attrs
    if all_attributes is None:
        return {}
    return dict(all_attributes.data[k].data)


def known_ops() -> frozenset[type[Operation]]:
    """The op classes that may stand in a module handed to the CPU emitter."""
    return frozenset(CPU_RULES)
