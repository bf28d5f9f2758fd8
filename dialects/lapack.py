"""LAPACK at the level of loops: ops that look for a routine and call it."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType, MemRefType, StringAttr, i1
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation, prop_def, result_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.abi import LAPACK
from mlc.dialects.definition import irdl_op_definition

INDEX = IndexType()


@irdl_op_definition
class LapackFoundOp(IRDLOperation):
    """
    Whether the process (or what an object is linked with) has a routine of LAPACK.

    ```mlir
    %found = mlc_par.lapack_found "dgesdd"
    ```
    """

    name = "mlc_par.lapack_found"
    routine = prop_def(StringAttr)
    found = result_def(i1)
    assembly_format = "$routine attr-dict"

    @staticmethod
    def of(routine: str) -> LapackFoundOp:
        return LapackFoundOp.create(result_types=(i1,), properties={"routine": StringAttr(routine)})

    def verify_(self) -> None:
        _check_known(self.name, self.routine.data)


@irdl_op_definition
class LapackOp(IRDLOperation):
    """
    Calls a routine of LAPACK that was found; gives its `info`, 0 where all went well. Characters
    come first in all of them; integers are passed by their address.

    ```mlir
    %info = mlc_par.lapack "dpotrf" "L" (%n, %a, %n) : index, memref<?xf64>, index
    ```
    """

    name = "mlc_par.lapack"
    routine = prop_def(StringAttr)
    letters = prop_def(StringAttr)
    arguments = var_operand_def()
    info = result_def(IndexType)
    assembly_format = "$routine $letters `(` $arguments `)` attr-dict `:` type($arguments)"

    @staticmethod
    def of(routine: str, letters: str, arguments: Sequence[SSAValue]) -> LapackOp:
        return LapackOp.create(
            operands=arguments,
            result_types=(INDEX,),
            properties={"routine": StringAttr(routine), "letters": StringAttr(letters)},
        )

    def verify_(self) -> None:
        _check_known(self.name, self.routine.data)
        expected = LAPACK[self.routine.data]
        found = "c" * len(self.letters.data) + "".join(_kind(x.type) for x in self.arguments)
        if found != expected:
            raise VerifyException(
                f"{self.name}: {self.routine.data} is given {found!r}; expected {expected!r}"
                " (c: a character, i: an index, a: an array)"
            )


def is_instead(op: Operation) -> bool:
    """Whether an op runs only where a routine of LAPACK was not found."""
    around = op.parent_op()
    return (
        isinstance(around, scf.IfOp)
        and isinstance(around.cond.owner, LapackFoundOp)
        and op.parent is around.false_region.first_block
    )


def _kind(kind: Attribute) -> str:
    return "i" if kind == INDEX else "a" if isinstance(kind, MemRefType) else "?"


def _check_known(op: str, routine: str) -> None:
    if routine not in LAPACK:
        raise VerifyException(f"{op}: {routine!r}; expected one of {', '.join(LAPACK)}")
