"""mlc_par: fields of the context, parallel regions as outlined functions, early exits."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, IntegerType, MemRefType
from xdsl.ir import Attribute, Operation, Region, SSAValue

from mlc.dialects import abi, par
from mlc.dialects.lapack import LapackFoundOp, LapackOp
from mlc.lowering.emit.function import LEAVE, Buffer, FunctionText, Rules
from mlc.lowering.emit.scf import nothing, terminator
from mlc.lowering.emit.types import EmitError, symbol

RULES = Rules()


def _field(e: FunctionText, ctx: str, field: int) -> str:
    """Address of a field of the context."""
    if field == 0:
        return ctx
    return e.put(f"getelementptr inbounds i8, ptr {ctx}, i64 {field}")


def _threads(e: FunctionText, op: par.ThreadsOp) -> None:
    where = _field(e, e[op.operands[0]], abi.CTX_THREADS)
    e.define(op.results[0], f"load i64, ptr {where}, align 8")


def _team(e: FunctionText, op: par.TeamOp) -> None:
    ctx, shares, waking = (e[x] for x in op.operands)
    threads = e.put(f"load i64, ptr {_field(e, ctx, abi.CTX_THREADS)}, align 8")
    e.module.declare(abi.TEAM_SYMBOL, f"declare i64 @{abi.TEAM_SYMBOL}(i64, i64, i64) nounwind")
    passed = f"i64 {threads}, i64 {shares}, i64 {waking}"
    e.define(op.results[0], f"call i64 @{abi.TEAM_SYMBOL}({passed})")


def _arena(e: FunctionText, op: par.ArenaOp) -> None:
    ctx, byte_offset, *dynamic = op.operands
    result = op.results[0]
    arena = e.put(f"load ptr, ptr {_field(e, e[ctx], abi.CTX_ARENA)}, align 8")
    offset = e[byte_offset]
    pointer = arena
    if offset != "0":
        pointer = e.put(f"getelementptr inbounds i8, ptr {arena}, i64 {offset}")
    sizes = iter(dynamic)
    shape = cast("MemRefType[Attribute]", result.type).get_shape()
    e.bind_row_major(
        result, pointer, [e[next(sizes)] if n == DYNAMIC_INDEX else str(n) for n in shape]
    )


def _shift(e: FunctionText, op: par.ShiftOp) -> None:
    source, offset, *dynamic = op.operands
    buffer, result = e.buffer(source), op.results[0]
    start = Buffer(buffer.pointer, (), (), buffer.pointer, buffer.type)
    pointer = e.derived(e.shifted(start, e[offset]), buffer.pointer)
    sizes = iter(dynamic)
    shape = cast("MemRefType[Attribute]", result.type).get_shape()
    e.bind_row_major(
        result, pointer, [e[next(sizes)] if n == DYNAMIC_INDEX else str(n) for n in shape]
    )


def _entry_exits(e: FunctionText, op: Operation) -> set[int]:
    if e.exits is None:
        raise EmitError(f"emit: @{e.name}: '{op.name}' only stands in the entry function")
    return e.exits


def exit_label(status: int) -> str:
    """The block that returns this status."""
    return f"exit.{status}"


def _reserve(e: FunctionText, op: par.ReserveOp) -> None:
    exits = _entry_exits(e, op)
    ctx, wanted = e[op.operands[0]], e[op.operands[1]]
    grow, done = e.labels("grow", "done")
    have = e.put(f"load i64, ptr {_field(e, ctx, abi.CTX_ARENA_BYTES)}, align 8")
    callback = e.put(f"load ptr, ptr {_field(e, ctx, abi.CTX_GROW)}, align 8")
    short = e.put(f"icmp ult i64 {have}, {wanted}")
    e.branch(short, grow, done)
    e.open(grow)
    status = e.put(f"call i32 {callback}(ptr {ctx}, i64 {wanted})")
    failed = e.put(f"icmp ne i32 {status}, 0")
    exits.add(abi.STATUS_OUT_OF_MEMORY)
    e.branch(failed, exit_label(abi.STATUS_OUT_OF_MEMORY), done)
    e.open(done)


def _cancelled(e: FunctionText, ctx: str) -> str:
    """The counter of interrupts has moved since the call began."""
    counter = e.put(f"load ptr, ptr {_field(e, ctx, abi.CTX_CANCEL)}, align 8")
    began = e.put(f"load i64, ptr {_field(e, ctx, abi.CTX_CANCEL_BASE)}, align 8")
    now = e.put(f"load atomic i64, ptr {counter} monotonic, align 8")
    return e.put(f"icmp ne i64 {now}, {began}")


def _cancelled_op(e: FunctionText, op: par.CancelledOp) -> None:
    e[op.results[0]] = _cancelled(e, e[op.operands[0]])


def _stopped(e: FunctionText, op: par.StoppedOp) -> None:
    ctx = e[op.operands[0]]
    where = _field(e, ctx, abi.CTX_ERROR_SITE)
    site = e.put(f"load atomic i64, ptr {where} monotonic, align 8")
    failed = e.put(f"icmp ne i64 {site}, 0")
    e.define(op.results[0], f"or i1 {failed}, {_cancelled(e, ctx)}")


def _check(e: FunctionText, op: par.CheckOp) -> None:
    exits = _entry_exits(e, op)
    ctx = e[op.operands[0]]
    (no_error,) = e.labels("checked")
    (running,) = e.labels("running")
    site = e.put(f"load i64, ptr {_field(e, ctx, abi.CTX_ERROR_SITE)}, align 8")
    failed = e.put(f"icmp ne i64 {site}, 0")
    e.branch(failed, exit_label(abi.STATUS_RUN_TIME_ERROR), no_error)
    e.open(no_error)
    e.branch(_cancelled(e, ctx), exit_label(abi.STATUS_CANCELLED), running)
    e.open(running)
    exits.update((abi.STATUS_RUN_TIME_ERROR, abi.STATUS_CANCELLED))


def _fail(e: FunctionText, op: par.FailOp) -> None:
    ctx, value, extent = (e[operand] for operand in op.operands)
    site = cast("IntegerAttr[IntegerType]", op.properties["site"]).value.data
    first, done = e.labels("fail", "done")
    where = _field(e, ctx, abi.CTX_ERROR_SITE)
    orders = f"{e.module.scope}monotonic monotonic"
    swap = e.put(f"cmpxchg ptr {where}, i64 0, i64 {site} {orders}")
    won = e.put(f"extractvalue {{ i64, i1 }} {swap}, 1")
    e.branch(won, first, done)
    e.open(first)
    e.do(f"store i64 {value}, ptr {_field(e, ctx, abi.CTX_ERROR_VALUE)}, align 8")
    e.do(f"store i64 {extent}, ptr {_field(e, ctx, abi.CTX_ERROR_EXTENT)}, align 8")
    e.jump(done)
    e.open(done)


def _library(e: FunctionText, op: par.LibraryOp) -> None:
    numbers = [cast("IntegerAttr[IntegerType]", x).value.data for x in (op.routine, op.dtype)]
    parameters = ["i64"] * 2 + ["ptr"] * 4 + ["i64"] * 5
    e.module.declare(
        abi.LIBRARY_SYMBOL, f"declare i64 @{abi.LIBRARY_SYMBOL}({', '.join(parameters)}) nounwind"
    )
    passed = [f"i64 {n}" for n in numbers]
    passed += [f"ptr {e.buffer(x).pointer}" for x in op.buffers]
    passed += [f"i64 {e[x]}" for x in op.sizes]
    e.define(op.status, f"call i64 @{abi.LIBRARY_SYMBOL}({', '.join(passed)})")


def _routine(e: FunctionText, name: str) -> str:
    """The address of a routine of LAPACK."""
    e.module.declare(abi.LAPACK_SYMBOL, f"declare ptr @{abi.LAPACK_SYMBOL}(i64) nounwind")
    return e.put(f"call ptr @{abi.LAPACK_SYMBOL}(i64 {list(abi.LAPACK).index(name)})")


def _lapack_found(e: FunctionText, op: LapackFoundOp) -> None:
    e.define(op.found, f"icmp ne ptr {_routine(e, op.routine.data)}, null")


def _lapack(e: FunctionText, op: LapackOp) -> None:
    """Integers are words, of which a library with 32 bits reads and writes the lower halves."""

    def room(kind: str, value: str) -> str:
        slot = e.fresh()
        e.allocas.append(f"  {slot} = alloca {kind}, align 8")
        e.do(f"store {kind} {value}, ptr {slot}, align 8")
        return slot

    letters = op.letters.data
    passed = [room("i8", str(ord(letter))) for letter in letters]
    for x in op.arguments:
        is_array = isinstance(x.type, MemRefType)
        passed.append(e.buffer(x).pointer if is_array else room("i64", e[x]))
    passed.append(room("i64", "0"))
    arguments = ", ".join([f"ptr {x}" for x in passed] + ["i64 1"] * len(letters))
    e.do(f"call void {_routine(e, op.routine.data)}({arguments})")
    e.define(op.info, f"load i64, ptr {passed[-1]}, align 8")


def _barrier(e: FunctionText, op: par.BarrierOp) -> None:
    declaration = f"declare zeroext i1 @{abi.BARRIER_SYMBOL}(ptr, i64, i64) nounwind"
    e.module.declare(abi.BARRIER_SYMBOL, declaration)
    ctx, worker, workers = (e[x] for x in op.operands)
    passed = f"ptr {ctx}, i64 {worker}, i64 {workers}"
    e.define(op.stop, f"call zeroext i1 @{abi.BARRIER_SYMBOL}({passed})")


def _take(e: FunctionText, op: par.TakeOp) -> None:
    e.module.declare(abi.TAKE_SYMBOL, f"declare i64 @{abi.TAKE_SYMBOL}(ptr, i64, i64) nounwind")
    ctx, last, threads = (e[x] for x in op.operands)
    e.define(op.trip, f"call i64 @{abi.TAKE_SYMBOL}(ptr {ctx}, i64 {last}, i64 {threads})")


def _leave(e: FunctionText, op: par.LeaveOp) -> None:
    if e.exits is not None:
        raise EmitError(f"emit: @{e.name}: '{op.name}' stands in a region or a kernel")
    (stays,) = e.labels("stays")
    e.leaves = True
    e.branch(e[op.stop], LEAVE, stays)
    e.open(stays)


def _captured(e: FunctionText, region: Region) -> tuple[dict[str, str], bool]:
    """
    (LLVM values that the region takes from outside: name -> type, whether it has a barrier).
    A value is from outside if it is already written. Literals and globals need no passing on.
    """
    found: dict[str, str] = {}
    barrier = False
    for op in region.walk():
        barrier = barrier or isinstance(op, par.BarrierOp)
        for value in op.operands:
            found.update((name, kind) for name, kind in _named(e, value) if name[:1] == "%")
    return found, barrier


def _named(e: FunctionText, value: SSAValue) -> list[tuple[str, str]]:
    name = e.names.get(id(value))
    if name is not None:
        return [(name, e.type(value.type))]
    buffer = e.buffers.get(id(value))
    if buffer is None:
        return []
    pointer = e.type(buffer.type)
    lengths = [(text, "i64") for text in (*buffer.strides, *buffer.sizes)]
    return [(buffer.pointer, pointer), (buffer.base, pointer), *lengths]


def _parameter_attributes(e: FunctionText, captured: dict[str, str], *, barrier: bool) -> list[str]:
    """
    Attributes that a captured pointer keeps. `noalias` goes where another captured pointer leads
    into the same memory, and for everything written when there is a barrier: what other threads
    wrote must be read after it, which `noalias` would deny.
    """
    roots: dict[str, int] = {}
    for name in captured:
        root = e.pointer_root.get(name, name)
        roots[root] = roots.get(root, 0) + 1
    texts: list[str] = []
    for name in captured:
        root = e.pointer_root.get(name, name)
        words = e.pointer_attributes.get(root, "").split()
        if (barrier and "readonly" not in words) or roots[root] > 1:
            words = [word for word in words if word != "noalias"]
        if root != name and "align" in words:
            where = words.index("align")
            del words[where : where + 2]
        texts.append(" ".join(words))
    return texts


def _region(e: FunctionText, op: par.RegionOp) -> None:
    ctx, threads = (e[x] for x in op.operands)
    region = op.regions[0]
    captured, barrier = _captured(e, region)
    number = e.module.regions
    e.module.regions += 1
    body = symbol(f"{e.name}.region{number}")
    starter = symbol(f"{e.name}.thread{number}")
    attributes = _parameter_attributes(e, captured, barrier=barrier)
    _write_body(e, region, body, captured, attributes)

    passed = "".join(f"{spelled} {name}, " for name, spelled in captured.items())
    several, alone, done = e.labels("parallel", "serial", "end")
    frame = f"{{ {', '.join((*captured.values(), 'i64'))} }}"
    slot = e.fresh()
    e.allocas.append(f"  {slot} = alloca {frame}")
    e.branch(e.put(f"icmp sgt i64 {threads}, 1"), several, alone)
    e.open(several)
    for k, (name, spelled) in enumerate([*captured.items(), (threads, "i64")]):
        where = e.put(f"getelementptr inbounds {frame}, ptr {slot}, i32 0, i32 {k}")
        e.do(f"store {spelled} {name}, ptr {where}")
    available = e.put(f"load i64, ptr {_field(e, ctx, abi.CTX_THREADS)}, align 8")
    count = e.put(f"trunc i64 {available} to i32")
    e.module.declare("GOMP_parallel", "declare void @GOMP_parallel(ptr, ptr, i32, i32) nounwind")
    e.do(f"call void @GOMP_parallel(ptr {starter}, ptr {slot}, i32 {count}, i32 0)")
    e.jump(done)
    e.open(alone)
    e.do(f"call void {body}({passed}i64 0, i64 1)")
    e.jump(done)
    e.open(done)
    _write_starter(e, starter, body, captured)


def _write_body(
    e: FunctionText, region: Region, name: str, captured: dict[str, str], attributes: list[str]
) -> None:
    """`void region(captured…, i64 tid, i64 nt)`: names inside are the names outside."""
    inner = e.nested(e.name)
    block = region.block
    thread, count = inner.fresh(), inner.fresh()
    inner[block.args[0]], inner[block.args[1]] = thread, count
    for (pointer, _), text in zip(captured.items(), attributes, strict=True):
        if text:
            inner.pointer_attributes[pointer] = text
    inner.run(block)
    terminator(inner, block)
    inner.do("ret void")
    parameters = [
        f"{spelled} {text} {pointer}" if text else f"{spelled} {pointer}"
        for (pointer, spelled), text in zip(captured.items(), attributes, strict=True)
    ]
    parameters += [f"i64 {thread}", f"i64 {count}"]
    inner.finish(f"define internal void {name}({', '.join(parameters)}) #0 {{")


def _write_starter(e: FunctionText, name: str, body: str, captured: dict[str, str]) -> None:
    """`void thread(ptr frame)`, what the OpenMP runtime calls on each thread."""
    e.module.declare("omp_get_thread_num", "declare i32 @omp_get_thread_num() nounwind")
    e.module.declare("omp_get_num_threads", "declare i32 @omp_get_num_threads() nounwind")
    starter = FunctionText(e.module, e.rules, e.name)
    kinds = [*captured.values(), "i64"]
    frame = f"{{ {', '.join(kinds)} }}"
    values: list[str] = []
    for k, spelled in enumerate(kinds):
        where = starter.put(f"getelementptr inbounds {frame}, ptr %frame, i32 0, i32 {k}")
        values.append(starter.put(f"load {spelled}, ptr {where}"))
    thread = starter.put("call i32 @omp_get_thread_num()")
    count = starter.put("call i32 @omp_get_num_threads()")
    thread = starter.put(f"zext i32 {thread} to i64")
    count = starter.put(f"zext i32 {count} to i64")
    few = starter.put(f"icmp slt i64 {count}, {values[-1]}")
    team = starter.put(f"select i1 {few}, i64 {count}, i64 {values[-1]}")
    works, done = starter.labels("works", "done")
    starter.branch(starter.put(f"icmp slt i64 {thread}, {team}"), works, done)
    starter.open(works)
    passed = "".join(f"{spelled} {x}, " for spelled, x in zip(kinds[:-1], values, strict=False))
    starter.do(f"call void {body}({passed}i64 {thread}, i64 {team})")
    starter.jump(done)
    starter.open(done)
    starter.do("ret void")
    starter.finish(f"define internal void {name}(ptr %frame) #0 {{")


RULES.on(par.ThreadsOp, _threads)
RULES.on(par.TeamOp, _team)
RULES.on(par.ArenaOp, _arena)
RULES.on(par.ShiftOp, _shift)
RULES.on(par.ReserveOp, _reserve)
RULES.on(par.CancelledOp, _cancelled_op)
RULES.on(par.StoppedOp, _stopped)
RULES.on(par.CheckOp, _check)
RULES.on(par.FailOp, _fail)
RULES.on(par.BarrierOp, _barrier)
RULES.on(par.TakeOp, _take)
RULES.on(par.LeaveOp, _leave)
RULES.on(par.LibraryOp, _library)
RULES.on(LapackFoundOp, _lapack_found)
RULES.on(LapackOp, _lapack)
RULES.on(par.RegionOp, _region)
RULES[par.YieldOp] = nothing
