"""Programs with tile loops, written by hand as text, and what they mean in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def kind(*dims: int | str, element: str = "f32") -> str:
    """A tensor type, with names for the dims that are symbols."""
    sizes = "".join(f"{d}x" if isinstance(d, int) else "?x" for d in dims)
    if all(isinstance(d, int) for d in dims):
        return f"tensor<{sizes}{element}>"
    named = ", ".join(str(d) if isinstance(d, int) else f'"{d}"' for d in dims)
    return f"tensor<{sizes}{element}, #mlc.dims<{named}>>"


def size(dim: int | str) -> str:
    """A dim in a loop's head."""
    return str(dim) if isinstance(dim, int) else f'"{dim}"'


def function(
    arguments: dict[str, str], results: list[str], body: str, symbols: tuple[str, ...] = ()
) -> str:
    """A function of arguments, name -> type; the body ends with what it returns."""
    given = ", ".join(f"%{name}: {t}" for name, t in arguments.items())
    names = ", ".join(f'"{s}"' for s in symbols)
    head = f"func.func @f({given}) -> ({', '.join(results)})"
    return f"""{head} attributes {{mlc.symbols = [{names}]}} {{
{body}
}}
"""


def softmax(rows: int | str, columns: int | str, step: int, element: str = "f32") -> str:
    """Softmax of rows: maximum, sum of exponentials, quotients."""
    whole, tile, row = (
        kind(rows, columns, element=element),
        kind("T", columns, element=element),
        kind("T", element=element),
    )
    body = f"""
  %y = mlc.tiles (%i in {size(rows)} step {step} as "T") -> ({whole} at (0)) {{
    %t = mlc.tile %x[%i] at (0) : {whole} -> {tile}
    %m = mlc.reduce "max" "ij->i" %t : {tile} -> {row}
    %b = mlc.broadcast "i->ij" %m : {row} -> {tile}
    %d = mlc.sub %t, %b : {tile}
    %e = mlc.exp %d : {tile}
    %s = mlc.reduce "sum" "ij->i" %e : {tile} -> {row}
    %w = mlc.broadcast "i->ij" %s : {row} -> {tile}
    %q = mlc.div %e, %w : {tile}
    mlc.yield %q : {tile}
  }}
  func.return %y : {whole}"""
    return function({"x": whole}, [whole], body, _symbols(rows, columns))


def layer_norm(rows: int | str, columns: int, step: int) -> str:
    """(x - mean) / sqrt(variance + 1e-5) * g + b over rows; the mean too."""
    whole, tile, row, across = (
        kind(rows, columns),
        kind("T", columns),
        kind("T"),
        kind(columns),
    )
    body = f"""
  %y, %means = mlc.tiles (%i in {size(rows)} step {step} as "T")
      -> ({whole} at (0), {kind(rows)} at (0)) {{
    %t = mlc.tile %x[%i] at (0) : {whole} -> {tile}
    %s = mlc.reduce "sum" "ij->i" %t : {tile} -> {row}
    %n = mlc.constant dense<{1 / columns:.9e}> : tensor<f32>
    %ns = mlc.broadcast "->i" %n : tensor<f32> -> {row}
    %m = mlc.mul %s, %ns : {row}
    %b = mlc.broadcast "i->ij" %m : {row} -> {tile}
    %d = mlc.sub %t, %b : {tile}
    %dd = mlc.mul %d, %d : {tile}
    %v = mlc.reduce "sum" "ij->i" %dd : {tile} -> {row}
    %vn = mlc.mul %v, %ns : {row}
    %eps = mlc.constant dense<1.0e-5> : tensor<f32>
    %epss = mlc.broadcast "->i" %eps : tensor<f32> -> {row}
    %ve = mlc.add %vn, %epss : {row}
    %r = mlc.rsqrt %ve : {row}
    %rb = mlc.broadcast "i->ij" %r : {row} -> {tile}
    %z = mlc.mul %d, %rb : {tile}
    %gs = mlc.broadcast "j->ij" %g : {across} -> {tile}
    %zg = mlc.mul %z, %gs : {tile}
    %bs = mlc.broadcast "j->ij" %o : {across} -> {tile}
    %q = mlc.add %zg, %bs : {tile}
    mlc.yield %q, %m : {tile}, {row}
  }}
  func.return %y, %means : {whole}, {kind(rows)}"""
    arguments = {"x": whole, "g": across, "o": across}
    return function(arguments, [whole, kind(rows)], body, _symbols(rows))


def column_sums(rows: int | str, columns: int, step: int, fold: str = "sum") -> str:
    """Columns of exp(x), combined over tiles of rows, and exp(x) itself."""
    whole, tile, across = kind(rows, columns), kind("T", columns), kind(columns)
    combine = {"sum": "add", "max": "max", "min": "min", "prod": "mul"}[fold]
    body = f"""
  %y, %total = mlc.tiles (%i in {size(rows)} step {step} as "T") iter(%c = %start) fold("{fold}")
      -> ({whole} at (0), {across}) {{
    %t = mlc.tile %x[%i] at (0) : {whole} -> {tile}
    %e = mlc.exp %t : {tile}
    %s = mlc.reduce "{fold}" "ij->j" %e : {tile} -> {across}
    %n = mlc.{combine} %c, %s : {across}
    mlc.yield %e, %n : {tile}, {across}
  }}
  func.return %y, %total : {whole}, {across}"""
    return function({"x": whole, "start": across}, [whole, across], body, _symbols(rows))


def attention(
    queries: int | str, keys: int | str, depth: int, rows: int, columns: int, heads: int = 2
) -> str:
    """softmax(q k') v of each head, by online rescaling over tiles of keys."""
    qs, ks = kind(heads, queries, depth), kind(heads, keys, depth)
    q, k = kind(1, "R", depth), kind(1, "C", depth)
    scores, row = kind(1, "R", "C"), kind(1, "R")
    loops = f'%h in {heads} step 1, %i in {size(queries)} step {rows} as "R"'
    body = f"""
  %y = mlc.tiles ({loops}) -> ({qs} at (0, 1)) {{
    %a = mlc.tile %q[%h, %i] at (0, 1) : {qs} -> {q}
    %lowest = mlc.constant dense<-3.0e38> : tensor<f32>
    %zero = mlc.constant dense<0.0> : tensor<f32>
    %m0 = mlc.broadcast "->hr" %lowest : tensor<f32> -> {row}
    %l0 = mlc.broadcast "->hr" %zero : tensor<f32> -> {row}
    %o0 = mlc.broadcast "->hrd" %zero : tensor<f32> -> {q}
    %m, %l, %o = mlc.tiles (%j in {size(keys)} step {columns} as "C")
        iter(%mi = %m0, %li = %l0, %oi = %o0) -> ({row}, {row}, {q}) {{
      %b = mlc.tile %k[%h, %j] at (0, 1) : {ks} -> {k}
      %c = mlc.tile %v[%h, %j] at (0, 1) : {ks} -> {k}
      %s = mlc.contract "hrd,hcd->hrc" %a, %b : {q}, {k} -> {scores}
      %sm = mlc.reduce "max" "hrc->hr" %s : {scores} -> {row}
      %mn = mlc.max %mi, %sm : {row}
      %mb = mlc.broadcast "hr->hrc" %mn : {row} -> {scores}
      %d = mlc.sub %s, %mb : {scores}
      %p = mlc.exp %d : {scores}
      %ps = mlc.reduce "sum" "hrc->hr" %p : {scores} -> {row}
      %md = mlc.sub %mi, %mn : {row}
      %f = mlc.exp %md : {row}
      %lf = mlc.mul %li, %f : {row}
      %ln = mlc.add %lf, %ps : {row}
      %pv = mlc.contract "hrc,hcd->hrd" %p, %c : {scores}, {k} -> {q}
      %fb = mlc.broadcast "hr->hrd" %f : {row} -> {q}
      %of = mlc.mul %oi, %fb : {q}
      %on = mlc.add %of, %pv : {q}
      mlc.yield %mn, %ln, %on : {row}, {row}, {q}
    }}
    %lb = mlc.broadcast "hr->hrd" %l : {row} -> {q}
    %r = mlc.div %o, %lb : {q}
    mlc.yield %r : {q}
  }}
  func.return %y : {qs}"""
    arguments = {"q": qs, "k": ks, "v": ks}
    return function(arguments, [qs], body, _symbols(queries, keys))


def _symbols(*dims: int | str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(d for d in dims if isinstance(d, str)))


# What they mean


def softmax_of(x: Array) -> list[Array]:
    """In double."""
    e = np.exp(x.astype(float) - np.max(x, axis=-1, keepdims=True, initial=-np.inf))
    return [e / e.sum(axis=-1, keepdims=True)]


def layer_norm_of(x: Array, g: Array, o: Array) -> list[Array]:
    """In double."""
    wide = x.astype(float)
    mean, variance = wide.mean(axis=1), wide.var(axis=1)
    return [(wide - mean[:, None]) / np.sqrt(variance + 1e-5)[:, None] * g + o, mean]


def column_sums_of(x: Array, start: Array) -> list[Array]:
    """In double."""
    e = np.exp(x.astype(float))
    return [e, start + e.sum(axis=0)]


def attention_of(q: Array, k: Array, v: Array) -> list[Array]:
    """In double."""
    q, k, v = (x.astype(float) for x in (q, k, v))
    return [softmax_of(q @ k.swapaxes(1, 2))[0] @ v]


def both_ways(
    heads: int, rows: int | str, columns: int | str, steps: tuple[int, int], *, turned: bool = False
) -> str:
    """
    Of w = tanh(x yT) below the diagonal, w y and wT x from one walk over the tiles of w that have
    elements there. `turned`: heads are the second axis of all, so that tiles are in several pieces.
    """

    def order(n: int | str, k: int) -> tuple[int | str, ...]:
        return (n, heads, k) if turned else (heads, n, k)

    def part(t: str) -> tuple[int | str, ...]:
        return (t, 1, 8) if turned else (1, t, 8)

    row, column = ("ahk", "bhk") if turned else ("hak", "hbk")
    at = (1, 0) if turned else (0, 1)
    x, y = kind(*order(rows, 8)), kind(*order(columns, 8))
    xt, yt, wt = kind(*part("A")), kind(*part("B")), kind(1, "A", "B")
    one, mask = kind("A", element="i64"), kind("A", "B", element="i1")
    other, both = kind("B", element="i64"), kind("A", "B", element="i64")
    body = f"""
  %r, %c = mlc.tiles (%h in {heads} step 1, %j in {size(columns)} step {steps[1]} as "B",
      %i in {size(rows)} step {steps[0]} as "A") onto(%a, %b)
      -> ({x} "sum" at ({at[0]}, -1, {at[1]}), {y} "sum" at ({at[0]}, {at[1]}, -1)) {{
    %most = mlc.constant dense<{steps[0] - 1}> : tensor<i64>
    %last = mlc.add %i, %most : tensor<i64>
    %any = mlc.compare "le" %j, %last : tensor<i64> -> tensor<i1>
    %an, %bn = mlc.if %any -> ({xt}, {yt}) {{
      %xt = mlc.tile %x[%h, %i] at ({at[0]}, {at[1]}) : {x} -> {xt}
      %yt = mlc.tile %y[%h, %j] at ({at[0]}, {at[1]}) : {y} -> {yt}
      %s = mlc.contract "{row},{column}->hab" %xt, %yt : {xt}, {yt} -> {wt}
      %t = mlc.tanh %s : {wt}
      %p = mlc.iota 0 : {one}
      %q = mlc.iota 0 : {other}
      %p1 = mlc.broadcast "->a" %i : tensor<i64> -> {one}
      %q1 = mlc.broadcast "->b" %j : tensor<i64> -> {other}
      %p2 = mlc.add %p, %p1 : {one}
      %q2 = mlc.add %q, %q1 : {other}
      %p3 = mlc.broadcast "a->ab" %p2 : {one} -> {both}
      %q3 = mlc.broadcast "b->ab" %q2 : {other} -> {both}
      %m = mlc.compare "le" %q3, %p3 : {both} -> {mask}
      %f = mlc.broadcast "ab->hab" %m : {mask} -> {kind(1, "A", "B", element="i1")}
      %none = mlc.constant dense<0.0> : tensor<f32>
      %zero = mlc.broadcast "->hab" %none : tensor<f32> -> {wt}
      %w = mlc.select %f, %t, %zero : {kind(1, "A", "B", element="i1")}, {wt}
      %u = mlc.contract "hab,{column}->{row}" %w, %yt : {wt}, {yt} -> {xt}
      %v = mlc.contract "hab,{row}->{column}" %w, %xt : {wt}, {xt} -> {yt}
      %a1 = mlc.add %a, %u : {xt}
      %b1 = mlc.add %b, %v : {yt}
      mlc.yield %a1, %b1 : {xt}, {yt}
    }} else {{
      mlc.yield %a, %b : {xt}, {yt}
    }}
    mlc.yield %an, %bn : {xt}, {yt}
  }}
  func.return %r, %c : {x}, {y}"""
    return function({"x": x, "y": y}, [x, y], body, _symbols(rows, columns))


def both_ways_of(x: Array, y: Array) -> list[Array]:
    w = np.tril(np.tanh(x @ np.swapaxes(y, -1, -2)))
    return [w @ y, np.swapaxes(w, -1, -2) @ x]


def turned_both_ways_of(x: Array, y: Array) -> list[Array]:
    return [np.swapaxes(a, 0, 1) for a in both_ways_of(np.swapaxes(x, 0, 1), np.swapaxes(y, 0, 1))]


@dataclass(frozen=True)
class Program:
    """A program, its meaning and the shapes of its arguments."""

    text: str
    meaning: Callable[..., list[Array]]
    shapes: tuple[tuple[int, ...], ...]

    def draw(self, seed: int = 0) -> list[Array]:
        """Arguments of the program."""
        rng = np.random.default_rng(seed)
        return [rng.standard_normal(shape).astype(np.float32) for shape in self.shapes]


def blocks(rows: int | str, columns: int | str, layout: str = "") -> str:
    """Tiles of both axes: of each, what it is above its rows' maxima, and where it begins."""
    whole, tile, row = kind(rows, columns), kind("T", "U"), kind("T")
    loops = f'%i in {size(rows)} step 5 as "T", %j in {size(columns)} step 8 as "U"'
    places = kind(rows, columns, element="i64"), kind("T", "U", element="i64")
    body = f"""
  %y, %p = mlc.tiles ({loops}) -> ({whole} at (0, 1), {places[0]} at (0, 1)) {{
    %t = mlc.tile %x[%i, %j] at (0, 1) : {whole} -> {tile}
    %m = mlc.reduce "max" "ij->i" %t : {tile} -> {row}
    %b = mlc.broadcast "i->ij" %m : {row} -> {tile}
    %d = mlc.sub %t, %b : {tile}
    %s = mlc.reduce "sum" "ij->i" %d : {tile} -> {row}
    %c = mlc.broadcast "i->ij" %s : {row} -> {tile}
    %q = mlc.mul %d, %c : {tile}
    %a = mlc.broadcast "->ij" %i : tensor<i64> -> {places[1]}
    %e = mlc.broadcast "->ij" %j : tensor<i64> -> {places[1]}
    %f = mlc.add %a, %e : {places[1]}
    mlc.yield %q, %f : {tile}, {places[1]}
  }}
  func.return %y, %p : {whole}, {places[0]}"""
    argument = whole + (f' {{mlc.layout = "{layout}"}}' if layout else "")
    return function({"x": argument}, [whole, places[0]], body, _symbols(rows, columns))


def blocks_of(x: Array) -> list[Array]:
    """As the program."""
    q, p = np.empty(x.shape), np.empty(x.shape, np.int64)
    for i in range(0, x.shape[0], 5):
        for j in range(0, x.shape[1], 8):
            t = x[i : i + 5, j : j + 8].astype(float)
            d = t - t.max(axis=1, keepdims=True)
            q[i : i + 5, j : j + 8] = d * d.sum(axis=1, keepdims=True)
            p[i : i + 5, j : j + 8] = i + j
    return [q, p]


def nested(rows: int | str, columns: int | str) -> str:
    """
    Softmax by two loops in a loop: a maximum and a sum over tiles of columns, then the quotients,
    which both loops place. What is handed on is returned too: the maxima, and tiles of the operand.
    """
    whole, tile, part = kind(rows, columns), kind("T", columns), kind("T", "U")
    row, results = kind("T"), [kind(rows, columns), kind(rows), kind(rows, columns), kind(rows)]
    inner = f'%j in {size(columns)} step 16 as "U"'
    again = f'%k in {size(columns)} step 8 as "V"'
    other = kind("T", "V")
    body = f"""
  %y, %ms, %same, %ms2 = mlc.tiles (%i in {size(rows)} step 6 as "T")
      -> ({results[0]} at (0), {results[1]} at (0), {results[2]} at (0), {results[3]} at (0)) {{
    %t = mlc.tile %x[%i] at (0) : {whole} -> {tile}
    %lowest = mlc.constant dense<-3.0e38> : tensor<f32>
    %zero = mlc.constant dense<0.0> : tensor<f32>
    %m0 = mlc.broadcast "->i" %lowest : tensor<f32> -> {row}
    %l0 = mlc.broadcast "->i" %zero : tensor<f32> -> {row}
    %m, %l = mlc.tiles ({inner}) iter(%mi = %m0, %li = %l0) -> ({row}, {row}) {{
      %p = mlc.tile %t[%j] at (1) : {tile} -> {part}
      %pm = mlc.reduce "max" "ij->i" %p : {part} -> {row}
      %mn = mlc.max %mi, %pm : {row}
      %mb = mlc.broadcast "i->ij" %mn : {row} -> {part}
      %d = mlc.sub %p, %mb : {part}
      %e = mlc.exp %d : {part}
      %s = mlc.reduce "sum" "ij->i" %e : {part} -> {row}
      %md = mlc.sub %mi, %mn : {row}
      %f = mlc.exp %md : {row}
      %lf = mlc.mul %li, %f : {row}
      %ln = mlc.add %lf, %s : {row}
      mlc.yield %mn, %ln : {row}, {row}
    }}
    %z = mlc.tiles ({again}) -> ({tile} at (1)) {{
      %p = mlc.tile %t[%k] at (1) : {tile} -> {other}
      %mb = mlc.broadcast "i->ij" %m : {row} -> {other}
      %d = mlc.sub %p, %mb : {other}
      %e = mlc.exp %d : {other}
      %lb = mlc.broadcast "i->ij" %l : {row} -> {other}
      %q = mlc.div %e, %lb : {other}
      mlc.yield %q : {other}
    }}
    mlc.yield %z, %m, %t, %m : {tile}, {row}, {tile}, {row}
  }}
  func.return %y, %ms, %same, %ms2 : {", ".join(results)}"""
    return function({"x": whole}, results, body, _symbols(rows, columns))


def nested_of(x: Array) -> list[Array]:
    """In double."""
    m = x.max(axis=1)
    return [softmax_of(x)[0], m, x, m]


def running(rows: int | str) -> str:
    """Sums of rows so far, tile after tile: what is carried makes the trips wait for each other."""
    whole, tile, row = kind(rows, 6), kind("T", 6), kind(6)
    body = f"""
  %y, %last, %before = mlc.tiles (%i in {size(rows)} step 4 as "T")
      iter(%c = %start, %b = %start) -> ({whole} at (0), {row}, {row}) {{
    %t = mlc.tile %x[%i] at (0) : {whole} -> {tile}
    %s = mlc.reduce "sum" "ij->j" %t : {tile} -> {row}
    %n = mlc.add %c, %s : {row}
    %w = mlc.broadcast "j->ij" %n : {row} -> {tile}
    %q = mlc.sub %w, %t : {tile}
    mlc.yield %q, %n, %c : {tile}, {row}, {row}
  }}
  func.return %y, %last, %before : {whole}, {row}, {row}"""
    return function({"x": whole, "start": row}, [whole, row, row], body, _symbols(rows))


def running_of(x: Array, start: Array) -> list[Array]:
    """As the program."""
    y, total, before = np.empty(x.shape), start.astype(float), start.astype(float)
    for i in range(0, len(x), 4):
        before, total = total, total + x[i : i + 4].sum(axis=0)
        y[i : i + 4] = total - x[i : i + 4]
    return [y, total, before]


def folded(rows: int | str, columns: int, step: int, fold: str, element: str) -> str:
    """Columns combined over tiles of rows, and with what they start from."""
    whole, tile = kind(rows, columns, element=element), kind("T", columns, element=element)
    across = kind(columns, element=element)
    combine = {"sum": "add", "max": "max", "min": "min", "prod": "mul"}[fold]
    body = f"""
  %y = mlc.tiles (%i in {size(rows)} step {step} as "T") iter(%c = %start) fold("{fold}")
      -> ({across}) {{
    %t = mlc.tile %x[%i] at (0) : {whole} -> {tile}
    %s = mlc.reduce "{fold}" "ij->j" %t : {tile} -> {across}
    %n = mlc.{combine} %c, %s : {across}
    mlc.yield %n : {across}
  }}
  func.return %y : {across}"""
    return function({"x": whole, "start": across}, [across], body, _symbols(rows))


PROGRAMS = {
    "softmax": Program(softmax(40, 33, 16), softmax_of, ((40, 33),)),
    "softmax of symbols": Program(softmax("N", "M", 7), softmax_of, ((40, 33),)),
    "softmax, one trip": Program(softmax(9, 33, 16), softmax_of, ((9, 33),)),
    "softmax, a row a tile": Program(softmax("N", 33, 1), softmax_of, ((5, 33),)),
    "softmax of nothing": Program(softmax("N", 33, 4), softmax_of, ((0, 33),)),
    "layer norm": Program(layer_norm("N", 24, 5), layer_norm_of, ((13, 24), (24,), (24,))),
    "column sums": Program(column_sums("N", 24, 5), column_sums_of, ((413, 24), (24,))),
    "column sums of nothing": Program(column_sums("N", 24, 5), column_sums_of, ((0, 24), (24,))),
    "column sums, one trip": Program(column_sums(12, 24, 16), column_sums_of, ((12, 24), (24,))),
    "attention": Program(
        attention(40, 70, 16, 16, 32), attention_of, ((2, 40, 16),) + ((2, 70, 16),) * 2
    ),
    "attention of symbols": Program(
        attention("N", "M", 16, 24, 32), attention_of, ((2, 65, 16),) + ((2, 100, 16),) * 2
    ),
    "blocks": Program(blocks(20, 24), blocks_of, ((20, 24),)),
    "blocks of symbols": Program(blocks("N", "M"), blocks_of, ((23, 37),)),
    "nested": Program(nested(20, 40), nested_of, ((20, 40),)),
    "nested, of symbols": Program(nested("N", "M"), nested_of, ((31, 53),)),
    "both ways": Program(both_ways(3, 40, 24, (8, 6)), both_ways_of, ((3, 40, 8), (3, 24, 8))),
    "both ways, of symbols": Program(
        both_ways(5, "N", "M", (8, 16)), both_ways_of, ((5, 43, 8), (5, 50, 8))
    ),
    "both ways, turned": Program(
        both_ways(3, "N", 50, (16, 8), turned=True), turned_both_ways_of, ((43, 3, 8), (50, 3, 8))
    ),
    "both ways, one head": Program(
        both_ways(1, 40, "M", (16, 8)), both_ways_of, ((1, 40, 8), (1, 50, 8))
    ),
    "both ways of nothing": Program(
        both_ways(3, "N", 24, (8, 8)), both_ways_of, ((3, 0, 8), (3, 24, 8))
    ),
    "running": Program(running("N"), running_of, ((18, 6), (6,))),
    "running over nothing": Program(running("N"), running_of, ((0, 6), (6,))),
}
