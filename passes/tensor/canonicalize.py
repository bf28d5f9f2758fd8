"""The canonical form: constants folded, identities applied, views composed."""

from __future__ import annotations

from functools import lru_cache

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.algebra import ALGEBRA
from mlc.passes.tensor.fold import fold_rules
from mlc.passes.tensor.gathers import GATHER_RULES
from mlc.passes.tensor.padding import PAD_RULES
from mlc.passes.tensor.rules import Rules
from mlc.passes.tensor.strength import STRENGTH
from mlc.passes.tensor.views import VIEW_RULES
from mlc.passes.tensor.windows import WINDOW_RULES


@dataclass(frozen=True)
class CanonicalizePass(ModulePass):
    """Best effort: no pass relies on it for correctness, and none of its rules weighs costs."""

    name = "mlc-canonicalize"

    max_elements: int = 16_384
    """Elements of a folded constant: 64 KiB of f32, more than a level-1 cache holds."""

    max_work: int = 1_000_000
    """Element operations of one fold: about 1 ms of NumPy."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        _rules(self.max_elements, self.max_work).sweep(op)


@lru_cache
def _rules(max_elements: int, max_work: int) -> Rules:
    return Rules(
        fold_rules(max_elements, max_work),
        ALGEBRA,
        STRENGTH,
        VIEW_RULES,
        PAD_RULES,
        GATHER_RULES,
        WINDOW_RULES,
    )
