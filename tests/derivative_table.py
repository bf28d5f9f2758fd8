"""
The table of ops and modes of differentiation: `python -m tests.derivative_table` writes
docs/derivatives-of-ops.md from the facts that the ops state.
"""

from __future__ import annotations

from pathlib import Path

from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.library import ROUTINES
from mlc.dialects.tensor.library_tangents import LINEAR, TANGENTS
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.registry import OPS

DOCUMENT = Path(__file__).parents[1] / "docs" / "derivatives-of-ops.md"
HEAD = """\
# Derivatives of ops

`python -m tests.derivative_table` writes this page from the facts that each op states in
`dialects/tensor/`; a test compares. There are no rules of single ops in the passes: reverse and
forward mode, and any order of both, follow from three facts.

- *transpose*: the op is linear; forward mode is the op itself, reverse mode its transpose.
- *partials*: elementwise; both modes multiply by the partial derivatives.
- *jvp*: the tangent of the result by ops that are linear in the operands' tangents; reverse mode
  transposes these.

Where an op states several, the first that holds for an operand counts. A dtype has derivatives if
it computes with fractions: f16, bf16, f32, f64, c64, c128. Reverse mode keeps the real part of
sum(u * J v), without conjugation, as in JAX: the gradient of a real function of z = x + iy is
df/dx - i df/dy.

## Where a rule decides

- Equal elements of `max` and `min`, in pairs, reductions and windows, share the derivative evenly;
  a running maximum takes it from the latest of them, a sort from the element that it puts there.
- |x| has 0 at 0, as have lengths (`hypot`, `norm`, `std`) and `relu`, and so have their higher
  derivatives. Even powers of sizes (`np.abs(x) ** 2`, `np.linalg.norm(x) ** 2`) are smooth. sqrt
  has inf. x**0 has 0. `elu`, `celu` and `selu` have at 0 the derivatives from below, `huber_loss`
  at delta those of the linear part.
- Products, running ones too, are exact with factors of zero in every order. Second derivatives of
  `np.multiply.at` leave out the terms of two factors of one element that are both zero.
- What `where` did not choose never shows, be it NaN or inf, through elementwise ops, broadcasts,
  reshapes, slices and sums. Through a contraction it does: choose the operand there.
- `logsumexp` of nothing but -inf has NaN.
- `cholesky` and `eigh` read one triangle, and the derivative is that of this triangle. Vectors of
  equal eigenvalues or singular values have none (inf, NaN); the values alone have first derivatives
  there, and NaN as second ones. Singular matrices have derivatives of `det` of every order (it is a
  polynomial), and infinite ones of `slogdet`; `pinv` and `lstsq` have those at constant rank.
"""


def fact_of(op: type[TensorOp]) -> str:
    """The facts an op states, in the order in which they count."""
    linear = op.states("linear_operands") or op.states("jointly_linear")
    found = ["transpose"] if linear and op.states("transpose") else []
    if op.states("jvp"):
        found.append("jvp")
    own = op.states("partials") and op.partials is not Elementwise.partials
    return " or ".join([*found, "partials"] if own else found)


def row_of(op: type[TensorOp]) -> tuple[str, ...]:
    """op, reverse, forward, reverse over forward, batch, why."""
    batch = "yes" if op.states("batch") else "no"
    if op.NO_DERIVATIVE:
        return op.name, "zero", "zero", "zero", batch, op.NO_DERIVATIVE
    return op.name, "yes", "yes", "yes", batch, fact_of(op)


def routine_row(name: str) -> tuple[str, str]:
    """A routine of `mlc.library`, and what its derivative is from."""
    facts: list[str] = []
    if name in LINEAR:
        facts.append(f"transpose in operand {LINEAR[name][0]}")
    if name in TANGENTS:
        facts.append("jvp")
    limit = {"qr_complete": "rows <= columns", "svd_full": "square matrices"}.get(name)
    return name, " or ".join(facts) + (
        f", for {limit}: other vectors are arbitrary" if limit else ""
    )


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def document() -> str:
    """The whole page."""
    head = ("op", "reverse", "forward", "reverse over forward", "batch", "by")
    ops = table(head, [row_of(op) for op in OPS])
    routines = table(("routine", "by"), [routine_row(name) for name in ROUTINES])
    return f"{HEAD}\n## Ops\n\n{ops}\n\n## Routines of `mlc.library`\n\n{routines}\n"


if __name__ == "__main__":
    DOCUMENT.write_text(document())
