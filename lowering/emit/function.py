"""
The state of one LLVM function while its text is written: names of values, the open basic block,
addresses of buffer elements, calls.

The rules that write single ops live beside this file, one file per dialect family.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import TypeVar, cast

from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IntAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    NoneAttr,
    StridedLayoutAttr,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlc.lazy_dataclass import dataclass
from mlc.lowering.emit.types import (
    EmitError,
    complex_part,
    item_bytes,
    llvm_type,
    memory_space,
    pointer_type,
)

OpT = TypeVar("OpT", bound=Operation)
Rule = Callable[["FunctionText", Operation], None]

_RARELY = '!{!"branch_weights", i32 1, i32 1048575}'
"""Weights of a branch as LLVM expects them of `expect(…, false)`, rounded."""

LEAVE = "leave"
"""The block in which a region or a kernel ends early."""

_FAST_MATH = ("reassoc", "nnan", "ninf", "nsz", "arcp", "contract", "afn")


DATA_LAYOUTS = {
    "x86_64": "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128",
    "nvptx64": "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64",
    "aarch64": "e-m:e-p270:32:32-p271:32:32-p272:64:64-i8:8:32-i16:16:32-i64:64-i128:128-n32:64-"
    "S128-Fn32",
}
"""
Architecture -> LLVM's data layout (Linux, CUDA). In the text because the IR passes run before the
code generator would set it. Source: TargetMachine.target_data of LLVM 22.
"""


class Rules(dict[type[Operation], Rule]):
    """The dispatch table: op class -> the function that writes it."""

    def on(self, op_class: type[OpT], rule: Callable[[FunctionText, OpT], None]) -> None:
        """`rule` writes ops of exactly this class."""
        self[op_class] = cast("Rule", rule)


@dataclass(frozen=True, slots=True)
class Buffer:
    """A memref value: where element [0, …, 0] is and how far apart the elements are."""

    pointer: str
    """Address of element [0, …, 0]; the offset of a strided layout is already in it."""
    strides: tuple[str, ...]
    """Elements between neighbours, per dim: names or integer literals."""
    sizes: tuple[str, ...]
    """Extents per dim; "" where the function does not know it."""
    base: str
    """Address the offset counts from; `memref.reinterpret_cast` starts here again."""
    type: MemRefType[Attribute]

    @property
    def names(self) -> tuple[str, ...]:
        """Everything that may be the name of an LLVM value."""
        return (self.pointer, self.base, *self.strides, *self.sizes)


@dataclass
class ModuleText:
    """The text of one LLVM module: functions, declarations, constants, metadata."""

    name: str
    triple: str
    attributes: str
    """Attributes of every function defined here, as LLVM spells them."""
    vector_bits: int
    least_masked_bytes: int = 1
    """Of the smallest elements that one instruction loads by a mask."""
    scope: str = ""
    """Who sees an atomic operation, as LLVM spells it: everybody, or `syncscope("device") `."""
    functions: list[list[str]] = field(default_factory=list[list[str]])
    declarations: dict[str, str] = field(default_factory=dict[str, str])
    constants: dict[str, str] = field(default_factory=dict[str, str])
    metadata: list[str] = field(default_factory=list[str])
    shared_metadata: dict[str, str] = field(default_factory=dict[str, str])
    instructions: set[str] = field(default_factory=set[str])
    """Rows of dialects/target/intrinsics.py whose instructions it calls."""
    regions: int = 0
    """Parallel regions outlined so far."""

    def declare(self, name: str, declaration: str) -> None:
        """An extern function; the first declaration of a name counts."""
        self.declarations.setdefault(name, declaration)

    def metadata_node(self, text: str) -> str:
        """The number (`!3`) of a uniqued node with this text."""
        node = self.shared_metadata.get(text)
        if node is None:
            node = self.shared_metadata[text] = f"!{len(self.metadata)}"
            self.metadata.append(f"{node} = {text}")
        return node

    def loop_metadata(self, properties: Sequence[str]) -> str:
        """A distinct loop id with these properties, each the text of a node."""
        nodes = [self.metadata_node(text) for text in properties]
        node = f"!{len(self.metadata)}"
        self.metadata.append(f"{node} = distinct !{{{', '.join((node, *nodes))}}}")
        return node

    def text(self) -> str:
        """The whole module."""
        parts = [f'source_filename = "{self.name}"']
        layout = DATA_LAYOUTS.get(self.triple.partition("-")[0])
        if layout is not None:
            parts.append(f'target datalayout = "{layout}"')
        parts += [f'target triple = "{self.triple}"', ""]
        parts += self.constants.values()
        parts += self.declarations.values()
        for lines in self.functions:
            parts.append("")
            parts += lines
        parts += ["", f"attributes #0 = {{ {self.attributes} }}", *self.metadata, ""]
        return "\n".join(parts)


class FunctionText:
    """One LLVM function under construction."""

    def __init__(self, module: ModuleText, rules: Rules, name: str) -> None:
        self.module = module
        self.rules = rules
        self.name = name
        self.lines: list[str | list[str]] = []
        """Lines of text; a list stands where code may be hoisted to, in front of a loop."""
        self.allocas: list[str] = []
        self.names: dict[int, str] = {}
        """id of an SSA value -> its name or literal. Values live as long as the IR does."""
        self.buffers: dict[int, Buffer] = {}
        self.pointer_attributes: dict[str, str] = {}
        """Attributes of pointer arguments (noalias, readonly, align), by name."""
        self.pointer_root: dict[str, str] = {}
        """Derived pointer -> the argument or allocation it points into."""
        self.block = "entry"
        self.leaves = False
        """Whether it is left early, where a team stops."""
        self.exits: set[int] | None = None
        """Status codes that the entry function leaves with early; None in a kernel."""
        self.vector_accesses = 0
        self._counter = 0
        self._labels = 0
        self._scopes: list[dict[str, str]] = [{}]
        """Instructions of `once` in the open regions, outermost first."""
        self._loops: list[tuple[list[str], dict[str, str]]] = []
        """Open loops: code in front of the loop, and the scope that code belongs to."""
        self._depths: dict[str, int] = {}
        """Number of loops around the definition of a name; 0 when absent."""
        self._types: dict[int, str] = {}
        self._flags: dict[int, str] = {}
        self._keep: list[Attribute] = []

    def nested(self, name: str) -> FunctionText:
        """A function that continues this one's names: the body of an outlined region."""
        inner = FunctionText(self.module, self.rules, name)
        inner.names, inner.buffers = self.names, self.buffers
        inner.pointer_root = self.pointer_root
        inner._counter = self._counter
        return inner

    # Values -----------------------------------------------------------------------------------

    def fresh(self) -> str:
        """A new value name."""
        self._counter += 1
        name = f"%v{self._counter}"
        if self._loops:
            self._depths[name] = len(self._loops)
        return name

    def type(self, value_type: Attribute) -> str:
        """`llvm_type`, remembered by the identity of the attribute."""
        key = id(value_type)
        text = self._types.get(key)
        if text is None:
            text = self._types[key] = llvm_type(value_type)
            self._keep.append(value_type)
        return text

    def __getitem__(self, value: SSAValue) -> str:
        """The name or literal of a scalar or vector."""
        name = self.names.get(id(value))
        if name is None:
            raise EmitError(
                f"emit: @{self.name}: value {value} is used before it is defined, or is no scalar"
                " or vector (mlc-verify-dominance finds the place)"
            )
        return name

    def __setitem__(self, value: SSAValue, name: str) -> None:
        self.names[id(value)] = name

    def buffer(self, value: SSAValue) -> Buffer:
        """The address of a memref value."""
        buffer = self.buffers.get(id(value))
        if buffer is None:
            raise EmitError(f"emit: @{self.name}: memref {value} is used before it is defined")
        return buffer

    def flags(self, op: Operation) -> str:
        """Fast-math flags of the op with a trailing space, "" without any."""
        attribute = op.properties.get("fastmath")
        if attribute is None:
            return ""
        key = id(attribute)
        text = self._flags.get(key)
        if text is None:
            assert isinstance(attribute, FastMathFlagsAttr)
            present = {str(flag.value) for flag in attribute.data}
            text = "".join(f"{flag} " for flag in _FAST_MATH if flag in present)
            self._flags[key] = text
            self._keep.append(attribute)
        return text

    # Instructions and blocks ------------------------------------------------------------------

    def put(self, instruction: str) -> str:
        """Writes an instruction; its new name."""
        name = self.fresh()
        self.lines.append(f"  {name} = {instruction}")
        return name

    def define(self, value: SSAValue, instruction: str) -> None:
        """Writes the instruction that computes `value`."""
        name = self.fresh()
        self.lines.append(f"  {name} = {instruction}")
        self.names[id(value)] = name

    def do(self, instruction: str) -> None:
        """Writes an instruction without a result."""
        self.lines.append(f"  {instruction}")

    def once(self, instruction: str, *operands: str) -> str:
        """
        As `put` for address arithmetic on `operands`: an equal instruction that is already there is
        used again, and one that does not change in a loop is written in front of it.
        """
        for scope in reversed(self._scopes):
            name = scope.get(instruction)
            if name is not None:
                return name
        depths = self._depths
        depth = max([depths.get(operand, 0) for operand in operands])
        if depth >= len(self._loops):
            name = self._scopes[-1][instruction] = self.put(instruction)
            return name
        lines, scope = self._loops[depth]
        name = self.fresh()
        depths[name] = depth
        scope[instruction] = name
        lines.append(f"  {name} = {instruction}")
        return name

    def enter_loop(self) -> None:
        """What follows is repeated; call before the jump to the loop's first block."""
        lines: list[str] = []
        self.lines.append(lines)
        self._loops.append((lines, self._scopes[-1]))

    def leave_loop(self) -> None:
        """The innermost loop ends here."""
        self._loops.pop()

    def labels(self, *stems: str) -> list[str]:
        """New block labels that share one number: for3, for3.body, …"""
        self._labels += 1
        first = f"{stems[0]}{self._labels}"
        return [first, *(f"{first}.{stem}" for stem in stems[1:])]

    def open(self, label: str) -> None:
        """Starts a basic block."""
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        """Ends the block with an unconditional branch."""
        self.lines.append(f"  br label %{label}")

    def branch(self, condition: str, then: str, otherwise: str, *, rarely: bool = False) -> None:
        """Ends the block with a two-way branch; `rarely`: the condition hardly ever holds."""
        weights = f", !prof {self.module.metadata_node(_RARELY)}" if rarely else ""
        self.lines.append(f"  br i1 {condition}, label %{then}, label %{otherwise}{weights}")

    def run(self, block: Block) -> None:
        """Writes the ops of a block; terminators are the business of the enclosing op's rule."""
        rules = self.rules
        self._scopes.append({})
        op = block.first_op
        while op is not None:
            rule = rules.get(type(op))
            if rule is None:
                raise EmitError(self._no_rule(op))
            rule(self, op)
            op = op.next_op
        self._scopes.pop()

    def _no_rule(self, op: Operation) -> str:
        hint = "a pass before the emitter should have replaced it"
        if op.name.startswith("math."):
            hint = "run mlc-expand-math before the emitter"
        return f"emit: @{self.name}: no rule for op '{op.name}'; {hint}"

    # Index arithmetic: names or integer literals, folded where both are literals ----------------

    def mul(self, a: str, b: str, flags: str = "nsw ") -> str:
        """a * b in i64."""
        if a[0] != "%":
            if b[0] != "%":
                return str(int(a) * int(b))
            a, b = b, a
        if b == "1":
            return a
        if b == "0":
            return "0"
        return self.once(f"mul {flags}i64 {a}, {b}", a, b)

    def add(self, a: str, b: str, flags: str = "nsw ") -> str:
        """a + b in i64."""
        if a[0] != "%":
            if b[0] != "%":
                return str(int(a) + int(b))
            a, b = b, a
        if b == "0":
            return a
        return self.once(f"add {flags}i64 {a}, {b}", a, b)

    def offset(self, strides: Sequence[str], indices: Sequence[str], flags: str = "nsw ") -> str:
        """Linear offset in elements: sum of index * stride."""
        total = "0"
        for index, stride in zip(indices, strides, strict=True):
            total = self.add(total, self.mul(index, stride, flags), flags)
        return total

    def address(self, buffer: Buffer, indices: Sequence[SSAValue], *, inside: bool = True) -> str:
        """
        Address of buffer[indices]. `inside=False` where the element may lie outside of the buffer
        (all lanes masked off): an `inbounds` address out of bounds would be poison.
        """
        names = self.names
        flags = "nsw " if inside else ""
        where = [names[id(index)] for index in indices]
        return self.shifted(buffer, self.offset(buffer.strides, where, flags), inside=inside)

    def shifted(self, buffer: Buffer, offset: str, *, inside: bool = True) -> str:
        """Address `offset` elements after element [0, …, 0]."""
        if offset == "0":
            return buffer.pointer
        bounds = "inbounds " if inside else ""
        element = self.type(buffer.type.element_type)
        pointer = self.type(buffer.type)
        return self.once(
            f"getelementptr {bounds}{element}, {pointer} {buffer.pointer}, i64 {offset}",
            buffer.pointer,
            offset,
        )

    # Buffers as lists of scalars: in signatures, calls and block arguments -----------------------

    def flatten_types(self, value_type: Attribute) -> list[str]:
        """
        LLVM types that a value of this type travels as. A memref is a pointer, then one i64 per
        dynamic size of dims >= 1 (row-major), or one per dynamic stride (strided layout).
        """
        buffer_type = as_memref(value_type)
        if buffer_type is None:
            return [self.type(value_type)]
        return [pointer_type(buffer_type), *["i64"] * len(dynamic_dims(buffer_type))]

    def flatten(self, value: SSAValue) -> list[str]:
        """The names that go with `flatten_types`."""
        buffer_type = as_memref(value.type)
        if buffer_type is None:
            return [self[value]]
        buffer = self.buffer(value)
        row_major = isinstance(buffer_type.layout, NoneAttr)
        parts = buffer.sizes if row_major else buffer.strides
        dynamic = [parts[dim] for dim in dynamic_dims(buffer_type)]
        if "" in dynamic:
            raise EmitError(f"emit: @{self.name}: {buffer_type}: a size of it is not known here")
        return [buffer.pointer, *dynamic]

    def bind(self, value: SSAValue, parts: Iterator[str]) -> None:
        """Gives `value` the names that `flatten` of another value of its type produced."""
        buffer_type = as_memref(value.type)
        if buffer_type is None:
            self.names[id(value)] = next(parts)
            return
        pointer = next(parts)
        dynamic = {dim: next(parts) for dim in dynamic_dims(buffer_type)}
        shape = ["" if n == DYNAMIC_INDEX else str(n) for n in buffer_type.get_shape()]
        layout = buffer_type.layout
        if isinstance(layout, StridedLayoutAttr):
            strides = tuple(
                str(stride.data) if isinstance(stride, IntAttr) else dynamic[dim]
                for dim, stride in enumerate(layout.strides.data)
            )
            self.buffers[id(value)] = Buffer(pointer, strides, tuple(shape), pointer, buffer_type)
            return
        for dim, name in dynamic.items():
            shape[dim] = name
        self.bind_row_major(value, pointer, shape)

    def bind_row_major(
        self, value: SSAValue, pointer: str, sizes: Sequence[str], base: str = ""
    ) -> None:
        """A buffer without gaps; the size of dim 0 is not needed and may be ""."""
        strides: list[str] = []
        step = "1"
        for size in reversed(sizes[1:]):
            strides.append(step)
            step = self.mul(step, size)
        if sizes:
            strides.append(step)
        buffer_type = cast("MemRefType[Attribute]", value.type)
        if not isinstance(buffer_type.layout, NoneAttr):
            raise EmitError(f"emit: @{self.name}: expected a row-major buffer, got {value.type}")
        self.buffers[id(value)] = Buffer(
            pointer, tuple(reversed(strides)), tuple(sizes), base or pointer, buffer_type
        )

    def derived(self, pointer: str, source: str) -> str:
        """Notes that `pointer` points into what `source` points into."""
        if pointer != source:
            self.pointer_root[pointer] = self.pointer_root.get(source, source)
        return pointer

    def finish(self, header: str) -> None:
        """Closes the function and hands it to the module."""
        lines = [header, "entry:", *self.allocas]
        for line in self.lines:
            if isinstance(line, str):
                lines.append(line)
            else:
                lines += line
        if self.leaves:
            lines += [f"{LEAVE}:", "  ret void"]
        self.module.functions.append([*lines, "}"])


def as_memref(value_type: Attribute) -> MemRefType[Attribute] | None:
    """The type if it is a memref type."""
    if isinstance(value_type, MemRefType):
        return cast("MemRefType[Attribute]", value_type)
    return None


def dynamic_dims(buffer_type: MemRefType[Attribute]) -> list[int]:
    """Dims whose size (row-major: dims >= 1) or stride (strided layout) varies at run time."""
    layout = buffer_type.layout
    if isinstance(layout, NoneAttr):
        shape = buffer_type.get_shape()
        return [dim for dim in range(1, len(shape)) if shape[dim] == DYNAMIC_INDEX]
    if isinstance(layout, StridedLayoutAttr):
        strides = layout.strides.data
        return [dim for dim, stride in enumerate(strides) if not isinstance(stride, IntAttr)]
    raise EmitError(f"emit: {buffer_type}: only row-major and strided layouts are supported")


def alignment(op: Operation, buffer: Buffer) -> int:
    """Bytes an access is aligned to: that of one element, or what the op's `alignment` promises."""
    attribute = op.attributes.get("alignment")
    if attribute is not None:
        return cast("IntegerAttr[IntegerType]", attribute).value.data
    element = buffer.type.element_type
    part = complex_part(element)
    return item_bytes(element if part is None else part)


def space_suffix(buffer: Buffer) -> str:
    """Suffix of a pointer in intrinsic names: p0, or p3 in address space 3."""
    return f"p{memory_space(buffer.type)}"
