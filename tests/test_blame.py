"""`mlc blame` names pass, rule and op of a miscompilation, and leaves a small program."""

# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation

import mlc
from mlc import registry
from mlc.blame import Blame, blame
from mlc.dialects.tensor.comparison import CompareOp, MaxOp, MinOp, SelectOp
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.elementwise import AddOp, DivOp, ExpOp, MulOp, NegOp, SqrtOp, SubOp, TanhOp
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.driver import main
from mlc.passes.tensor import canonicalize, cse
from mlc.passes.tensor.rules import Rules

X = np.random.default_rng(3).standard_normal((5, 7))


@mlc.compile(threads=1)
def program(x: Any) -> Any:
    """A mask, a loop, sums along both axes, and most kinds of elementwise ops."""
    shown = np.where(x > 0.5, x, 0.25)
    e = np.exp(shown - shown.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    total = np.zeros(7)
    for k in range(40):
        total = np.tanh(total * 0.5 + p[k % 5])
    return np.sqrt(e.sum(axis=0)) + total, np.minimum(p.T @ p, 0.1)


def blamed() -> Blame | None:
    """Of the program, in which something may be planted."""
    return blame(program.lower(X).levels, [X], {})


def test_nothing_is_blamed_where_nothing_is_wrong() -> None:
    assert blamed() is None


# Wrong rules: what they make is of another class, so that they come to an end


def sum_for_difference(op: Any, b: Any) -> Any:
    return b(AddOp, op.lhs, op.rhs)


def product_for_quotient(op: Any, b: Any) -> Any:
    return b(MulOp, op.lhs, op.rhs)


def larger_for_smaller(op: Any, b: Any) -> Any:
    return b(MaxOp, op.lhs, op.rhs)


def forgotten_mask(op: Any, b: Any) -> Any:
    return op.operands[1]


def wrong_sign(op: Any, b: Any) -> Any:
    return b(NegOp, b(ExpOp, op.operands[0]))


def plant(monkeypatch: pytest.MonkeyPatch, op: type[Any], rule: Callable[[Any, Any], Any]) -> None:
    """Among the rules of canonicalisation."""
    wrong = Rules()
    wrong.on(op)(rule)
    right: Any = vars(canonicalize)["_rules"]
    monkeypatch.setattr(canonicalize, "_rules", lambda *limits: Rules(wrong, right(*limits)))


RULES: list[tuple[type[Any], Callable[[Any, Any], Any]]] = [
    (SubOp, sum_for_difference),
    (DivOp, product_for_quotient),
    (MinOp, larger_for_smaller),
    (SelectOp, forgotten_mask),
    (TanhOp, wrong_sign),
]


@pytest.mark.parametrize(("op", "rule"), RULES, ids=lambda x: x.__name__)
def test_a_wrong_rule(
    op: type[Any], rule: Callable[[Any, Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, op, rule)
    found = blamed()
    assert found is not None
    assert (found.step, found.rule) == ("mlc-canonicalize", rule.__name__)
    assert op.name in _names(found)
    assert found.case.count() <= 3


# Passes that leave one op wrong


def swapped(op: Operation) -> None:
    op.operands = [op.operands[1], op.operands[0]]


def turned(op: Any) -> None:
    op.properties["predicate"] = StringAttr("lt")


def unmasked(op: Any) -> None:
    op.results[0].replace_all_uses_with(op.operands[1])


def replaced_by(other: type[Any]) -> Callable[[Any], None]:
    def change(op: Any) -> None:
        by = other.create(operands=list(op.operands), result_types=[op.results[0].type])
        op.parent.insert_op_before(by, op)
        op.results[0].replace_all_uses_with(by.results[0])

    return change


CHANGES: dict[str, tuple[type[Any], Callable[[Any], None]]] = {
    "swapped": (SubOp, swapped),
    "upside down": (DivOp, swapped),
    "turned": (CompareOp, turned),
    "unmasked": (SelectOp, unmasked),
    "sine": (ExpOp, replaced_by(TanhOp)),
    "root": (SqrtOp, replaced_by(ExpOp)),
}
PASSES = (
    "mlc-chunk-folds", "mlc-canonicalize", "mlc-fold-views", "mlc-cse", "mlc-merge-siblings",
    "mlc-choose-fusion", "mlc-form-kernels", "mlc-schedule",
)  # fmt: skip
PLANTS = [(p, c) for k, p in enumerate(PASSES) for j, c in enumerate(CHANGES) if (k + j) % 2]
QUICK = PLANTS[::8]


@pytest.mark.parametrize(
    ("name", "change"),
    [pytest.param(*x, marks=[] if x in QUICK else pytest.mark.slow) for x in PLANTS],
)
def test_a_wrong_pass(name: str, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, edit = CHANGES[change]
    chosen: Any = registry.load(name)
    right = chosen.apply

    def apply(self: Any, ctx: Any, module: ModuleOp) -> None:
        right(self, ctx, module)
        for op in [x for x in module.walk() if isinstance(x, kind)]:
            edit(op)

    monkeypatch.setattr(chosen, "apply", apply)
    found = blamed()
    assert found is not None
    assert found.step == name
    assert kind.name in _names(found)
    assert found.case.count() <= 8  # of 177; a kernel holds ops of its own


def test_values_that_only_look_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Value numbering that forgets what ops are on."""
    monkeypatch.setattr(cse, "_key", lambda op, number=id: (type(op), op.results[0].type))
    found = blamed()
    assert found is not None
    assert found.step == "mlc-cse"
    assert len({name for name in _names(found) if name != "mlc.constant"}) <= 2


def test_a_pass_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def apply(self: Any, ctx: Any, module: ModuleOp) -> None:
        if "mlc.tanh" in str(module):
            raise ZeroDivisionError("no such thing")

    monkeypatch.setattr(cse.CsePass, "apply", apply)
    found = blamed()
    assert found is not None
    assert (found.step, found.fault) == ("mlc-cse", "raises ZeroDivisionError: no such thing")
    assert "mlc.tanh" in _names(found)
    assert found.case.count() <= 2


def test_wrong_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only compiled code does wrong: the interpreter has the op's meaning."""
    right = SubOp.scalar
    monkeypatch.setattr(SubOp, "scalar", lambda self, b, x, y: right(self, b, y, x))
    monkeypatch.setenv("MLC_CACHE_BYTES", "0")
    found = blamed()
    assert found is not None
    assert found.step == "code"
    assert _names(found) == ["mlc.sub"]


def test_what_is_left_runs(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "f.py"
    file.write_text(
        "import numpy as np\nimport mlc\n\n\n@mlc.compile\n"
        "def f(x: mlc.TensorSpec('B', 3)):\n    return np.exp(x) - x.sum(axis=0)\n"
    )
    stem = str(tmp_path / "small")
    assert main(["blame", f"{file}:f", "--sizes", "B=4", "-o", stem]) == 0
    assert "nothing is wrong" in capsys.readouterr().out
    plant(monkeypatch, SubOp, sum_for_difference)
    assert main(["blame", f"{file}:f", "--sizes", "B=4", "-o", stem]) == 1
    said = capsys.readouterr().out
    assert said.startswith("pass mlc-canonicalize (tensor), rule sum_for_difference: result 0:")
    assert "f.py:7" in said
    assert main(["blame", f"{stem}.mlir", "--inputs", f"{stem}.npz", "-o", stem]) == 1
    monkeypatch.undo()
    assert main(["blame", f"{stem}.mlir", "--inputs", f"{stem}.npz", "-o", stem]) == 0
    assert main(["blame", f"{stem}.mlir", "--inputs", str(tmp_path / "none.npz")]) == 1
    assert "none.npz: No such file" in capsys.readouterr().err


def _names(found: Blame) -> list[str]:
    ops = found.case.body.walk()
    return [op.name for op in ops if op.results and not isinstance(op, ConstantOp | ReduceOp)]


# Derivatives and batches


def sloped(w: Any, x: Any) -> Any:
    """With a constant for derivatives, and most kinds of ops."""
    y = np.tanh(x @ w) * 0.5
    e = np.exp(y - y.max(axis=1, keepdims=True))
    return (np.sqrt(e / e.sum(axis=1, keepdims=True)) * x).sum()


W = np.random.default_rng(5).standard_normal((7, 7)).astype(np.float32)


@mlc.compile(threads=1)
def trained(w: Any, x: Any) -> Any:
    """Reverse and forward mode, and examples at once."""
    value, slope = mlc.value_and_grad(sloped)(w, x)
    _, along = mlc.jvp(lambda v: sloped(v, x), (w,), (x.T @ x,))
    return value, along, mlc.vmap(lambda row: np.exp(row) / row.sum())(w - 0.1 * slope)


@pytest.fixture(scope="module")
def levels() -> Any:
    """Traced before anything is planted: whoever traces differentiates, too."""
    return trained.lower(W, X.astype(np.float32)).levels


def blamed_of_derivatives(levels: Any) -> Blame | None:
    return blame(levels, [W, X.astype(np.float32)], {})


def test_right_derivatives_are_not_blamed(levels: Any) -> None:
    traced = str(levels.at_trace())
    assert all(f"mlc.{name}" in traced for name in ("pull_back", "push_forward", "batch"))
    assert blamed_of_derivatives(levels) is None


@pytest.mark.parametrize(
    ("op", "fact", "wrong"),
    [
        (TanhOp, "partials", lambda self, b: (self.result,)),
        (MulOp, "transpose", lambda self, b, cotangent, operand: cotangent),
        (SqrtOp, "partials", lambda self, b: (b(NegOp, self.result),)),
        (ReduceOp, "batch", lambda self, b, operands, batched: operands[0]),
    ],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_a_wrong_derivative(
    op: Any, fact: str, wrong: Any, levels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(op, fact, wrong)
    found = blamed_of_derivatives(levels)
    assert found is not None
    assert found.step == "mlc-expand-transforms"
    assert op.name in [x.name for x in found.case.ops()]
    assert found.case.count() <= 3


def test_a_wrong_derivative_stays_wrong(
    tmp_path: Path, capsys: Any, levels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TanhOp, "partials", lambda self, b: (self.result,))
    found = blamed_of_derivatives(levels)
    assert found is not None
    text, inputs = found.write(str(tmp_path / "small"))
    command = ["blame", str(text), "--inputs", str(inputs), "-o", str(tmp_path / "again")]
    assert main(command) == 1
    assert "pass mlc-expand-transforms (tensor): the cotangent of" in capsys.readouterr().out
    monkeypatch.undo()
    assert main(command) == 0
