"""
The launch plan: what the host does for one call of a GPU program, as data.

Lowering writes it, the runtime interprets it, caches may keep it. Values are 64-bit integers in
numbered registers: sizes, byte counts, addresses on the device. Registers from 0 on hold the error
word's address, the arena's address (set by `Reserve`), the sizes, the inputs' addresses, the
results' addresses, the constants' addresses; `LaunchPlan.known` gives some others their value.
"""

from __future__ import annotations

from typing import Final, Literal

from mlc.lazy_dataclass import dataclass

Register = int
ERROR_WORD: Final = 0
"""Register with the address of a context (dialects/abi.py) of which only the error word is used."""
ARENA: Final = 1
"""Register with the arena's address."""
FIRST_SIZE: Final = 2

MAP_DTYPES: Final = {
    "i8": ("UINT8", 0), "f16": ("FLOAT16", 6), "f32": ("FLOAT32", 7), "bf16": ("BFLOAT16", 9),
}  # fmt: skip
"""
Dtype of a tensor map -> what CUtensorMapDataType calls it, and its number there; bytes are those of
any dtype. SOURCE: cuda.h 13.0
"""

Arithmetic = Literal[
    "add", "sub", "mul", "div", "min", "max", "and", "select", "eq", "ne", "lt", "le", "gt", "ge"
]
"""On 64-bit integers; `div` rounds down, a comparison gives 0 or 1, `select` takes (if, x, y)."""


@dataclass(frozen=True)
class Compute:
    """result = op(operands)"""

    op: Arithmetic
    result: Register
    operands: tuple[Register, ...]


@dataclass(frozen=True)
class Reserve:
    """The arena holds at least so many bytes from here on."""

    arena_bytes: Register


@dataclass(frozen=True)
class TensorMap:
    """
    A kernel's argument that tells the copy engine of an array, in boxes of so many elements along
    each axis: in a plan the registers of its numbers, in a call the numbers. `strides`: elements
    from one place to the next along each axis but the last.
    """

    address: Register
    sizes: tuple[Register, ...]
    strides: tuple[Register, ...]
    dtype: str
    box: tuple[int, ...]


@dataclass(frozen=True)
class Launch:
    """
    Starts a kernel; every argument is passed as 64 bits, or as a tensor map. An empty grid starts
    nothing. `shared_bytes`: dynamic shared memory of a block.
    """

    kernel: str
    grid: tuple[Register, Register, Register]
    block: tuple[Register, Register, Register]
    arguments: tuple[Register | TensorMap, ...]
    shared_bytes: int = 0


@dataclass(frozen=True)
class ReadNumber:
    """result = the integer at an address on the device; waits for the launches before."""

    result: Register
    address: Register
    size_bytes: int = 8


@dataclass(frozen=True)
class WriteNumber:
    """Stores an i64 at an address on the device, after the launches before."""

    value: Register
    address: Register


@dataclass(frozen=True)
class Fail:
    """Ends the call with the error of this site (counted from 1)."""

    site: int
    value: Register
    extent: Register


@dataclass(frozen=True)
class Library:
    """result = the status of a library routine, which the host computes: 0, or a fault's number.

    `routine` and `dtype`: places in `ROUTINES` and `DTYPES`. `operands`: addresses on the device of
    contiguous arrays, `output` of where the result goes; `sizes`: see `mlc_par.library`.
    """

    result: Register
    routine: int
    dtype: int
    operands: tuple[Register, ...]
    output: Register
    sizes: tuple[Register, ...]


@dataclass(frozen=True)
class Branch:
    """Does one of two lists of steps."""

    condition: Register
    then: tuple[Step, ...]
    otherwise: tuple[Step, ...]


@dataclass(frozen=True)
class Loop:
    """`induction` counts from low (included) to high (excluded); `carried` go round.

    Before the first trip `carried` take `inits`, after each trip `yields`.
    """

    induction: Register
    low: Register
    high: Register
    step: Register
    carried: tuple[Register, ...]
    inits: tuple[Register, ...]
    yields: tuple[Register, ...]
    body: tuple[Step, ...]


@dataclass(frozen=True)
class While:
    """Runs `test`, and as long as `condition` is not 0 then, `body` and `test` again.

    Before the first test `carried` take `inits`, after each trip `yields`.
    """

    carried: tuple[Register, ...]
    inits: tuple[Register, ...]
    test: tuple[Step, ...]
    condition: Register
    body: tuple[Step, ...]
    yields: tuple[Register, ...]


Step = (
    Compute | Reserve | Launch | ReadNumber | WriteNumber | Fail | Library | Branch | Loop | While
)


@dataclass(frozen=True)
class LaunchPlan:
    """What one call does, in order.

    `known`: (register, value) of every literal. `constants`: the bytes of the program's constants,
    which stay on the device between calls. `fails`: whether a kernel may set the error word.
    """

    registers: int
    sizes: int
    inputs: int
    outputs: int
    known: tuple[tuple[Register, int], ...]
    constants: tuple[bytes, ...]
    steps: tuple[Step, ...]
    fails: bool

    @property
    def first_input(self) -> Register:
        """Register of input 0; the others follow."""
        return FIRST_SIZE + self.sizes

    @property
    def first_output(self) -> Register:
        """Register of result 0; the others follow."""
        return self.first_input + self.inputs

    @property
    def first_constant(self) -> Register:
        """Register of constant 0; the others follow."""
        return self.first_output + self.outputs


@dataclass(frozen=True)
class GpuKernel:
    """One kernel: its symbol and its LLVM IR."""

    name: str
    llvm: str


@dataclass(frozen=True)
class GpuProgram:
    """A compiled function for a GPU: kernels, one LLVM module each, and the host's part."""

    name: str
    kernels: tuple[GpuKernel, ...]
    plan: LaunchPlan
