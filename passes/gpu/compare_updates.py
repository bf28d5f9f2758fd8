"""
Pass `mlc-compare-updates`: where each row of a repeated number is updated in one column, the result
is computed element by element.

```
scatter (0, 0, …)[i, y[i]] += u[i]  ->  where(j == y[i], 0 + u[i], 0)
```

The result is written as a whole in any case. So it needs no kernels that copy, order what meets and
write, and whoever reads it may compute it: gradients of a label's probability are of this kind.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from mlc.dialects.tensor.scatter import ScatterOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.plan.fusion.compare_indices import indexings, write_by_comparing
from mlc.passes.tensor.constants import splat
from mlc.passes.tensor.dce import DcePass


@dataclass(frozen=True)
class CompareUpdatesPass(ModulePass):
    """Both sides are equal to the bit."""

    name = "mlc-compare-updates"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        updates = [x for x in indexings(op, 0) if isinstance(x, ScatterOp)]
        found = [x for x in updates if splat(x.x) is not None]
        for each in found:
            write_by_comparing(each)
        if found:
            DcePass().apply(ctx, op)
