"""
Words of schedules of loop nests that are no tile programs: elementwise code, reductions, scans,
sorts. Whatever lowers the nest reads them. Axes are numbers of the kernel's iteration space.
"""

from __future__ import annotations

from xdsl.utils.exceptions import VerifyException

from mlc.dialects.tile.word import Word, bare, named, one_of
from mlc.lazy_dataclass import dataclass

MMA = ("mma_bf16", "mma_f16", "mma_tf32", "mma_f64", "mma_f64_m8n8k4")
"""Instructions of warps, by the dtype of factors; the last one is that of machines before sm_90."""


def _check_power(word: Word, name: str, value: int) -> None:
    if value & (value - 1):
        raise VerifyException(f"schedule: {word}: {name} = {value}; expected a power of two")


@dataclass(frozen=True)
class Vector(Word):
    """Vectors of so many lanes, along an axis of the nest where there is one."""

    NAME = "vector"
    lanes: int = bare(most=128)
    axis: int = named(least=0, most=63, default=-1)

    def check(self) -> None:
        Word.check(self)
        _check_power(self, "lanes", self.lanes)


@dataclass(frozen=True)
class Unroll(Word):
    """So many vectors in one trip of the innermost loop."""

    NAME = "unroll"
    vectors: int = bare(most=64)


@dataclass(frozen=True)
class Turn(Word):
    """Reads that lie along `axis` are turned in tiles of so many places of it and of the last."""

    NAME = "turn"
    axis: int = bare(least=0, most=63)
    rows: int = named(most=1024)
    columns: int = named(most=1024)


@dataclass(frozen=True)
class Nontemporal(Word):
    """Where a kernel reads and writes more bytes, its results are stored past the caches."""

    NAME = "nontemporal"
    above: int = bare(least=0)


@dataclass(frozen=True)
class Flat(Word):
    """So many vectors of whole rows, of which lanes hold several."""

    NAME = "flat"
    vectors: int = bare(most=64)


@dataclass(frozen=True)
class Rows(Word):
    """Rows that are walked at once: into states of columns in memory, or joined lane by lane."""

    NAME = "rows"
    number: int = bare(most=16)


@dataclass(frozen=True)
class Share(Word):
    """On a GPU: of the first reduced axes so many places for each block, whose states are added."""

    NAME = "share"
    rows: int = bare()


@dataclass(frozen=True)
class Threads(Word):
    """On a GPU: threads of a block, or that share one reduced row."""

    NAME = "threads"
    number: int = bare(most=1024)

    def check(self) -> None:
        Word.check(self)
        _check_power(self, "threads", self.number)


@dataclass(frozen=True)
class Stage(Word):
    """
    On a GPU, of a product that threads multiply: rows and columns of it that a block has, and
    summed elements that it stages at once; of those `rows` and `columns` are one thread's. `slots`:
    so many such tiles, which asynchronous copies fill; `resident`: blocks of a multiprocessor;
    `parts`: of the threads, which divide what is staged along the summed elements, and add up. With
    `mma` warps multiply on tensor cores: `rows` and `columns` are a warp's, and factors are staged
    in that dtype (tf32 in 32 bits).
    """

    NAME = "stage"
    m: int = named()
    n: int = named()
    k: int = named()
    rows: int = named(most=1024)
    columns: int = named(most=4096)
    slots: int = named(least=0, most=8, default=0)
    resident: int = named(least=0, most=32, default=0)
    parts: int = named(least=0, most=32, default=0)
    mma: str = one_of(*MMA, default="")


NEST_WORDS = (Vector, Unroll, Turn, Nontemporal, Flat, Rows, Share, Threads, Stage)
"""All of them: what is left of a list makes a tile program."""
