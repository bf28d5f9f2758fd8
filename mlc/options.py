"""What a compilation is asked for."""

from __future__ import annotations

from hashlib import sha256
from typing import Literal, get_args

from mlc import knobs
from mlc.dialects.numerics import Numerics
from mlc.dialects.target import Target
from mlc.lazy_dataclass import dataclass
from mlc.runtime.threads import get_threads

ASSUMED_SIZE = 1024  # of a symbol that nobody gave a value


By = Literal["search", "saturation"]
BY: tuple[By, ...] = get_args(By)


@dataclass(frozen=True)
class RuleFile:
    """
    Rewrite rules as text, and the file that they are from; none: those of mlc alone. `by`: how
    programs are met that they lead to.
    """

    path: str = ""
    text: str = ""
    by: By = "search"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a compilation is asked for, beside the program."""

    target: Target
    threads: int | None = None  # of this function; None follows mlc.set_threads. Not in the key.
    numerics: Numerics = "standard"
    fusion: knobs.Fusion = "exact"
    peak_bytes: int | None = None  # limit of what a call allocates; it depends on the threads
    schedule: str | None = None  # words for the one product
    tune: float | None = None  # seconds for which schedules are measured
    discover: RuleFile | None = None  # rules by which another program is searched for

    def key(self) -> str:
        """The options that change the code."""
        key = f"{self.numerics}|{self.fusion}|{self.target!r}|{self.schedule or ''}"
        key += "|tuned" if self.tune is not None else ""
        if self.discover is not None:  # which program is the best depends on the threads
            key += f"|{sha256(self.discover.text.encode()).hexdigest()}|{self.thread_count()}"
            key += f"|{self.discover.by}"
        return key if self.peak_bytes is None else f"{key}|{self.peak_bytes}|{self.thread_count()}"

    def thread_count(self) -> int:
        """The threads of a parallel region, as far as they are known now."""
        return self.threads or get_threads()
