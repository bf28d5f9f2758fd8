"""
Integer keys put in order within registers, and lanes that a mask keeps.

SOURCE: Batcher, "Sorting networks and their applications", AFIPS 32, 1968 (bitonic).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IntegerType,
    VectorType,
    i1,
    i64,
)
from xdsl.dialects.vector import CombiningKindAttr, CombiningKindFlag
from xdsl.ir import Operation, SSAValue

from mlc.dialects import vec
from mlc.dialects.lanes import element_of, lanes_of, vector_type
from mlc.lowering.loops.arithmetic import INDEX, Index
from mlc.lowering.loops.builder import NO_FAST_MATH, LoopBuilder
from mlc.lowering.loops.element import Lanes

Ends = tuple[type[Operation], type[Operation]]
"""The ops of the lesser and of the greater of two keys."""

_SUM = CombiningKindAttr(CombiningKindFlag.ADD)


def sorted_registers(e: Lanes, keys: Sequence[SSAValue], *, signed: bool = False) -> list[SSAValue]:
    """
    The keys of a power of two of registers, ascending through one register after another.

    Each lane's keys are put in order across the registers and turned into runs; runs are merged.
    """
    ends = (arith.MinSIOp, arith.MaxSIOp) if signed else (arith.MinUIOp, arith.MaxUIOp)
    found, run = list(keys), 2 * len(keys)
    for first, second in _exchanges(len(found)):
        pair = found[first], found[second]
        found[first], found[second] = (e.apply(end, *pair) for end in ends)
    found = _runs(e, found)
    while run <= len(found) * e.lanes:
        distance = run // 2
        while distance:
            found = _exchange(e, found, run, distance, ends)
            distance //= 2
        run *= 2
    return found


def _exchanges(count: int) -> Iterator[tuple[int, int]]:
    """Batcher's odd-even merge sort of a power of two of places, as pairs to put in order."""
    half = 1
    while half < count:
        step = half
        while step:
            for start in range(step % half, count - step, 2 * step):
                for first in range(start, min(start + step, count - step)):
                    if first // (2 * half) == (first + step) // (2 * half):
                        yield first, first + step
            step //= 2
        half *= 2


def _runs(e: Lanes, keys: Sequence[SSAValue]) -> list[SSAValue]:
    """
    Lane l of all registers, one run of keys after the other, the odd ones backwards: bits of a
    register's number change places with bits of the lane's, then each register is put in order.
    """
    lanes, count = e.lanes, len(keys)
    found = list(keys)
    held = [[(u, lane) for lane in range(lanes)] for u in range(count)]
    highest = max(lanes // count, 1)  # of the lane bits that change places, the lowest
    for bit in range(min(lanes, count).bit_length() - 1):
        step, lane_bit = 1 << bit, highest << bit
        low = [k if not k & lane_bit else lanes + (k ^ lane_bit) for k in range(lanes)]
        high = [k ^ lane_bit if not k & lane_bit else lanes + k for k in range(lanes)]
        for u in (u for u in range(count) if not u & step):
            pair, both = (found[u], found[u + step]), held[u] + held[u + step]
            for place, order in ((u, low), (u + step, high)):
                found[place] = e.b.shuffled(*pair, order)
                held[place] = [both[k] for k in order]
    result: list[SSAValue] = []
    for start in range(0, lanes * count, lanes):
        runs = [divmod(k, count) for k in range(start, start + lanes)]
        wanted = [(count - 1 - u if lane % 2 else u, lane) for lane, u in runs]
        register = next(u for u, content in enumerate(held) if wanted[0] in content)
        order = [held[register].index(key) for key in wanted]
        key = found[register]
        result.append(key if order == [*range(lanes)] else e.b.shuffled(key, key, order))
    return result


def _exchange(
    e: Lanes, keys: Sequence[SSAValue], run: int, distance: int, ends: Ends
) -> list[SSAValue]:
    """Orders each key and the one `distance` on, upwards in every other run of `run` keys."""
    lanes = e.lanes
    least, most = ends
    if distance >= lanes:
        found = list(keys)
        step = distance // lanes
        for u in range(len(keys)):
            if not u & step:
                pair = keys[u], keys[u + step]
                placed = e.apply(least, *pair), e.apply(most, *pair)
                upwards = not (u * lanes) & run
                found[u], found[u + step] = placed if upwards else placed[::-1]
        return found
    partners = [lane ^ distance for lane in range(lanes)]
    # AVX2 has no least and greatest of 8 bytes
    wide = least is arith.MinSIOp and element_of(keys[0].type) == i64 and lanes == 4
    result: list[SSAValue] = []
    for u, key in enumerate(keys):
        other = e.b.shuffled(key, key, partners)
        places = range(u * lanes, (u + 1) * lanes)
        takes_least = [(not i & distance) == (not i & run) for i in places]
        if wide:
            result.append(_lesser(e, key, other, takes_least))
            continue
        both = e.apply(least, key, other), e.apply(most, key, other)
        chosen = [k if small else k + lanes for k, small in enumerate(takes_least)]
        result.append(e.b.shuffled(*both, chosen))
    return result


def _lesser(e: Lanes, key: SSAValue, other: SSAValue, takes_least: Sequence[bool]) -> SSAValue:
    """The lesser of two signed integers in these lanes, the greater in the others."""
    kind = VectorType(i1, [e.lanes])
    values = [0 if least else 1 for least in takes_least]
    turned = e.b.constant(DenseIntOrFPElementsAttr.from_list(kind, values), kind)
    swaps = e.apply(arith.XOrIOp, e.b.value(vec.CmpiOp.of("sgt", key, other)), turned)
    return e.select(swaps, other, key)


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
