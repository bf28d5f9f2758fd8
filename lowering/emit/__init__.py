"""
Loops level to LLVM IR text: one pass over structured ops, one rule per op class, one file per
dialect family. The only place that writes LLVM IR.

Nothing here changes the program: what an op means is decided above, how fast it runs is decided by
the loops it stands in and by LLVM below.
"""

from mlc.lowering.emit.joined import MARK, joined
from mlc.lowering.emit.module import (
    CPU_RULES,
    ENTRY_ATTRIBUTE,
    emit_kernel,
    emit_main,
    known_ops,
    module_text,
    write_function,
)
from mlc.lowering.emit.types import EmitError

__all__ = [
    "CPU_RULES",
    "ENTRY_ATTRIBUTE",
    "MARK",
    "EmitError",
    "emit_kernel",
    "emit_main",
    "joined",
    "known_ops",
    "module_text",
    "write_function",
]
