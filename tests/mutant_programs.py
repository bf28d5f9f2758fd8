"""
Pairs of programs that agree at some positions of their result: the original, a mutant, and where
the mutant is wrong by construction.
"""

from dataclasses import dataclass

import numpy as np

from mlc.passes.partial.regions import Box

CONV = "nc(y+i),fci->nfy"


@dataclass(frozen=True)
class Case:
    """
    `wrong`: the boxes of the wrong regions, each axis as `Run` prints. `agrees`: in so many of the
    positions of wrong regions both are equal, as x[v + 4] and x[2 v] at v = 4.
    """

    original: str
    mutant: str
    wrong: tuple[str, ...]
    agrees: int = 0


def read(x: str, offset: int, step: int, count: int, size: int, name: str) -> str:
    """A line that slices a vector."""
    kinds = f"tensor<{size}xf64> -> tensor<{count}xf64>"
    return f"%{name} = mlc.slice %{x}[<{offset}>, <{step}>] : {kinds}\n"


def added(first: str, second: str, count: int, name: str = "r", op: str = "add") -> str:
    """A line that combines two vectors."""
    return f"%{name} = mlc.{op} %{first}, %{second} : tensor<{count}xf64>\n"


def program(arguments: str, body: str, result: str) -> str:
    """A module with one function whose result is %r."""
    head = f"func.func @f({arguments}) -> tensor<{result}> {{\n"
    return f"{head}{body}func.return %r : tensor<{result}>\n}}\n"


def vectors(body: str, count: int = 8, size: int = 24) -> str:
    """A program that reads vectors %x and %z."""
    return program(f"%x: tensor<{size}xf64>, %z: tensor<{size}xf64>", body, f"{count}xf64")


def x(offset: int, step: int, count: int = 8, name: str = "r") -> str:
    """A line that reads %x at offset + step v."""
    return read("x", offset, step, count, 24, name)


def two(a: tuple[int, int], c: tuple[int, int], count: int = 8) -> str:
    """x[a0 + a1 v] + x[c0 + c1 v]."""
    return vectors(x(*a, count, "a") + x(*c, count, "b") + added("a", "b", count), count)


def parts(*pieces: tuple[int, int, int]) -> str:
    """Pieces (offset, step, count) of %x one behind the other."""
    lines = "".join(x(*piece, f"p{k}") for k, piece in enumerate(pieces))
    names = ", ".join(f"%p{k}" for k in range(len(pieces)))
    kinds = ", ".join(f"tensor<{count}xf64>" for _, _, count in pieces)
    total = sum(count for _, _, count in pieces)
    joined = f"%r = mlc.concat 0 {names} : {kinds} -> tensor<{total}xf64>\n"
    return vectors(lines + joined, total)


def phases(*offsets: int) -> str:
    """Of each row of len(offsets) elements of %x the element at an offset, four rows."""
    n = len(offsets)
    body = x(0, 1, 6 * n, "q") + (
        f"%m = mlc.reshape %q : tensor<{6 * n}xf64> -> tensor<6x{n}xf64>\n"
    )
    for k, offset in enumerate(offsets):
        row, column = divmod(offset, n)
        body += (
            f"%c{k} = mlc.slice %m[<{row}, {column}>, <1, 1>] :"
            f" tensor<6x{n}xf64> -> tensor<4x1xf64>\n"
        )
    names = ", ".join(f"%c{k}" for k in range(n))
    kinds = ", ".join(["tensor<4x1xf64>"] * n)
    body += f"%t = mlc.concat 1 {names} : {kinds} -> tensor<4x{n}xf64>\n"
    body += f"%r = mlc.reshape %t : tensor<4x{n}xf64> -> tensor<{4 * n}xf64>\n"
    return vectors(body, 4 * n)


def conv(letters: str, image: str, weights: str, result: str, before: str = "") -> str:
    """One convolution of %x, or of what `before` makes of it."""
    first = "p" if before else "x"
    kinds = image if before == "" else before.rpartition("-> tensor<")[2].rstrip(">\n")
    line = (
        f'%r = mlc.conv "{letters}" %{first}, %w : tensor<{kinds}>, tensor<{weights}> ->'
        f" tensor<{result}>\n"
    )
    return program(f"%x: tensor<{image}>, %w: tensor<{weights}>", before + line, result)


def padded(low: int, high: int, value: str = "0.0") -> str:
    """A 1-D convolution of an image with zeros before and behind."""
    before = (
        f"%o = mlc.constant dense<{value}> : tensor<f64>\n"
        f"%p = mlc.pad %x, %o [<0, 0, {low}>, <0, 0, {high}>] : tensor<2x3x9xf64>, tensor<f64>"
        f" -> tensor<2x3x{9 + low + high}xf64>\n"
    )
    count = 7 + low + high
    return conv(CONV, "2x3x9xf64", "4x3x3xf64", f"2x4x{count}xf64", before)


def bare() -> str:
    """The same without the zeros: two results fewer, and zeros in their place."""
    line = (
        '%y = mlc.conv "nc(y+i),fci->nfy" %x, %w : tensor<2x3x9xf64>, tensor<4x3x3xf64> ->'
        " tensor<2x4x7xf64>\n%o = mlc.constant dense<0.0> : tensor<f64>\n"
        "%r = mlc.pad %y, %o [<0, 0, 1>, <0, 0, 1>] : tensor<2x4x7xf64>, tensor<f64> ->"
        " tensor<2x4x9xf64>\n"
    )
    return program("%x: tensor<2x3x9xf64>, %w: tensor<4x3x3xf64>", line, "2x4x9xf64")


def seams() -> str:
    """Images side by side in one, with zeros around the whole of it only."""
    body = """%t = mlc.transpose "nch->cnh" %x : tensor<2x3x9xf64> -> tensor<3x2x9xf64>
%u = mlc.reshape %t : tensor<3x2x9xf64> -> tensor<3x18xf64>
%o = mlc.constant dense<0.0> : tensor<f64>
%p = mlc.pad %u, %o [<0, 1>, <0, 1>] : tensor<3x18xf64>, tensor<f64> -> tensor<3x20xf64>
%y = mlc.conv "c(y+i),fci->fy" %p, %w : tensor<3x20xf64>, tensor<4x3x3xf64> -> tensor<4x18xf64>
%v = mlc.reshape %y : tensor<4x18xf64> -> tensor<4x2x9xf64>
%r = mlc.transpose "fny->nfy" %v : tensor<4x2x9xf64> -> tensor<2x4x9xf64>
"""
    return program("%x: tensor<2x3x9xf64>, %w: tensor<4x3x3xf64>", body, "2x4x9xf64")


def dilated(is_mutant: bool, size: int = 13) -> str:
    """A convolution with dilation 2 along both axes; or in two phases, a last row and column 0."""
    n = size - 4
    head = f"%x: tensor<1x2x{size}x{size}xf64>, %w: tensor<2x2x3x3xf64>"
    if not is_mutant:
        return conv(
            "nc(y+2i)(x+2j),fcij->nfyx", f"1x2x{size}x{size}xf64", "2x2x3x3xf64", f"1x2x{n}x{n}xf64"
        )
    h = size // 2
    m, k = h - 2, 2 * (h - 2)
    image, part, split, out, flat, whole = (
        f"tensor<1x2x{dims}xf64>"
        for dims in (
            f"{size}x{size}", f"{2 * h}x{2 * h}", f"{h}x2x{h}x2", f"{m}x2x{m}x2", f"{k}x{k}",
            f"{n}x{n}",
        )
    )  # fmt: skip
    more = f"[<0, 0, 0, 0>, <0, 0, {n - k}, {n - k}>]"
    body = f"""%o = mlc.constant dense<0.0> : tensor<f64>
%q = mlc.slice %x[<0, 0, 0, 0>, <1, 1, 1, 1>] : {image} -> {part}
%s = mlc.reshape %q : {part} -> {split}
%d = mlc.conv "nc(y+i)p(x+j)q,fcij->nfypxq" %s, %w : {split}, tensor<2x2x3x3xf64> -> {out}
%t = mlc.reshape %d : {out} -> {flat}
%r = mlc.pad %t, %o {more} : {flat}, tensor<f64> -> {whole}
"""
    return program(head, body, f"1x2x{n}x{n}xf64")


def transposed(letters: str) -> str:
    """A product of matrices by letters."""
    kind = "tensor<4x4xf64>"
    line = f'%r = mlc.contract "{letters}" %x, %w : {kind}, {kind} -> {kind}\n'
    return program("%x: tensor<4x4xf64>, %w: tensor<4x4xf64>", line, "4x4xf64")


def pooled(letters: str, window: int, count: int) -> str:
    """Sums of windows; zeros where there are fewer than 10."""
    few = f"tensor<{count}xf64>"
    line = (
        f'%y = mlc.window "sum" "{letters}" [<{window}>] %x : tensor<24xf64> -> {few}\n'
        "%o = mlc.constant dense<0.0> : tensor<f64>\n"
        f"%r = mlc.pad %y, %o [<0>, <{10 - count}>] : {few}, tensor<f64> -> tensor<10xf64>\n"
    )
    return program("%x: tensor<24xf64>", line, "10xf64")


def squares(offset: int, step: int) -> str:
    """x[v] x[offset + step v]: factors of one argument commute."""
    return vectors(x(0, 1, 8, "a") + x(offset, step, 8, "b") + added("a", "b", 8, op="mul"))


def mixed(first: int, second: int) -> str:
    """x[first + v] z[second + 2 v], the argument of each factor its own."""
    body = read("x", first, 1, 8, 24, "a") + read("z", second, 2, 8, 24, "b")
    return vectors(body + added("a", "b", 8, op="mul"))


CASES: dict[str, Case] = {
    "equal at one position of eight": Case(vectors(x(4, 1)), vectors(x(0, 2)), ("0:8",), 1),
    "equal at the first position": Case(vectors(x(0, 1)), vectors(x(0, 2)), ("0:8",), 1),
    "sums of two, equal at two positions": Case(
        two((8, 1), (11, -1), 4), two((8, 2), (11, -2), 4), ("0:4",), 2
    ),
    "sums of two, exchanged": Case(two((0, 1), (3, 2)), two((3, 2), (0, 1)), ()),
    "sums of two, equal at one position": Case(
        two((0, 1), (3, 2)), two((0, 2), (3, 1)), ("0:8",), 1
    ),
    "sums of two that meet": Case(two((2, 1), (2, 1)), two((1, 1), (3, 1)), ("0:8",)),
    "a piece that is shifted": Case(
        parts((0, 1, 4), (4, 1, 4)), parts((0, 1, 5), (6, 1, 3)), ("5:8",)
    ),
    "pieces exchanged": Case(
        parts((0, 1, 3), (8, 1, 2), (3, 1, 3)), parts((0, 1, 3), (9, -1, 2), (3, 1, 3)), ("3:5",)
    ),
    "one phase of three": Case(phases(0, 1, 2), phases(0, 1, 5), ("2:12:3",)),
    "two phases of four": Case(phases(0, 1, 2, 3), phases(0, 2, 1, 3), ("1:14:4", "2:15:4")),
    "zeros around an image": Case(padded(1, 1), bare(), ("0:2,0:4,0", "0:2,0:4,8")),
    "zeros on the wrong side": Case(padded(1, 1), padded(0, 2), ("0:2,0:4,0:9",)),
    "ones for zeros": Case(padded(1, 1), padded(1, 1, "1.0"), ("0:2,0:4,0", "0:2,0:4,8")),
    "seams between images": Case(padded(1, 1), seams(), ("0,0:4,8", "1,0:4,0")),
    "dilation by phases": Case(dilated(False), dilated(True), ("0,0:2,0:8,8", "0,0:2,8,0:9")),
    "dilation by phases, even": Case(dilated(False, 12), dilated(True, 12), ()),
    "a transposed factor": Case(transposed("mk,kn->mn"), transposed("mk,nk->mn"), ("0:4,0:4",)),
    "windows of another stride": Case(
        pooled("(2y+i)->y", 3, 10), pooled("(2y+2i)->y", 3, 10), ("0:10",)
    ),
    "too few windows": Case(pooled("(2y+i)->y", 3, 10), pooled("(2y+i)->y", 3, 8), ("8:10",)),
    "a square": Case(squares(0, 2), squares(0, 3), ("0:8",), 1),
    "factors of two arguments": Case(mixed(2, 0), mixed(0, 2), ("0:8",)),
}


def mask(shape: tuple[int, ...], boxes: list[Box]) -> np.ndarray:
    """True in the boxes."""
    found = np.zeros(shape, bool)
    for box in boxes:
        ends = [r.start + r.step * (r.count - 1) + 1 for r in box]
        found[tuple(slice(r.start, e, r.step) for r, e in zip(box, ends, strict=True))] = True
    return found
