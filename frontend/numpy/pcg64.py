"""
NumPy's default generator as ops of the program: the 128 bits of PCG64's state are two numbers, and
what draws gives them on. Loops here are traced as a user's, so that they are loops of the program.

SOURCE: M. E. O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms
for Random Number Generation", HMC-CS-2014-0905 (XSL-RR); D. Lemire, "Fast Random Integer Generation
in an Interval", ACM TOMACS 29(1), 2019.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.frontend import numpy as mnp

names: Any = mnp
State = tuple[Any, ...]
"""High and low word; whether half of a word is kept, and which."""
Drawn = tuple[State, Any]

MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
_WORD = (1 << 64) - 1
_HIGH, _LOW = np.uint64(MULTIPLIER >> 64), np.uint64(MULTIPLIER & _WORD)
_HALF = np.uint64((1 << 32) - 1)
_UNIT = 2.0**-53


def state_of(state: int, increment: int, half: int | None = None) -> Any:
    """A state of PCG64, as NumPy takes it; `half`: of a word of which the other half is used."""
    words = {"state": state, "inc": increment}
    kept = {"has_uint32": int(half is not None), "uinteger": half or 0}
    return {"bit_generator": "PCG64", "state": words, **kept}


def product_of_words(x: Any, y: Any) -> tuple[Any, Any]:
    """x * y of 64 bits each: the upper and the lower 64 bits."""
    a, b, c, d = x >> 32, x & _HALF, y >> 32, y & _HALF
    low, first, second = b * d, a * d, b * c
    middle = (low >> 32) + (first & _HALF) + (second & _HALF)
    return a * c + (first >> 32) + (second >> 32) + (middle >> 32), x * y


def next_word(high: Any, low: Any, plus: Any) -> tuple[Any, Any, Any]:
    """The next state, and the word of 64 bits that it gives."""
    upper, lower = product_of_words(low, _LOW)
    new = lower + plus[1]
    carry = names.astype(new < lower, np.uint64)
    top = upper + high * _LOW + low * _HIGH + plus[0] + carry
    mixed, turn = top ^ new, top >> 58
    word = (mixed >> turn) | (mixed << ((np.uint64(64) - turn) & np.uint64(63)))
    return top, new, word


def next_unit(high: Any, low: Any, plus: Any) -> tuple[Any, Any, Any]:
    """The next state, and a number in [0, 1)."""
    high, low, word = next_word(high, low, plus)
    return high, low, names.astype(word >> 11, np.float64) * _UNIT


def random(state: State, plus: Any, _: None) -> Drawn:
    """One of [0, 1)."""
    high, low, found = next_unit(state[0], state[1], plus)
    return (high, low, state[2], state[3]), found


def standard_normal(state: State, plus: Any, layers: Any) -> Drawn:
    """By the ziggurat's layers."""
    width, surely, density, tail = layers
    high, low, rest = state[0], state[1], state[2:]
    found: Any = 0.0
    while True:
        high, low, word = next_word(high, low, plus)
        layer = names.astype(word & np.uint64(255), np.int64)
        step = names.astype((word >> 9) & np.uint64((1 << 52) - 1), np.int64)
        found = names.astype(step, np.float64) * width[layer]
        found = names.where((word >> 8) & np.uint64(1) == 1, -found, found)
        if step < surely[layer]:
            break
        if layer == 0:
            above: Any = 0.0
            while True:
                high, low, x = next_unit(high, low, plus)
                high, low, y = next_unit(high, low, plus)
                above = -names.log1p(-x) * (1 / tail)
                y = -names.log1p(-y)
                if y + y > above * above:
                    break
            found = names.where((step >> 8) & 1 == 1, -(tail + above), tail + above)
            break
        high, low, x = next_unit(high, low, plus)
        if (density[layer - 1] - density[layer]) * x + density[layer] < names.exp(
            -0.5 * found * found
        ):
            break
    return (high, low, *rest), found


def standard_exponential(state: State, plus: Any, layers: Any) -> Drawn:
    """Likewise."""
    width, surely, density, tail = layers
    high, low, rest = state[0], state[1], state[2:]
    found: Any = 0.0
    while True:
        high, low, word = next_word(high, low, plus)
        layer = names.astype((word >> 3) & np.uint64(255), np.int64)
        step = names.astype(word >> 11, np.int64)
        found = names.astype(step, np.float64) * width[layer]
        if step < surely[layer]:
            break
        high, low, x = next_unit(high, low, plus)
        if layer == 0:
            found = tail - names.log1p(-x)
            break
        if (density[layer - 1] - density[layer]) * x + density[layer] < names.exp(-found):
            break
    return (high, low, *rest), found


def next_half(state: State, plus: Any) -> Drawn:
    """A word of 32 bits: the lower half of one of 64, then its upper half."""
    high, low, kept, half = state
    new_high, new_low, word = next_word(high, low, plus)
    old = kept == 1
    high, low = names.where(old, high, new_high), names.where(old, low, new_low)
    found = names.where(old, half, word & _HALF)
    half = names.where(old, half, word >> 32)
    return (high, low, names.astype(names.logical_not(old), np.uint64), half), found


def integers(state: State, plus: Any, bounds: Any) -> Drawn:
    """Of [low, low + most]: the upper bits of a product, but for those that come too often."""
    low, most = bounds
    if most == 0:
        return state, low
    if most <= _HALF:
        count = most + np.uint64(1)
        state, word = next_half(state, plus)
        product = word * count
        if most == _HALF:
            product = word << 32
        elif product & _HALF < count:
            least = (_HALF - most) % count
            while product & _HALF < least:
                state, word = next_half(state, plus)
                product = word * count
        return state, low + names.astype(product >> 32, np.int64)
    high, lower, word = next_word(state[0], state[1], plus)
    upper = word
    if most != np.uint64(_WORD):
        count = most + np.uint64(1)
        upper, rest = product_of_words(word, count)
        if rest < count:
            least = (np.uint64(_WORD) - most) % count
            while rest < least:
                high, lower, word = next_word(high, lower, plus)
                upper, rest = product_of_words(word, count)
    return (high, lower, state[2], state[3]), low + names.astype(upper, np.int64)


def filled(draw: Any, state: State, plus: Any, given: Any, out: Any) -> Drawn:
    """Numbers one after another."""
    for k in range(len(out)):
        state, out[k] = draw(state, plus, given)
    return state, out


def shuffled(state: State, plus: Any, order: Any, masks: Any) -> Drawn:
    """
    Fisher and Yates: each from the last on changes places with one up to it, which is the first of
    32 bits, below the next power of two, that is not beyond it. `masks`: these bits, by place.
    """
    for k in range(len(order) - 1, 0, -1):
        state, word = next_half(state, plus)
        j = names.astype(word & masks[k], np.int64)
        while j > k:
            state, word = next_half(state, plus)
            j = names.astype(word & masks[k], np.int64)
        order[k], order[j] = order[j], order[k]
    return state, order


def distance(most: Any) -> Any:
    """How far a range goes, of which the program knows the ends."""
    if most < 0:
        raise ValueError("low >= high")
    return names.astype(most, np.uint64)
