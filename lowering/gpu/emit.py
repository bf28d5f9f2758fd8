"""Loops level of a GPU program to LLVM IR text for NVPTX and a launch plan: a module per kernel."""

from __future__ import annotations

import math
from typing import cast

from xdsl.dialects import arith as arith_dialect
from xdsl.dialects import func
from xdsl.dialects.builtin import BFloat16Type, IntegerAttr, IntegerType, MemRefType, ModuleOp, f32
from xdsl.ir import Attribute, Operation

from mlc.dialects import functions, gpu, par, vec
from mlc.dialects.gpu_async import RegistersOp
from mlc.dialects.gpu_clusters import (
    CLUSTER_ATTRIBUTE,
    AwaitOp,
    ClusterBarrierOp,
    FollowOp,
    LeadOp,
    SendOp,
    SignalOp,
)
from mlc.dialects.gpu_copies import CopyAsyncOp, CopyGroupOp, CopyWaitOp
from mlc.dialects.lanes import element_of, lanes_of, like
from mlc.dialects.launch import GpuKernel, GpuProgram
from mlc.dialects.target import GpuTarget
from mlc.lowering.emit import arith, complex_parts, memref, scf, vector, write_function
from mlc.lowering.emit import math as emit_math
from mlc.lowering.emit import par as emit_par
from mlc.lowering.emit.function import FunctionText, ModuleText, Rule, Rules
from mlc.lowering.emit.types import is_float, item_bytes, symbol
from mlc.lowering.gpu import emit_async
from mlc.lowering.gpu.entry import launch_plan

TRIPLE = "nvptx64-nvidia-cuda"
_ALL_THREADS = -1
_LAST_LANE, _FIRST_LANE = 31, 0  # shfl's c operand for a whole warp. Source: PTX ISA, shfl.sync
_PLACES: dict[type[Operation], str] = {
    gpu.ThreadIdOp: "tid",
    gpu.BlockIdOp: "ctaid",
    gpu.BlockDimOp: "ntid",
    gpu.GridDimOp: "nctaid",
}


def emit_gpu(module: ModuleOp, target: GpuTarget) -> GpuProgram:
    """A loops-level module from `lower_to_gpu`, exp, log and tanh expanded, as a program."""
    functions = [op for op in module.body.block.ops if isinstance(op, func.FuncOp)]
    kernels = [f for f in functions if gpu.KERNEL_ATTRIBUTE in f.attributes]
    (entry,) = [f for f in functions if "mlc.entry" in f.attributes]
    texts = [GpuKernel(k.sym_name.data, emit_gpu_kernel(k, target)) for k in kernels]
    fails = any(isinstance(op, par.FailOp) for k in kernels for op in k.walk())
    return GpuProgram(entry.sym_name.data, tuple(texts), launch_plan(entry, module, fails=fails))


def emit_gpu_kernel(kernel: func.FuncOp, target: GpuTarget) -> str:
    """The LLVM module with one kernel; its parameters are 64 bits each (see `write_function`)."""
    threads = cast("IntegerAttr[IntegerType]", kernel.attributes[gpu.KERNEL_ATTRIBUTE]).value.data
    words = ["nounwind", f'"target-cpu"="{target.sm}"', f'"nvvm.maxntid"="{threads}"']
    if any(isinstance(op, RegistersOp) for op in kernel.walk()):
        words.append('"nvvm.minctasm"="1"')  # else ptxas ignores setmaxnreg
    if isinstance(resident := kernel.attributes.get(gpu.RESIDENT_ATTRIBUTE), IntegerAttr):
        words.append(f'"nvvm.minctasm"="{resident.value.data}"')
    if isinstance(cluster := kernel.attributes.get(CLUSTER_ATTRIBUTE), IntegerAttr):
        words.append(f'"nvvm.cluster_dim"="{cluster.value.data},1,1"')
    # the word of errors is the host's memory, which has no atomic operations of the whole system
    scope = 'syncscope("device") '
    name = kernel.sym_name.data
    module = ModuleText(name, TRIPLE, " ".join(words), vector_bits=128, scope=scope)
    write_function(kernel, module, GPU_RULES, linkage="define ptx_kernel")
    return module.text()


def _place(e: FunctionText, op: Operation) -> None:
    axis = cast("gpu.AxisAttr", op.properties["axis"]).data
    word = e.put(f"call i32 @llvm.nvvm.read.ptx.sreg.{_PLACES[type(op)]}.{axis}()")
    e.define(op.results[0], f"zext i32 {word} to i64")


def _barrier(e: FunctionText, op: gpu.BarrierOp) -> None:
    e.do("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)")


def _shared(e: FunctionText, op: gpu.SharedOp) -> None:
    result = op.results[0]
    buffer = cast("MemRefType[Attribute]", result.type)
    shape = buffer.get_shape()
    name = f"{e.name}.shared{len(e.module.constants)}"
    element = e.type(buffer.element_type)
    e.module.constants[name] = (
        f"{symbol(name)} = internal addrspace({gpu.SHARED_SPACE}) global "
        f"[{math.prod(shape)} x {element}] poison, align 16"
    )
    e.bind_row_major(result, symbol(name), [str(size) for size in shape])


_SHUFFLES = {
    gpu.ShuffleKind.XOR: ("bfly", _LAST_LANE),
    gpu.ShuffleKind.DOWN: ("down", _LAST_LANE),
    gpu.ShuffleKind.UP: ("up", _FIRST_LANE),
}


def _shuffle(e: FunctionText, op: gpu.ShuffleOp) -> None:
    value, result = op.operands[0], op.results[0]
    kind, clamp = _SHUFFLES[op.kind.data]
    offset = cast("IntegerAttr[IntegerType]", op.properties["offset"]).value.data
    spelled = e.type(value.type)
    bits = 1 if spelled == "i1" else 8 * item_bytes(value.type)
    word = e[value]
    if is_float(value.type):
        word = e.put(f"bitcast {spelled} {word} to i{bits}")
    if bits < 32:
        word = e.put(f"zext i{bits} {word} to i32")
    parts = [word]
    if bits == 64:
        high = e.put(f"lshr i64 {word}, 32")
        parts = [e.put(f"trunc i64 {part} to i32") for part in (word, high)]
    moved = [
        e.put(
            f"call i32 @llvm.nvvm.shfl.sync.{kind}.i32"
            f"(i32 {_ALL_THREADS}, i32 {part}, i32 {offset}, i32 {clamp})"
        )
        for part in parts
    ]
    found = moved[0]
    if bits == 64:
        low, high = (e.put(f"zext i32 {part} to i64") for part in moved)
        found = e.put(f"or i64 {low}, {e.put(f'shl i64 {high}, 32')}")
    elif bits < 32:
        found = e.put(f"trunc i32 {found} to i{bits}")
    if is_float(value.type):
        e.define(result, f"bitcast i{bits} {found} to {spelled}")
    else:
        e[result] = found


def _send(e: FunctionText, op: SendOp) -> None:
    """`mapa` gives the place in the other block's memory."""
    buffer = e.buffer(op.buffer)
    here = e.put(f"ptrtoint {e.type(buffer.type)} {e.address(buffer, [op.at])} to i32")
    block = e.put(f"trunc i64 {e[op.block]} to i32")
    bits = 8 * item_bytes(op.value.type)
    word = e[op.value]
    if is_float(op.value.type):
        word = e.put(f"bitcast {e.type(op.value.type)} {word} to i{bits}")
    body = (
        "{ .reg .b32 there; mapa.shared::cluster.u32 there, $0, $1;"
        f" st.shared::cluster.b{bits} [there], $2; }}"
    )
    kinds = f"r,r,{'r' if bits == 32 else 'l'},~{{memory}}"
    e.do(f'call void asm sideeffect "{body}", "{kinds}"(i32 {here}, i32 {block}, i{bits} {word})')


def _signal(e: FunctionText, op: SignalOp) -> None:
    place = e.address(e.buffer(op.buffer), [op.at])
    body = "@$1 st.release.gpu.global.b32 [$0], 1;"
    arguments = f"ptr {place}, i1 {e[op.condition]}"
    e.do(f'call void asm sideeffect "{body}", "l,b,~{{memory}}"({arguments})')


def _await(e: FunctionText, op: AwaitOp) -> None:
    place = e.address(e.buffer(op.buffer), [op.at])
    body = (
        "{ .reg .pred P; .reg .b32 found; AGAIN: ld.acquire.gpu.global.b32 found, [$0];"
        " setp.eq.b32 P, found, 0; @P bra AGAIN; }"
    )
    e.do(f'call void asm sideeffect "{body}", "l,~{{memory}}"(ptr {place})')


def _cluster_barrier(e: FunctionText, op: ClusterBarrierOp) -> None:
    body = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    e.do(f'call void asm sideeffect "{body}", "~{{memory}}"()')


def _follow(e: FunctionText, op: FollowOp) -> None:
    """SOURCE: CUDA C++ Programming Guide 12.8, programmatic dependent launch"""
    e.do('call void asm sideeffect "griddepcontrol.wait;", "~{memory}"()')


def _lead(e: FunctionText, op: LeadOp) -> None:
    e.do('call void asm sideeffect "griddepcontrol.launch_dependents;", "~{memory}"()')


def _prefetch(e: FunctionText, op: vec.PrefetchOp) -> None:
    """Into level 2: LLVM has no rule for its own prefetches here."""
    source, *indices = op.operands
    buffer = e.buffer(source)
    at = e.address(buffer, indices, inside=False)
    wide = f"{e.type(buffer.type)} {at}"
    if not e.type(buffer.type).endswith("addrspace(1)"):
        wide = f"ptr addrspace(1) {e.put(f'addrspacecast {wide} to ptr addrspace(1)')}"
    e.do(f"call void @llvm.nvvm.prefetch.global.L2({wide})")


def _copy_async(e: FunctionText, op: CopyAsyncOp) -> None:
    """Past the first cache where a copy has 16 bytes: nobody else of the block reads them."""
    source, target = e.buffer(op.source), e.buffer(op.target)
    place = e.address(target, op.target_at)
    wide = f"{e.type(source.type)} {e.address(source, op.source_at)}"
    if not e.type(source.type).endswith("addrspace(1)"):
        wide = f"ptr addrspace(1) {e.put(f'addrspacecast {wide} to ptr addrspace(1)')}"
    number = op.copied_bytes
    name = f"llvm.nvvm.cp.async.{'cg' if number == 16 else 'ca'}.shared.global.{number}"
    passed = f"ptr addrspace(3) {place}, {wide}"
    if op.where is not None:
        read = e.put(f"select i1 {e[op.where]}, i32 {number}, i32 0")
        name, passed = f"{name}.s", f"{passed}, i32 {read}"
    e.do(f"call void @{name}({passed})")


def _copy_group(e: FunctionText, op: CopyGroupOp) -> None:
    e.do("call void @llvm.nvvm.cp.async.commit.group()")


def _copy_wait(e: FunctionText, op: CopyWaitOp) -> None:
    e.do(f"call void @llvm.nvvm.cp.async.wait.group(i32 {op.pending.value.data})")


def _by_unit(intrinsic: str) -> Rule:
    """The special function unit's instruction, for every lane."""

    def rule(e: FunctionText, op: Operation) -> None:
        value, result = op.operands[0], op.results[0]
        lanes = lanes_of(result.type)
        call = f"call float @llvm.nvvm.{intrinsic}(float"
        if lanes is None:
            e.define(result, f"{call} {e[value]})")
            return
        spelled, found = e.type(result.type), "poison"
        for k in range(lanes):
            x = e.put(f"extractelement {spelled} {e[value]}, i32 {k}")
            y = e.put(f"{call} {x})")
            found = e.put(f"insertelement {spelled} {found}, float {y}, i32 {k}")
        e[result] = found

    return rule


def _truncf(e: FunctionText, op: arith_dialect.TruncFOp) -> None:
    """To bf16 by the instruction: to nearest even, subnormal numbers kept."""
    source, result = op.operands[0], op.results[0]
    if not isinstance(element_of(result.type), BFloat16Type) or source.type != like(
        result.type, f32
    ):
        arith.RULES[arith_dialect.TruncFOp](e, op)
        return
    lanes = lanes_of(result.type)
    narrow = "bfloat" if lanes is None else f"<{lanes} x bfloat>"
    rounded = e.put(f"fptrunc {e.type(source.type)} {e[source]} to {narrow}")
    e.define(result, f"bitcast {narrow} {rounded} to {e.type(result.type)}")


def _return(e: FunctionText, op: func.ReturnOp) -> None:
    e.do("ret void")


GPU_RULES = Rules()
for _table in (
    arith.RULES,
    emit_math.RULES,
    memref.RULES,
    vector.RULES,
    complex_parts.RULES,
    scf.RULES,
    emit_async.RULES,
):
    GPU_RULES.update(_table)
GPU_RULES[par.FailOp] = emit_par.RULES[par.FailOp]
for _op in _PLACES:
    GPU_RULES[_op] = _place
GPU_RULES.on(gpu.BarrierOp, _barrier)
GPU_RULES.on(gpu.SharedOp, _shared)
GPU_RULES.on(gpu.ShuffleOp, _shuffle)
GPU_RULES.on(SendOp, _send)
GPU_RULES.on(ClusterBarrierOp, _cluster_barrier)
GPU_RULES.on(SignalOp, _signal)
GPU_RULES.on(AwaitOp, _await)
GPU_RULES.on(FollowOp, _follow)
GPU_RULES.on(LeadOp, _lead)
GPU_RULES.on(CopyAsyncOp, _copy_async)
GPU_RULES.on(vec.PrefetchOp, _prefetch)
GPU_RULES.on(CopyGroupOp, _copy_group)
GPU_RULES.on(CopyWaitOp, _copy_wait)
GPU_RULES.on(func.ReturnOp, _return)
GPU_RULES.on(arith_dialect.TruncFOp, _truncf)
GPU_RULES.on(functions.Exp2EstimateOp, _by_unit("ex2.approx.ftz.f"))
GPU_RULES.on(functions.ReciprocalEstimateOp, _by_unit("rcp.approx.ftz.f"))
GPU_RULES.on(functions.SaturateOp, _by_unit("saturate.f"))
