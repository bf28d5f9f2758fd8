"""A function changes what it made itself; what would happen once, when it is traced, is refused."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false

from __future__ import annotations

import copy
import linecache
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.frontend.errors import LeakError
from tests.unit.test_numpy_names import assert_same

X = np.arange(1.0, 5.0)

STATE = """
L, D, S, BA, H, n = [], {"a": 1.0}, {1}, bytearray(b"a"), [], 0
DQ, OD, CT = collections.deque(), collections.OrderedDict(a=1.0), collections.Counter()
DD, NT, W = collections.defaultdict(list), collections.namedtuple("NT", "l k")([1], 2), np.ones(4)
IT = itertools.count()
@dataclasses.dataclass
class P:
    w: object
    n: int = 0
class M:
    count = 0
    def __init__(self): self.w, self.n, self.d, self.l = np.ones(4), 0, {"w": np.ones(4)}, []
def helper(x): return x
PP, m = P(np.ones(4)), M()
push = L.append
"""
STORES = """
m.w = m.w - x
m.n += 1
m.n, y = 3, x
m.new = 3
M.count += 1
type(m).count = 2
m.__class__.count = 2
m.d["k"] = x
m.d["w"] = x
m.d["w"] = m.d["w"] + x
m.l.append(x)
m.__dict__["w"] = x
vars(m)["w"] = x
setattr(m, "w", x)
object.__setattr__(m, "w", x)
m.__setattr__("w", x)
delattr(m, "w")
del m.w
for m.n in range(3): pass
if "v" not in m.d: m.d["v"] = x.sum()
PP.w = x
PP.n += 1
helper.calls = 1
L.append(x.sum())
push(x)
L.append(3)
L.extend(v for v in [1, 2])
L.insert(0, 1)
L[:] = [1]
l = L; l += [1]
l = L; l *= 2
L.sort()
L.clear()
list.append(L, x)
list(map(L.append, [1, 2]))
[L.append(v) for v in range(3)]
(lambda: L.append(2))()
D["a"] = 2.0
D["new"] = x
D.update(b=x)
D.setdefault("zz", x)
D.pop("a")
D.popitem()
D.clear()
d = D; d |= {"b": 1}
del D["a"]
for D["k"] in range(2): pass
operator.setitem(D, "q", 1)
operator.iadd(L, [1])
S.add(3)
S.discard(1)
s = S; s |= {4}
DQ.append(x)
DQ.appendleft(x)
OD["a"] = x
OD.move_to_end("a")
CT["a"] += 1
CT.update("ab")
DD["k"].append(x)
DD["k"]
BA.append(3)
heapq.heappush(H, 1.0)
bisect.insort(H, 1.0)
NT.l.append(3)
globals()["n"] = 5
global n; n = 2
global n; n += 1
global n; (n := 3)
global n; import math as n
global L; L = [x]
next(IT)
W[0] = 3.0
W[:] = x
global W; W += x
"""


@pytest.mark.parametrize("statement", [s for s in STORES.splitlines() if s])
def test_a_store_outside_is_refused_where_it_is_written(statement: str) -> None:
    name = f"<store {statement}>"
    source = f"{STATE}def f(x):\n    {statement}\n    return x\n"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    modules = ["collections", "itertools", "dataclasses", "heapq", "bisect", "operator"]
    space: dict[str, Any] = {"np": np, "__name__": __name__}
    space |= {module: __import__(module) for module in modules}
    exec(compile(source, name, "exec"), space)
    names = ["L", "D", "S", "BA", "H", "n", "DQ", "OD", "CT", "DD", "NT", "W"]
    objects = ("PP", "m", "M", "helper")

    def state() -> Any:
        held = {k: space[k] for k in names} | {k: dict(vars(space[k])) for k in objects}
        return {k: repr(copy.copy(v)) for k, v in held.items()}

    before = state()
    with pytest.raises(
        mlc.NotSupportedError, match=r"outside the compiled|from outside|used? up"
    ) as e:
        mlc.compile(space["f"])(X)
    assert statement.split(";")[-1].strip()[:5] in str(e.value) or "W" in statement
    assert state() == before


def test_what_a_function_made_it_may_change() -> None:
    kept = {"w": np.ones(4), "l": [1.0, 2.0]}

    class Own:
        def __init__(self, x: Any) -> None:
            self.x = x

    def f(x: Any, **named: Any) -> Any:
        d = dict(kept)
        d["w"] = d["w"] * x
        d.update(new=x)

        class Inner:
            factor = x

            def twice(self) -> Any:
                return self.factor * 2

        Inner.factor = Inner.factor + 1
        own, held = Own(Inner().twice()), list(d["l"])
        own.x = own.x + d.pop("new")
        own.y = 3
        del own.y
        held += [x]
        held.append(own.x)
        held[0] *= 2
        named["k"] = named["k"] * 2
        count = 0

        def inner() -> None:
            nonlocal count
            count += 1
            held.append(x)

        inner()
        s = {1, 2}
        s.add(3)
        (first, held[1]), *_ = [(x, 7.0)]
        for d["loop"] in range(3):
            first = first + d["loop"]
        return d["w"] + own.x + sum(held) + named["k"] + count + len(s) + first

    compiled = mlc.compile(f)
    assert_same(compiled(X, k=X), f(X, k=X))
    assert kept["l"] == [1.0, 2.0]


def test_iterators_do_not_go_in() -> None:
    with pytest.raises(mlc.NotSupportedError, match="i is an iterator"):
        mlc.compile(lambda x, i: x * next(i))(X, iter([1.0]))


class Eager:
    """Its operators are not traced, and remember what they get."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.by_name: dict[str, Any] = {}

    def __matmul__(self, other: Any) -> Any:
        self.log.append(other)
        return other

    def __mod__(self, other: Any) -> Any:
        self.by_name["last"] = other
        return other

    def __xor__(self, other: Any) -> Any:
        self.last = other
        return other


def test_nothing_traced_is_left_behind() -> None:
    eager = Eager()
    for f in (lambda x: eager @ (x + 1), lambda x: eager % (x * 2), lambda x: eager ^ (x * 2)):
        with pytest.raises(LeakError, match="is kept after the function has returned"):
            mlc.compile(f)(X)
    assert (eager.log, eager.by_name, vars(eager).get("last")) == ([], {}, None)
