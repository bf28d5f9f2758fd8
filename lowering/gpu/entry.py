"""The entry of a GPU program as a launch plan: every op becomes a step on numbered registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    NoneAttr,
    SymbolRefAttr,
)
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects import gpu, launch, par
from mlc.dialects.dtypes import dtype_of
from mlc.dialects.gpu_async import TensorMapOp
from mlc.dialects.launch import ARENA, ERROR_WORD, FIRST_SIZE, LaunchPlan, Register, Step
from mlc.lazy_dataclass import dataclass
from mlc.lowering.emit.function import as_memref, dynamic_dims
from mlc.lowering.emit.types import EmitError

_ARITHMETIC: dict[type[Operation], launch.Arithmetic] = {
    arith.AddiOp: "add",
    arith.SubiOp: "sub",
    arith.MuliOp: "mul",
    arith.DivUIOp: "div",
    arith.FloorDivSIOp: "div",
    arith.MinSIOp: "min",
    arith.MaxSIOp: "max",
    arith.AndIOp: "and",
    arith.SelectOp: "select",
}
_COMPARISONS: tuple[launch.Arithmetic, ...] = ("eq", "ne", "lt", "le", "gt", "ge")  # arith.cmpi


@dataclass(frozen=True)
class _Buffer:
    """A memref: registers of its address, its sizes and its strides."""

    pointer: Register
    sizes: tuple[Register, ...] = ()
    strides: tuple[Register, ...] = ()


def launch_plan(entry: func.FuncOp, module: ModuleOp, *, fails: bool) -> LaunchPlan:
    """What the host does for one call of `entry`."""
    return _Planner(entry, module).plan(fails)


class _Planner:
    """Walks the entry and writes steps."""

    def __init__(self, entry: func.FuncOp, module: ModuleOp) -> None:
        self.entry = entry
        self.globals = {
            op.sym_name.data: op for op in module.body.block.ops if isinstance(op, memref.GlobalOp)
        }
        counts = cast("DictionaryAttr", entry.attributes["mlc.entry"]).data
        self.inputs, self.outputs = (
            cast("IntegerAttr[IntegerType]", counts[key]).value.data
            for key in ("inputs", "outputs")
        )
        self.registers = FIRST_SIZE
        self.numbers: dict[SSAValue, Register] = {}
        self.buffers: dict[SSAValue, _Buffer] = {}
        self.maps: dict[SSAValue, launch.TensorMap] = {}
        self.known: dict[int, Register] = {}
        self.constants: dict[str, Register] = {}
        self.steps: list[Step] = []

    def plan(self, fails: bool) -> LaunchPlan:
        """The whole plan."""
        block = self.entry.body.block
        sizes = 0
        for argument in block.args:
            if isinstance(argument.type, IndexType):
                self.numbers[argument] = self.fresh()
                sizes += 1
        for argument in block.args:
            if isinstance(argument.type, MemRefType):
                self.buffers[argument] = _Buffer(self.fresh())
        for name in self.globals:
            self.constants[name] = self.fresh()
        self.run(block)
        return LaunchPlan(
            registers=self.registers,
            sizes=sizes,
            inputs=self.inputs,
            outputs=self.outputs,
            known=tuple((register, value) for value, register in self.known.items()),
            constants=tuple(_bytes(op) for op in self.globals.values()),
            steps=tuple(self.steps),
            fails=fails,
        )

    def fresh(self) -> Register:
        """A new register."""
        self.registers += 1
        return self.registers - 1

    def literal(self, value: int) -> Register:
        """A register that holds a known value."""
        if value not in self.known:
            self.known[value] = self.fresh()
        return self.known[value]

    def block_steps(self, block: Block) -> tuple[Step, ...]:
        """The steps of a nested block."""
        outer, self.steps = self.steps, []
        self.run(block)
        inner, self.steps = self.steps, outer
        return tuple(inner)

    def run(self, block: Block) -> None:
        """Writes the steps of a block's ops."""
        for op in block.ops:
            arithmetic = _ARITHMETIC.get(type(op))
            if arithmetic is not None:
                self._compute(op, arithmetic)
                continue
            rule = _RULES.get(type(op))
            if rule is None:
                raise EmitError(f"emit: the entry of a GPU program cannot hold '{op.name}'")
            rule(self, op)

    # ops --------------------------------------------------------------------------------------

    def _compute(self, op: Operation, name: launch.Arithmetic) -> None:
        result = self.numbers[op.results[0]] = self.fresh()
        operands = tuple(self.numbers[x] for x in op.operands)
        self.steps.append(launch.Compute(name, result, operands))

    def constant(self, op: Operation) -> None:
        """arith.constant"""
        value = cast("IntegerAttr[IndexType]", op.properties["value"]).value.data
        self.numbers[op.results[0]] = self.literal(value)

    def compare(self, op: Operation) -> None:
        """arith.cmpi"""
        code = cast("IntegerAttr[IntegerType]", op.properties["predicate"]).value.data
        if code >= len(_COMPARISONS):
            raise EmitError(f"emit: the entry of a GPU program compares signed numbers: {op}")
        self._compute(op, _COMPARISONS[code])

    def same(self, op: Operation) -> None:
        """arith.index_cast: every number is 64 bits wide."""
        self.numbers[op.results[0]] = self.numbers[op.operands[0]]

    def reserve(self, op: Operation) -> None:
        """mlc_par.reserve"""
        self.steps.append(launch.Reserve(self.numbers[op.operands[1]]))

    def arena(self, op: Operation) -> None:
        """mlc_par.arena: an address."""
        pointer = self.fresh()
        offset = self.numbers[op.operands[1]]
        self.steps.append(launch.Compute("add", pointer, (ARENA, offset)))
        self.buffers[op.results[0]] = _Buffer(pointer)

    def get_global(self, op: Operation) -> None:
        """memref.get_global"""
        name = cast("SymbolRefAttr", op.properties["name"]).root_reference.data
        self.buffers[op.results[0]] = _Buffer(self.constants[name])

    def view(self, op: Operation) -> None:
        """memref.reinterpret_cast"""
        dynamic = iter(op.operands[1:])

        def mixed(key: str) -> tuple[Register, ...]:
            values = cast("DenseArrayBase[IntegerType]", op.properties[key]).get_values()
            return tuple(
                self.numbers[next(dynamic)] if v == DYNAMIC_INDEX else self.literal(v)
                for v in values
            )

        _offset, sizes, strides = (
            mixed(key) for key in ("static_offsets", "static_sizes", "static_strides")
        )
        source = self.buffers[op.operands[0]]
        self.buffers[op.results[0]] = _Buffer(source.pointer, sizes, strides)

    def cast_view(self, op: Operation) -> None:
        """memref.cast"""
        self.buffers[op.results[0]] = self.buffers[op.operands[0]]

    def load(self, op: Operation) -> None:
        """memref.load of a number, such as a trip count or a condition."""
        result = self.numbers[op.results[0]] = self.fresh()
        pointer = self.buffers[op.operands[0]].pointer
        width = cast("IntegerType", op.results[0].type).width.data
        self.steps.append(launch.ReadNumber(result, pointer, width // 8))

    def write_index(self, op: Operation) -> None:
        """mlc_gpu.write_index"""
        value, pointer = self.numbers[op.operands[0]], self.buffers[op.operands[1]].pointer
        self.steps.append(launch.WriteNumber(value, pointer))

    def library(self, op: par.LibraryOp) -> None:
        """mlc_par.library"""
        result = self.numbers[op.status] = self.fresh()
        *operands, output = (self.buffers[x].pointer for x in op.buffers)
        routine, dtype = (
            cast("IntegerAttr[IntegerType]", x).value.data for x in (op.routine, op.dtype)
        )
        sizes = tuple(self.numbers[x] for x in op.sizes)
        self.steps.append(launch.Library(result, routine, dtype, tuple(operands), output, sizes))

    def fail(self, op: Operation) -> None:
        """mlc_par.fail"""
        _context, value, extent = op.operands
        site = cast("IntegerAttr[IntegerType]", op.properties["site"]).value.data
        self.steps.append(launch.Fail(site, self.numbers[value], self.numbers[extent]))

    def launch(self, op: gpu.LaunchOp) -> None:
        """mlc_gpu.launch"""
        grid, block = ([self.numbers[x] for x in xs] for xs in (op.grid, op.block))
        arguments = [part for x in op.arguments for part in self._flattened(x)]
        name = op.callee.root_reference.data
        shared = op.shared_bytes
        self.steps.append(
            launch.Launch(
                name,
                (grid[0], grid[1], grid[2]),
                (block[0], block[1], block[2]),
                tuple(arguments),
                0 if shared is None else shared.value.data,
            )
        )

    def tensor_map(self, op: TensorMapOp) -> None:
        """mlc_gpu.map"""
        kind = as_memref(op.buffer.type)
        assert kind is not None
        buffer = self.buffers[op.buffer]
        sizes, strides = tuple(buffer.sizes), tuple(buffer.strides[:-1])
        dtype = dtype_of(kind.element_type).name
        found = launch.TensorMap(buffer.pointer, sizes, strides, dtype, op.box)
        self.maps[op.result] = found

    def _flattened(self, value: SSAValue) -> Sequence[Register | launch.TensorMap]:
        """A kernel's argument as parameters: see `FunctionText.flatten_types`."""
        if value in self.maps:
            return (self.maps[value],)
        if isinstance(value.type, par.ContextType):
            return (ERROR_WORD,)
        buffer_type = as_memref(value.type)
        if buffer_type is None:
            return (self.numbers[value],)
        buffer = self.buffers[value]
        row_major = isinstance(buffer_type.layout, NoneAttr)
        parts = buffer.sizes if row_major else buffer.strides
        return (buffer.pointer, *(parts[dim] for dim in dynamic_dims(buffer_type)))

    def branch(self, op: Operation) -> None:
        """scf.if; results are addresses or numbers."""
        results = [self._name(x, x) for x in op.results]
        then, otherwise = (
            self._arm(region.block, results) if region.first_block is not None else ()
            for region in op.regions
        )
        self.steps.append(launch.Branch(self.numbers[op.operands[0]], then, otherwise))

    def _arm(self, block: Block, results: Sequence[Register]) -> tuple[Step, ...]:
        """The steps of a branch, which end with the results in their registers."""
        steps, zero = self.block_steps(block), self.literal(0)
        moves = (
            launch.Compute("add", result, (self._register(x), zero))
            for result, x in zip(results, _terminator(block).operands, strict=True)
        )
        return (*steps, *moves)

    def _name(self, *values: SSAValue, register: Register | None = None) -> Register:
        """A register that stands for these values, all addresses or all numbers."""
        found = self.fresh() if register is None else register
        for value in values:
            if isinstance(value.type, MemRefType):
                self.buffers[value] = _Buffer(found)
            else:
                self.numbers[value] = found
        return found

    def while_loop(self, op: Operation) -> None:
        """scf.while; carried values are addresses or numbers."""
        before, after = (region.block for region in op.regions)
        inits = tuple(self._register(x) for x in op.operands)
        carried = tuple(self._name(x) for x in before.args)
        test = self.block_steps(before)
        condition, *forwarded = _terminator(before).operands
        for value, argument, result in zip(forwarded, after.args, op.results, strict=True):
            self._name(argument, result, register=self._register(value))
        body = self.block_steps(after)
        self.steps.append(
            launch.While(
                carried=carried,
                inits=inits,
                test=test,
                condition=self.numbers[condition],
                body=body,
                yields=tuple(self._register(x) for x in _terminator(after).operands),
            )
        )

    def loop(self, op: Operation) -> None:
        """scf.for; carried values are addresses or numbers."""
        low, high, step, *inits = op.operands
        block = op.regions[0].block
        induction, *carried = block.args
        self.numbers[induction] = self.fresh()
        for value, result in zip(carried, op.results, strict=True):
            self._name(value, result)
        body = self.block_steps(block)
        last = _terminator(block)
        self.steps.append(
            launch.Loop(
                induction=self.numbers[induction],
                low=self.numbers[low],
                high=self.numbers[high],
                step=self.numbers[step],
                carried=tuple(self._register(x) for x in carried),
                inits=tuple(self._register(x) for x in inits),
                yields=tuple(self._register(x) for x in last.operands),
                body=body,
            )
        )

    def _register(self, value: SSAValue) -> Register:
        if isinstance(value.type, MemRefType):
            return self.buffers[value].pointer
        return self.numbers[value]

    def nothing(self, op: Operation) -> None:
        """Checks happen when the call ends; terminators belong to their ops."""


_RULES: dict[type[Operation], Callable[[_Planner, Operation], None]] = {
    arith.ConstantOp: _Planner.constant,
    arith.CmpiOp: _Planner.compare,
    arith.IndexCastOp: _Planner.same,
    memref.ReinterpretCastOp: _Planner.view,
    memref.CastOp: _Planner.cast_view,
    memref.GetGlobalOp: _Planner.get_global,
    memref.LoadOp: _Planner.load,
    par.ReserveOp: _Planner.reserve,
    par.ArenaOp: _Planner.arena,
    par.CheckOp: _Planner.nothing,
    par.FailOp: _Planner.fail,
    par.LibraryOp: cast("Callable[[_Planner, Operation], None]", _Planner.library),
    gpu.LaunchOp: cast("Callable[[_Planner, Operation], None]", _Planner.launch),
    TensorMapOp: cast("Callable[[_Planner, Operation], None]", _Planner.tensor_map),
    gpu.WriteIndexOp: _Planner.write_index,
    scf.IfOp: _Planner.branch,
    scf.ForOp: _Planner.loop,
    scf.WhileOp: _Planner.while_loop,
    scf.ConditionOp: _Planner.nothing,
    scf.YieldOp: _Planner.nothing,
    func.ReturnOp: _Planner.nothing,
}


def _terminator(block: Block) -> Operation:
    last = block.last_op
    assert last is not None
    return last


def _bytes(op: memref.GlobalOp) -> bytes:
    """The contents of a constant, as they lie in memory."""
    dense = op.properties["initial_value"]
    assert isinstance(dense, DenseIntOrFPElementsAttr)
    return dense.data.data
