"""What numerics "strict" must give bit by bit: all that no function of real numbers has touched."""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from mlc.dialects.numerics import ATTRIBUTE
from mlc.dialects.tensor.complex_parts import MagnitudeOp
from mlc.dialects.tensor.division import PowOp
from mlc.dialects.tensor.elementwise import ExpOp, LogOp, TanhOp
from mlc.dialects.tensor.functions import BinaryFunction, FloatFunction, HypotOp, RsqrtOp
from mlc.dialects.tensor.library import LibraryOp
from mlc.dialects.tensor.scan import ScanOp
from tests.differential.batch import Batch
from tests.differential.values import Known
from tests.every_op.cases import Case

EXACT = (HypotOp, MagnitudeOp, RsqrtOp)
"""Functions of a few correctly rounded steps."""


OPEN = (ExpOp, LogOp, TanhOp, FloatFunction, BinaryFunction, LibraryOp)
"""Whose last bits are their own: functions that nobody rounds correctly."""


def is_open(op: Operation) -> bool:
    """Whether an op's last bits are its own."""
    if isinstance(op, PowOp):
        return op.dtype.kind == "float"
    if isinstance(op, ScanOp):
        return op.monoid.data == "logsumexp"
    return isinstance(op, OPEN) and not isinstance(op, EXACT)


def is_open_case(case: Case) -> bool:
    """`is_open` of the op of a case."""
    if case.op is PowOp:
        return case.operands[0].dtype.kind == "float"
    if case.op is ScanOp:
        return case.label.startswith("logsumexp")
    return issubclass(case.op, OPEN) and not issubclass(case.op, EXACT)


def touched(values: list[SSAValue]) -> set[SSAValue]:
    """Of values of one block those that depend on such a function."""
    known: dict[Operation, bool] = {}

    def depends(op: Operation) -> bool:
        pending = [op]
        while pending:
            inner = pending[-1]
            if inner in known:
                pending.pop()
                continue
            owners = [x.owner for o in inner.walk() for x in o.operands]
            before = [o for o in owners if isinstance(o, Operation) and o not in known]
            before = [o for o in before if not inner.is_ancestor(o)]
            if before:
                pending += before
                continue
            known[inner] = any(map(is_open, inner.walk())) or any(
                known.get(o, False) for o in owners if isinstance(o, Operation)
            )
        return known[op]

    return {x for x in values if isinstance(x.owner, Operation) and depends(x.owner)}


def strict(batch: Batch) -> Batch:
    """The batch with numerics "strict", in place, where bits are certain wherever they must be."""
    batch.module.attributes[ATTRIBUTE] = StringAttr("strict")
    open_values = touched([x.value for _, x in (*batch.results, *batch.made)])
    for entries in (batch.results, batch.made):
        entries[:] = [
            (k, x if x.value in open_values else replace(x, known=Known())) for k, x in entries
        ]
    return batch
