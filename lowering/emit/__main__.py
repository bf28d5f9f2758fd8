"""`python -m mlc.lowering.emit FILE [TARGET]`: the functions of loops-level MLIR as LLVM IR."""

from __future__ import annotations

import sys
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects import arith, builtin, func, math, memref, scf, vector
from xdsl.utils.exceptions import ParseError, VerifyException

from mlc.dialects.lexer import LinearParser
from mlc.dialects.par import MlcPar
from mlc.dialects.target.known import AVX512, CPUS
from mlc.dialects.vec import MlcVec
from mlc.lowering.emit.module import ENTRY_ATTRIBUTE, emit_kernel, emit_main

DIALECTS = (
    *(builtin.Builtin, arith.Arith, func.Func, math.Math, memref.MemRef, scf.Scf, vector.Vector),
    *(MlcPar, MlcVec),
)


def main(arguments: list[str]) -> None:
    """
    Reads the file (`-`: standard input), writes one LLVM module after the other; exits with what
    is wrong with the text.
    """
    path, *rest = arguments
    target = {row.name: row for row in CPUS}[rest[0]] if rest else AVX512
    context = Context()
    for dialect in DIALECTS:
        context.load_dialect(dialect)
    text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    parser = LinearParser(context, path)
    parser.read(text, path)
    try:
        module = parser.parse_module()
        module.verify()
    except (ParseError, VerifyException) as error:
        sys.exit(f"{path}: error: {error}")
    for op in module.ops:
        if isinstance(op, func.FuncOp) and op.body.blocks:
            emit = emit_main if ENTRY_ATTRIBUTE in op.attributes else emit_kernel
            print(emit(op, target))


if __name__ == "__main__":
    main(sys.argv[1:])
