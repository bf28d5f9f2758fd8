"""The steps of a random program, and how often each is taken."""

from __future__ import annotations

from collections.abc import Callable

from tests.differential.combining import (
    contraction,
    convolution,
    library,
    masked,
    partitioning,
    pooling,
    ranking,
    reduction,
    scanning,
    searching,
    sorting,
    variance,
)
from tests.differential.control import control
from tests.differential.elementwise import elementary
from tests.differential.moving import (
    constant,
    counting,
    cutting,
    gathering,
    joining,
    measuring,
    padding,
    permuting,
    repeating,
    reshaping,
    scattering,
    slicing,
    updating,
)
from tests.differential.programs import Program

Step = Callable[[Program], None]


def steps(program: Program, count: int) -> None:
    """`count` steps; some find nothing to work on and do nothing."""
    for _ in range(count):
        program.choose.pick(STEPS if program.depth == 0 else STEPS_INSIDE)(program)


def nesting(program: Program) -> None:
    """Control flow."""
    control(program, steps)


STEPS: tuple[Step, ...] = (
    *(elementary,) * 12,
    *(reduction,) * 2,
    variance,
    *(contraction,) * 2,
    convolution,
    *(pooling,) * 2,
    scanning,
    sorting,
    ranking,
    *(partitioning,) * 2,
    searching,
    library,
    masked,
    permuting,
    repeating,
    reshaping,
    slicing,
    *(joining,) * 2,
    padding,
    gathering,
    scattering,
    cutting,
    updating,
    counting,
    constant,
    measuring,
    *(nesting,) * 2,
)
STEPS_INSIDE: tuple[Step, ...] = (*STEPS, *(updating,) * 6, *(nesting,) * 4, *(elementary,) * 4)
