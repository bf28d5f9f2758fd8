"""
Barriers, bulk copies and products of groups as LLVM IR: an instruction of PTX each, in inline
assembly where its operands are registers that a product writes later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float64Type, VectorType
from xdsl.ir import Attribute, SSAValue

from mlc.dialects import gpu_async as ga
from mlc.dialects import gpu_products as gp
from mlc.dialects.dtypes import F64, dtype_of
from mlc.lowering.emit.function import FunctionText, Rules
from mlc.lowering.emit.types import symbol

RULES = Rules()
SHARED = "dynamic_shared"
"""The symbol of the block's dynamic shared memory."""


def _asm(
    e: FunctionText, body: str, constraints: str = "", arguments: str = "", *, memory: bool = True
) -> None:
    clobbers = "~{memory}" if memory else ""
    words = ",".join(filter(None, (constraints, clobbers)))
    e.do(f'call void asm sideeffect "{body}", "{words}"({arguments})')


def _dynamic_shared(e: FunctionText, op: ga.DynamicSharedOp) -> None:
    e.module.constants.setdefault(
        SHARED, f"{symbol(SHARED)} = external addrspace(3) global [0 x i8], align 1024"
    )
    e.define(op.result, f"ptrtoint ptr addrspace(3) {symbol(SHARED)} to i32")


def _elect(e: FunctionText, op: ga.ElectOp) -> None:
    body = "{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.b32 $0, 1, 0, p; }"
    word = e.put(f'call i32 asm sideeffect "{body}", "=r"()')
    e.define(op.result, f"icmp ne i32 {word}, 0")


def _uniform(e: FunctionText, op: ga.UniformOp) -> None:
    value = e[op.value]
    e.define(
        op.result, f"call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 -1, i32 {value}, i32 0, i32 31)"
    )


def _registers(e: FunctionText, op: ga.RegistersOp) -> None:
    way = "inc" if op.more is not None else "dec"
    _asm(e, f"setmaxnreg.{way}.sync.aligned.u32 {op.count.value.data};")


def _barrier_init(e: FunctionText, op: ga.BarrierInitOp) -> None:
    body = f"mbarrier.init.shared::cta.b64 [$0], {op.count.value.data};"
    _asm(e, body, "r", f"i32 {e[op.barrier]}")


def _barrier_fence(e: FunctionText, op: ga.BarrierFenceOp) -> None:
    _asm(e, "fence.mbarrier_init.release.cluster;")


def _barrier_expect(e: FunctionText, op: ga.BarrierExpectOp) -> None:
    count = op.size_bytes.value.data
    body = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], {count};"
    _asm(e, body, "r", f"i32 {e[op.barrier]}")


def _barrier_arrive(e: FunctionText, op: ga.BarrierArriveOp) -> None:
    arguments = f"i32 {e[op.barrier]}, i1 {e[op.condition]}"
    if op.block is None:
        _asm(e, "@$1 mbarrier.arrive.shared::cta.b64 _, [$0];", "r,b", arguments)
        return
    body = (
        "{ .reg .b32 there; mapa.shared::cluster.u32 there, $0, $2;"
        " @$1 mbarrier.arrive.shared::cluster.b64 _, [there]; }"
    )
    _asm(e, body, "r,b,r", f"{arguments}, i32 {e[op.block]}")


def _barrier_wait(e: FunctionText, op: ga.BarrierWaitOp) -> None:
    body = (
        "{ .reg .pred P; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 P, [$0], $1;"
        " @!P bra AGAIN; }"
    )
    _asm(e, body, "r,r", f"i32 {e[op.barrier]}, i32 {e[op.parity]}")


def _warp_barrier(e: FunctionText, op: ga.WarpBarrierOp) -> None:
    _asm(e, "bar.warp.sync 0xffffffff;")


def _prefetch_map(e: FunctionText, op: ga.PrefetchMapOp) -> None:
    _asm(e, "prefetch.tensormap [$0];", "l", f"ptr {e[op.map]}")


def _places(e: FunctionText, at: Sequence[SSAValue], first: int) -> tuple[str, str]:
    """Subscripts as operands of a text from a number on, the last axis first; and as arguments."""
    names = ", ".join(f"${first + k}" for k in range(len(at)))
    return names, ", ".join(f"i32 {e[x]}" for x in reversed(at))


def _bulk_load(e: FunctionText, op: ga.BulkLoadOp) -> None:
    axes, places = _places(e, op.at, 3)
    several, mask = "", ""
    if op.blocks > 1:
        several, mask = ".multicast::cluster", f", {(1 << op.blocks) - 1}"
    body = (
        f"cp.async.bulk.tensor.{len(op.at)}d.shared::cluster.global.mbarrier::complete_tx::bytes"
        f"{several} [$0], [$1, {{{axes}}}], [$2]{mask};"
    )
    arguments = f"i32 {e[op.slot]}, ptr {e[op.map]}, i32 {e[op.barrier]}, {places}"
    _asm(e, body, "r,l,r" + ",r" * len(op.at), arguments)


def _bulk_store(e: FunctionText, op: ga.BulkStoreOp) -> None:
    axes, places = _places(e, op.at, 3)
    body = (
        f"{{ @$2 cp.async.bulk.tensor.{len(op.at)}d.global.shared::cta.bulk_group"
        f" [$0, {{{axes}}}], [$1]; @$2 cp.async.bulk.commit_group; }}"
    )
    arguments = f"ptr {e[op.map]}, i32 {e[op.slot]}, i1 {e[op.condition]}, {places}"
    _asm(e, body, "l,r,b" + ",r" * len(op.at), arguments)


def _bulk_wait(e: FunctionText, op: ga.BulkWaitOp) -> None:
    _asm(e, f"cp.async.bulk.wait_group.read {op.pending.value.data};")


def _async_fence(e: FunctionText, op: ga.AsyncFenceOp) -> None:
    _asm(e, "fence.proxy.async.shared::cta;")


def _store_matrix(e: FunctionText, op: gp.StoreMatrixOp) -> None:
    words = [e.put(f"bitcast {e.type(x.type)} {e[x]} to i32") for x in op.parts]
    body = "stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], {$1, $2, $3, $4};"
    arguments = ", ".join(f"i32 {x}" for x in (e[op.at], *words))
    _asm(e, body, "r,r,r,r,r", arguments)


# Products ---------------------------------------------------------------------------------------


def _descriptor(e: FunctionText, op: gp.DescriptorOp) -> None:
    word = e.put(f"lshr i32 {e[op.slot]}, 4")
    word = e.put(f"and i32 {word}, 16383")
    wide = e.put(f"zext i32 {word} to i64")
    e.define(op.result, f"or i64 {wide}, {op.constant}")


def _wgmma(e: FunctionText, op: gp.WgmmaOp) -> None:
    """All steps in one text, so that nothing comes between the fence and them."""
    sums = [] if op.sums is None else _parts(e, op.sums)
    columns = op.columns.value.data
    count, first = columns // 2, columns // 2 + len(sums)
    kind = _WGMMA_TYPES[dtype_of(op.element).name]
    sides = [(op.rhs, op.offsets(op.rhs_step, op.rhs_box), op.rhs_turned)]
    pairs: list[str] = []
    if isinstance(op.lhs.type, VectorType):
        pairs = _pairs(e, op.lhs)
    else:
        sides.insert(0, (op.lhs, op.offsets(op.lhs_step, op.lhs_box), op.lhs_turned))
    wide = dtype_of(op.element).bytes == 2  # only those may lie either way
    turned = "".join(f", {int(x is not None)}" for _, _, x in sides) if wide else ""
    registers = ",".join(f"${k}" for k in range(count))
    body, factors = r"wgmma.fence.sync.aligned;\0A", [e[x] for x, _, _ in sides]
    for step in range(op.steps.value.data):
        names: list[str] = []
        if pairs:
            names.append("{" + ",".join(f"${first + 4 * step + k}" for k in range(4)) + "}")
        for number, (_, offsets, _) in enumerate(sides):
            given, offset = f"${first + len(pairs) + number}", offsets[step] >> 4
            names.append(f"d{step}_{number}" if offset else given)
            if offset:
                body += f".reg .b64 {names[-1]}; add.s64 {names[-1]}, {given}, {offset};\\0A"
        begins = int(bool(sums) or step > 0)
        body += (
            f"wgmma.mma_async.sync.aligned.m64n{columns}k{op.depth}.f32.{kind}.{kind}"
            f" {{{registers}}}, {', '.join(names)}, {begins}, 1, 1{turned};\\0A"
        )
    body = "{ " + body + "wgmma.commit_group.sync.aligned; }"
    given = [*(("r", f"i32 {x}") for x in pairs), *(("l", f"i64 {x}") for x in factors)]
    _tied(e, op.result, body, sums, given)


_WGMMA_TYPES = {"bf16": "bf16", "f16": "f16", "f8e4m3fn": "e4m3", "f8e5m2": "e5m2"}
_MMA_TYPES = {"bf16": "bf16", "f16": "f16", "f32": "tf32", "f64": "f64"}


def _mma(e: FunctionText, op: gp.MmaOp) -> None:
    """One instruction, which touches nothing but its registers."""
    m, n, k = op.shape
    kind, sums = _MMA_TYPES[op.dtype.name], "f64" if op.dtype is F64 else "f32"
    parts = [_registers_of(e, x) for x in (op.lhs, op.rhs)]
    begin = _parts(e, op.sums)
    count, number = len(begin), 0
    names: list[str] = []
    for size in (count, *map(len, parts)):
        names.append("{" + ", ".join(f"${number + i}" for i in range(size)) + "}")
        number += size
    result, lhs, rhs = names
    body = (
        f"mma.sync.aligned.m{m}n{n}k{k}.row.col.{sums}.{kind}.{kind}.{sums}"
        f" {result}, {lhs}, {rhs}, {{{', '.join(f'${number + i}' for i in range(count))}}};"
    )
    spelled, letter = ("double", "d") if op.dtype is F64 else ("float", "f")
    word, register = ("double", "d") if op.dtype is F64 else ("i32", "r")
    kinds = f"{{{', '.join([spelled] * count)}}}"
    constraints = ",".join(
        (*[f"={letter}"] * count, *[register] * sum(map(len, parts)), *[letter] * count)
    )
    given = ", ".join(
        (*(f"{word} {x}" for part in parts for x in part), *(f"{spelled} {x}" for x in begin))
    )
    made = e.put(f'call {kinds} asm "{body}", "{constraints}"({given})')
    vector, whole = "poison", e.type(op.result.type)
    for i in range(count):
        part = e.put(f"extractvalue {kinds} {made}, {i}")
        vector = e.put(f"insertelement {whole} {vector}, {spelled} {part}, i32 {i}")
    e[op.result] = vector


def _registers_of(e: FunctionText, value: SSAValue) -> list[str]:
    """A vector as registers: words of 32 bits, or numbers of 64."""
    kind = cast("VectorType[Attribute]", value.type)
    if isinstance(kind.element_type, Float64Type):
        return _parts(e, value)
    (count,) = kind.get_shape()
    words = count // 2 if isinstance(kind.element_type, BFloat16Type | Float16Type) else count
    whole = e.put(f"bitcast {e.type(kind)} {e[value]} to <{words} x i32>")
    return [e.put(f"extractelement <{words} x i32> {whole}, i32 {k}") for k in range(words)]


def _load_matrix(e: FunctionText, op: gp.LoadMatrixOp) -> None:
    kind = op.result.type
    words = kind.get_shape()[0] // 2
    place = e.address(e.buffer(op.source), op.at)
    turned = "" if op.turned is None else ".trans"
    parts = f"{{{', '.join(['i32'] * words)}}}"
    made = e.put(
        f"call {parts} @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{words}{turned}.b16.p3"
        f"(ptr addrspace(3) {place})"
    )
    vector = "poison"
    for k in range(words):
        word = e.put(f"extractvalue {parts} {made}, {k}")
        vector = e.put(f"insertelement <{words} x i32> {vector}, i32 {word}, i32 {k}")
    e.define(op.result, f"bitcast <{words} x i32> {vector} to {e.type(kind)}")


def _round_tf32(e: FunctionText, op: gp.RoundTf32Op) -> None:
    word = e.put(f"call i32 @llvm.nvvm.f2tf32.rna(float {e[op.value]})")
    e.define(op.result, f"bitcast i32 {word} to float")


def _wgmma_wait(e: FunctionText, op: gp.WgmmaWaitOp) -> None:
    body = f"wgmma.wait_group.sync.aligned {op.pending.value.data};"
    kept = [] if op.kept is None else _pairs(e, op.kept)
    _tied(e, op.result, body, _parts(e, op.sums), [("r", f"i32 {x}") for x in kept])


def _pairs(e: FunctionText, value: SSAValue) -> list[str]:
    """A vector of elements of 16 bits as words."""
    (count,) = cast("VectorType[Attribute]", value.type).get_shape()
    words = e.put(f"bitcast {e.type(value.type)} {e[value]} to <{count // 2} x i32>")
    return [
        e.put(f"extractelement <{count // 2} x i32> {words}, i32 {k}") for k in range(count // 2)
    ]


def _parts(e: FunctionText, sums: SSAValue) -> list[str]:
    kind = e.type(sums.type)
    (count,) = cast("VectorType[Attribute]", sums.type).get_shape()
    return [e.put(f"extractelement {kind} {e[sums]}, i32 {k}") for k in range(count)]


def _tied(
    e: FunctionText, result: SSAValue, body: str, sums: list[str], given: list[tuple[str, str]]
) -> None:
    """A text that writes the registers of sums, and reads them and what is given."""
    (count,) = cast("VectorType[Attribute]", result.type).get_shape()
    kinds = f"{{{', '.join(['float'] * count)}}}"
    constraints = ",".join(
        (*["=f"] * count, *map(str, range(len(sums))), *(kind for kind, _ in given), "~{memory}")
    )
    arguments = ", ".join((*(f"float {x}" for x in sums), *(x for _, x in given)))
    made = e.put(f'call {kinds} asm sideeffect "{body}", "{constraints}"({arguments})')
    vector, spelled = "poison", e.type(result.type)
    for k in range(count):
        part = e.put(f"extractvalue {kinds} {made}, {k}")
        vector = e.put(f"insertelement {spelled} {vector}, float {part}, i32 {k}")
    e[result] = vector


RULES.on(ga.DynamicSharedOp, _dynamic_shared)
RULES.on(ga.ElectOp, _elect)
RULES.on(ga.UniformOp, _uniform)
RULES.on(ga.RegistersOp, _registers)
RULES.on(ga.BarrierInitOp, _barrier_init)
RULES.on(ga.BarrierFenceOp, _barrier_fence)
RULES.on(ga.BarrierExpectOp, _barrier_expect)
RULES.on(ga.BarrierArriveOp, _barrier_arrive)
RULES.on(ga.BarrierWaitOp, _barrier_wait)
RULES.on(ga.WarpBarrierOp, _warp_barrier)
RULES.on(ga.PrefetchMapOp, _prefetch_map)
RULES.on(ga.BulkLoadOp, _bulk_load)
RULES.on(ga.BulkStoreOp, _bulk_store)
RULES.on(ga.BulkWaitOp, _bulk_wait)
RULES.on(ga.AsyncFenceOp, _async_fence)
RULES.on(gp.StoreMatrixOp, _store_matrix)
RULES.on(gp.DescriptorOp, _descriptor)
RULES.on(gp.LoadMatrixOp, _load_matrix)
RULES.on(gp.MmaOp, _mma)
RULES.on(gp.RoundTf32Op, _round_tf32)
RULES.on(gp.WgmmaOp, _wgmma)
RULES.on(gp.WgmmaWaitOp, _wgmma_wait)
