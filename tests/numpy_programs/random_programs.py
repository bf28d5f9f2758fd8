"""
Random NumPy programs over dtypes and promotions, each written as one expression.

Steps are tried in NumPy as they are chosen, so that most of them run; of what NumPy refuses, one in
ten becomes a program. A value that rounding may change goes only into steps that are smooth.
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.numpy_programs.arrays import FAMILIES, arrays_of

MOST = 5
LARGEST = 100.0
"""Larger values, infinities and NaN are results, and nothing is computed from them."""

NUMBERS = ("2", "-3", "0.5", "True", "200", "1j", "np.int8(5)", "np.float32(1.5)", "np.uint64(7)")
DTYPES = ("bool", "np.int8", "np.uint8", "np.int32", "np.uint64", "np.float16", "np.float32")

COARSE = {"float16|bool|int8": 2.0**-10, "float32|complex64|int16": 2.0**-23, "": 2.0**-52}
"""The steps between neighbours in the floats that names in a program lead to."""


def _steps() -> dict[str, list[str]]:
    """Steps by kind; `@` is an operand, `#` a number, `?` a condition and `~` a dtype."""
    text = Path(__file__).with_name("steps.txt").read_text()
    blocks = (block.splitlines() for block in text.split("\n\n"))
    return {title.removeprefix("# "): steps for title, *steps in blocks}


STEPS_OF = _steps()


def tolerance(text: str) -> float:
    """How far two evaluations of a program may lie apart: by the coarsest dtype in it."""
    return 8 * LARGEST * next(eps for names, eps in COARSE.items() if re.search(names, text))


@dataclass(frozen=True)
class Node:
    """A value of the program; `exact`: the same bits in any evaluation."""

    text: str
    value: Any
    exact: bool = True

    @property
    def usable(self) -> bool:
        """Whether something is computed from it."""
        found = np.asarray(self.value)
        if found.dtype.kind in "fc" and found.size:
            return bool((np.abs(found) <= LARGEST).all())
        return found.dtype.kind in "biufc" and found.size <= 64

    @property
    def below(self) -> bool:
        """Whether it has floats below 0."""
        found = np.asarray(self.value)
        return found.dtype.kind in "fc" and bool((np.real(found) < 0).any())


def arrays() -> dict[str, Any]:
    """The arguments of all programs: three shapes of every dtype, and two Python numbers."""
    found: dict[str, Any] = {"k": 3, "q": 2.5}
    for family in FAMILIES:
        of_family = arrays_of(family)
        found |= {f"{family}_{name}": of_family[name] for name in ("x", "y", "s", "m")}
    return found


def program(seed: int, names: Mapping[str, Any]) -> str:
    """One expression, by the seed alone."""
    choose = random.Random(seed)
    families = choose.sample(FAMILIES, 3)
    leaves = [f"{family}_{name}" for family in families for name in ("x", "y", "s", "m")]
    nodes = [Node(name, names[name]) for name in (*leaves, "k", "q")]
    wanted = choose.randint(2, MOST)
    for _ in range(40):
        made = _step(choose, nodes, names)
        if made is None:
            continue
        if isinstance(made, str):
            return made
        nodes.append(made)
        if len(nodes) == len(leaves) + 2 + wanted:
            break
    return nodes[-1].text


def _step(
    choose: random.Random, nodes: Sequence[Node], names: Mapping[str, Any]
) -> Node | str | None:
    kind = choose.choice(("smooth", "smooth", "inexact", "sharp"))
    pattern = choose.choice(STEPS_OF[kind])
    usable = [n for n in nodes if n.usable and (n.exact or kind == "smooth")]
    taken: list[Node] = []

    def operand() -> str:
        node = choose.choice(usable[-5:] if choose.random() < 0.6 else usable)
        taken.append(node)
        return node.text

    text = _filled(pattern, choose, operand)
    if "~" in pattern and "uint" in text and any(n.below for n in taken):
        return None  # of a float beyond the dtype NumPy's value depends on the machine
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            value = eval(text, {"np": np, **names})
    except AttributeError:
        return None  # of a Python number
    except TypeError as error:
        if "not subscriptable" in str(error):
            return None
        return f"({text})" if choose.random() < 0.1 else None
    except Exception:  # noqa: BLE001 - whichever it raises
        return f"({text})" if choose.random() < 0.1 else None
    short = np.asarray(value).dtype == np.float16  # kept in float32 within a kernel
    exact = kind != "inexact" and all(n.exact for n in taken) and not short
    return Node(f"({text})", value, exact)


def _filled(pattern: str, choose: random.Random, operand: Callable[[], str]) -> str:
    parts = pattern.split("@ @ @")
    if len(parts) == 2:
        return f"{operand()} @ {operand()}"
    text = ""
    for sign in pattern:
        if sign == "@":
            text += operand()
        elif sign == "?":
            text += f"(bool_{choose.choice('xys')})"
        elif sign == "#":
            text += choose.choice(NUMBERS)
        elif sign == "~" and pattern != "~@":
            text += choose.choice(DTYPES)
        else:
            text += sign
    return text
