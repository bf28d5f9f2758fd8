"""Two ways of which the compiled function goes one: regions, and the join of what they leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from xdsl.ir import Block, Region, SSAValue

from mlc.dialects.dims import shape_of
from mlc.dialects.tensor.bitwise import AndOp, NotOp, OrOp, XorOp
from mlc.dialects.tensor.comparison import CompareOp, ConvertOp, MaxOp, MinOp, SelectOp
from mlc.dialects.tensor.control import IfOp, YieldOp, discard
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.elementwise import AddOp, NegOp, SubOp
from mlc.frontend.errors import SpecialiseSignal
from mlc.frontend.staging.exits import (
    RAISES,
    RETURNS,
    Exit,
    HeldExit,
    after,
    exit_of,
    joined_exit,
    value_of,
)
from mlc.frontend.staging.joins import (
    RAISED,
    UNBOUND,
    Held,
    Hole,
    Join,
    Misfit,
    Undecided,
    contents_held,
    filled,
)
from mlc.frontend.staging.journal import contents_of, reachable
from mlc.frontend.staging.twins import noted
from mlc.frontend.staging.variables import (
    Body,
    Contents,
    Elements,
    Local,
    Traced,
    Variable,
    of_tracer,
    traced,
)
from mlc.frontend.staging.variants import facts_of, knowing
from mlc.frontend.trace.containers import flatten
from mlc.frontend.trace.effects import Raised, effects_of
from mlc.frontend.trace.source import user_site
from mlc.frontend.trace.trace import current, here
from mlc.frontend.trace.tracer import Tracer
from mlc.frontend.trace.unread import asked_in

RETURNED = frozenset({RETURNS})

MOST_SELECTED = 8
"""Ops on numbers that are cheaper computed than chosen by a jump."""

SELECTABLE: tuple[type[Any], ...] = (
    *(CompareOp, ConvertOp, MaxOp, MinOp, SelectOp, ConstantOp, AddOp, SubOp, NegOp),
    *(AndOp, OrOp, XorOp, NotOp),
)
"""Ops whose derivative is finite wherever their operands are."""


def staged_branch(
    condition: Tracer,
    bodies: tuple[Body | None, Body | None],
    rest: Body | bool | None,
    local: Sequence[Local],
    *,
    later: bool,
    apart: bool = False,
) -> Exit | None:
    """
    if condition: … else: …; rest()

    Where one branch surely leaves, the statements after it belong to the other. `later`: the second
    is traced first, since only it may leave. `apart`: what has dtypes that differ is one or the
    other then.
    """
    sides: list[Traced | None] = [None, None]
    traces: dict[int, _Trace] = {}
    continued = False
    order = (1, 0) if later else (0, 1)
    for k in order:
        other = sides[1 - k]

        def run(
            body: Body | None = bodies[k], other: Traced | None = other, side: int = k
        ) -> Exit | None:
            with knowing(facts_of(condition, side)):
                return go(body, other)

        def go(body: Body | None, other: Traced | None) -> Exit | None:
            nonlocal continued
            code = exit_of(body) if body is not None else None
            if other is not None and other.outcome.possible.isdisjoint({0}) and callable(rest):
                continued = True
                return exit_of(lambda: after(code, rest, local))
            return code

        def trace(also: Sequence[Any], run: Callable[[], Exit | None] = run) -> Traced:
            return deciding(condition, lambda: traced(Block(), run, local, HeldExit.of, also))

        sides[k] = trace(())
        traces[k] = trace
    x, y = _knowing_both(sides, traces)
    code = deciding(condition, lambda: _joined(condition, (x, y), local, apart))
    return code if continued else after(code, rest, local)


_Trace = Callable[[Sequence[Any]], Traced]


def _knowing_both(
    sides: Sequence[Traced | None], traces: Mapping[int, _Trace]
) -> tuple[Traced, Traced]:
    """
    Two bodies of which each says what the objects hold that the other changes: it is traced again
    where it changes something in them, as a list in a dict.
    """
    x, y = sides
    assert x is not None
    assert y is not None
    found: list[Traced] = []
    for k, (mine, other) in enumerate(((x, y), (y, x))):
        asked = [
            obj
            for key, (obj, _) in other.journal.objects.items()
            if key not in mine.journal.objects and mine.journal.changes_in(obj)
        ]
        if asked:
            discard(mine.block)
        found.append(traces[k](asked) if asked else mine)
    return found[0], found[1]


def deciding(condition: Tracer, trace: Callable[[], Any]) -> Any:
    """What `trace` gives; where it cannot, an argument that decides is part of the program."""
    try:
        return trace()
    except Exception as error:
        if condition.origins:
            because = f"{type(error).__name__} where it is not known"
            raise SpecialiseSignal(condition.origins, frozenset(), because) from None
        raise


def unless_raised(run: Body, local: Sequence[Local]) -> Exit | None:
    """run(), unless an error has been raised by now, in a function that was called or a test."""
    beside = effects_of(current())
    raised = None if beside is None else beside.raised()
    if beside is None or raised is None:
        return run()

    def undisturbed() -> Exit | None:
        beside.clear()
        return run()

    return staged_branch(raised, (lambda: RAISES, undisturbed), None, local, later=False)


def choice(
    name: str, condition: Tracer, then: Body, otherwise: Body, *, apart: bool = False
) -> Any:
    """then() if condition else otherwise(), of expressions; `apart`: as of `staged_branch`."""

    def joined() -> Any:
        traces = {k: _side(condition, k, body) for k, body in enumerate((then, otherwise))}
        x, y = _knowing_both([traces[0](()), traces[1](())], traces)
        join = Join(condition, (x.block, y.block), apart)
        try:
            value = join.value(name, x.outcome, y.outcome)
        except Misfit as misfit:
            raise misfit.error(name) from None
        changes = _changes(join, (x, y), ())
        results = _emit(join)
        _put(changes, results)
        if value is RAISED:
            raise Raised
        made = filled(value, results)
        noted(made, x.outcome.value, y.outcome.value)
        return made

    return deciding(condition, joined)


def _side(condition: Tracer, side: int, body: Body) -> _Trace:
    def trace(also: Sequence[Any]) -> Traced:
        with knowing(facts_of(condition, side)):
            return traced(Block(), partial(value_of, body), (), Held.of, also)

    return trace


def _joined(
    condition: Tracer, sides: tuple[Traced, Traced], local: Any, apart: bool
) -> Exit | None:
    x, y = sides
    join = Join(condition, (x.block, y.block), apart)
    try:
        code = joined_exit(join, x.outcome, y.outcome)
    except Misfit as misfit:
        raise misfit.error("what is returned") from None
    changes = _changes(join, sides, local)
    results = _emit(join)
    _put(changes, results)
    for variable, left, right in zip(local, x.locals, y.locals, strict=True):
        noted(variable.get(), left.value, right.value)
    if code is None:
        return None
    number = filled(code.code, results)
    return replace(code, code=number, value=filled(code.value, results))


def _changes(join: Join, sides: tuple[Traced, Traced], local: Any) -> list[tuple[Variable, Any]]:
    """Each variable that a side has changed, and the joined value with holes."""
    found: list[tuple[Variable, Any]] = []
    for k, variable in enumerate(local):
        x, y = sides[0].locals[k], sides[1].locals[k]
        if x.value is y.value and x.value is variable.get():
            continue
        unseen = [s.locals[k].value is UNBOUND and s.outcome.possible == RETURNED for s in sides]
        if unseen == [True, False]:
            found.append((variable, join.beside_zeros(y, 1)))
        elif unseen == [False, True]:
            found.append((variable, join.beside_zeros(x, 0)))
        else:
            found.append((variable, _decided(join, variable, x, y)))
    for key, array in {i: a for s in sides for i, (a, _) in s.journal.values.items()}.items():
        if not array.is_another and _from_around(array):
            held = [side.arrays.get(key) or of_tracer(array) for side in sides]
            values = [h.values[0] for h in held]
            assert values[0] is not None
            assert values[1] is not None
            found.append((Elements("", array), join.arrays(values[0], values[1])))
    for key, obj in {i: o for s in sides for i, (o, _) in s.journal.objects.items()}.items():
        if any(key not in s.journal.objects for s in sides) and not reachable(obj):
            continue  # one side's own
        variable = Contents(type(obj).__name__, obj)
        x, y = (_contents(side, key, obj) for side in sides)
        try:
            found.append((variable, join.contents(variable.name, x, y, obj)))
        except Misfit as misfit:
            if reachable(obj):
                raise misfit.error(f"what the {variable.name} holds") from None
    return found


def _contents(side: Traced, key: int, obj: Any) -> dict[Any, Held]:
    held = side.objects.get(key)
    return contents_held(contents_of(obj)) if held is None else held


def _from_around(array: Any) -> bool:
    """Whether an array was there before the bodies."""
    return array.from_outside() is not None or here().visible(array.known)


def _decided(join: Join, variable: Variable, x: Held, y: Held) -> Any:
    for held in (x, y):
        if isinstance(held.value, Undecided):
            return held.value
    try:
        return join.value(variable.name, x, y)
    except Misfit as misfit:
        return Undecided(variable.name, misfit, user_site())


def _put(changes: list[tuple[Variable, Any]], results: list[SSAValue]) -> None:
    known: dict[int, Any] = {}
    written_first = sorted(changes, key=lambda change: not isinstance(change[0], Elements))
    for variable, value in written_first:
        if isinstance(value, Undecided) or value is UNBOUND:
            variable.put(value)
            continue
        if isinstance(variable, Contents):
            variable.put({k: _kept_or_filled(v, results) for k, v in value.items()})
            continue
        made = known.get(value.number) if isinstance(value, Hole) else None
        if made is None:
            made = filled(value, results)
        if isinstance(value, Hole):
            known[value.number] = made
        variable.put(made)


def _kept_or_filled(value: Any, results: list[SSAValue]) -> Any:
    """What a place holds: the same object, unless results are in it."""
    holes = any(isinstance(leaf, Hole) for leaf in flatten(value)[0])
    return filled(value, results) if holes else value


def _emit(join: Join) -> list[SSAValue]:
    """The results: by `select` where both ways are cheap numbers, else by `mlc.if`."""
    if not join.pairs and (asked := asked_in(join.blocks)):
        join.arrays(*asked)  # an error, if nothing else, may come of them
    if not join.pairs:
        return []
    ops = [op for block in join.blocks for op in block.ops]
    numbers = all(not shape_of(x.type) for pair in join.pairs for x in pair)
    cheap = all(
        isinstance(op, SELECTABLE) and not any(shape_of(r.type) for r in op.results) for op in ops
    )
    trace = here()
    if numbers and cheap and len(ops) <= MOST_SELECTED:
        for op in ops:
            op.detach()
            trace.scopes[-1].add_op(op)
        condition = join.condition.value
        return [x if x is y else trace.emit(SelectOp, condition, x, y) for x, y in join.pairs]
    for block, values in zip(join.blocks, zip(*join.pairs, strict=True), strict=True):
        block.add_op(YieldOp.create(operands=list(values)))
    op = IfOp(join.condition.value, *(Region(block) for block in join.blocks))
    trace.b.insert(op)
    return list(op.outs)
