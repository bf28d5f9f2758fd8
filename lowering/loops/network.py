"""
Unsigned keys put in order within registers, and lanes that a mask keeps.

SOURCE: Batcher, "Sorting networks and their applications", AFIPS 32, 1968 (bitonic).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import DenseArrayBase, IntegerType, i64
from xdsl.dialects.vector import CombiningKindAttr, CombiningKindFlag
from xdsl.ir import SSAValue

from mlc.dialects import vec
from mlc.dialects.lanes import lanes_of, vector_type
from mlc.lowering.loops.arithmetic import INDEX, Index
from mlc.lowering.loops.builder import NO_FAST_MATH, LoopBuilder
from mlc.lowering.loops.element import Lanes

_SUM = CombiningKindAttr(CombiningKindFlag.ADD)


def sorted_registers(e: Lanes, keys: Sequence[SSAValue]) -> list[SSAValue]:
    """The keys of a power of two of registers, ascending through one register after another."""
    found, run = list(keys), 2
    while run <= len(found) * e.lanes:
        distance = run // 2
        while distance:
            found = _exchange(e, found, run, distance)
            distance //= 2
        run *= 2
    return found


def _exchange(e: Lanes, keys: Sequence[SSAValue], run: int, distance: int) -> list[SSAValue]:
    """Orders each key and the one `distance` on, upwards in every other run of `run` keys."""
    lanes = e.lanes
    if distance >= lanes:
        found = list(keys)
        step = distance // lanes
        for u in range(len(keys)):
            if not u & step:
                pair = keys[u], keys[u + step]
                ends = e.apply(arith.MinUIOp, *pair), e.apply(arith.MaxUIOp, *pair)
                upwards = not (u * lanes) & run
                found[u], found[u + step] = ends if upwards else ends[::-1]
        return found
    partners = [lane ^ distance for lane in range(lanes)]
    result: list[SSAValue] = []
    for u, key in enumerate(keys):
        other = shuffled(e, key, key, partners)
        least, most = e.apply(arith.MinUIOp, key, other), e.apply(arith.MaxUIOp, key, other)
        places = range(u * lanes, (u + 1) * lanes)
        takes_least = [(not i & distance) == (not i & run) for i in places]
        chosen = [k if small else k + lanes for k, small in enumerate(takes_least)]
        result.append(shuffled(e, least, most, chosen))
    return result


def shuffled(e: Lanes, x: SSAValue, y: SSAValue, lanes: Sequence[int]) -> SSAValue:
    """The lanes of x and, counted on, of y, by their numbers."""
    return e.b.value(
        vector.ShuffleOp.create(
            operands=[x, y],
            result_types=[x.type],
            properties={"mask": DenseArrayBase.from_list(i64, list(lanes))},
        )
    )


def lanes_on(b: LoopBuilder, mask: SSAValue) -> Index:
    """How many lanes of a mask are on."""
    ones = b.value(
        vec.CastOp.of("extui", mask, vector_type(IntegerType(8), lanes_of(mask.type) or 1))
    )
    total = b.value(
        vector.ReductionOp.create(
            operands=[ones],
            result_types=[IntegerType(8)],
            properties={"kind": _SUM, "fastmath": NO_FAST_MATH},
        )
    )
    return b.value(arith.IndexCastOp.create(operands=[total], result_types=[INDEX]))
