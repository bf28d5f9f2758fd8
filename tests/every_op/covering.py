"""Which cases every run compiles: classes of shapes share them. Slow tests compile all in each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mlc.dialects.dtypes import DTYPES, I64, DType
from tests.every_op.cases import Case


def dtype_of(case: Case) -> DType:
    """The dtype that a case stands for: of its last operand that is no index, or of its result."""
    kinds = [x.dtype for x in case.operands if x.indexes is None]
    if kinds:
        return kinds[-1]
    return next((d for d in DTYPES if d.name in case.label.split()), I64)


def covering(cases: Mapping[str, Sequence[Case]]) -> Mapping[str, list[Case]]:
    """
    Of each class's cases those with the first of every op and label, of every op and kind of dtype,
    and of every dtype there; and each case in one of the classes that have it.
    """
    having: dict[str, list[str]] = {}
    for name, of_class in cases.items():
        for text in dict.fromkeys(map(str, of_class)):
            having.setdefault(text, []).append(name)
    home = {text: names[k % len(names)] for k, (text, names) in enumerate(having.items())}
    return {name: _of_class(of_class, name, home) for name, of_class in cases.items()}


def forms(cases: Iterable[Case]) -> list[Case]:
    """The first case with each op and label, each op and kind of dtype, and each dtype."""
    return _of_class(list(cases), "", {})


def _of_class(cases: Sequence[Case], name: str, home: Mapping[str, str]) -> list[Case]:
    seen: set[object] = set()
    found: list[Case] = []
    # those that are at home here are taken anyway, so they come first
    for case in sorted(cases, key=lambda case: home.get(str(case)) != name):
        dtype = dtype_of(case)
        shown = {(case.op, case.label), (case.op, dtype.kind), dtype}
        if home.get(str(case)) == name or not shown <= seen:
            found.append(case)
        seen |= shown
    return found
