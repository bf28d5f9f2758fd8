"""The text of a product for blocks of threads whose warps have roles."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Product:
    """C = A·B + bias: sizes, which factors are stored turned, dtypes, and how it is cut."""

    m: int
    n: int
    k: int
    form: str = "nt"  # of a and b: n as C = A·B has them, t turned
    dtype: str = "bf16"
    out: str = "bf16"
    tile: tuple[int, int] = (128, 256)
    stages: int = 4
    raster: int = 16
    target: str = "h200"

    def _view(self, *sizes: int, dtype: str = "", layout: str = "") -> str:
        shape = "".join(f"{n}x" for n in sizes) + (dtype or self.dtype)
        return f"!mlc_tile.view<{shape}{layout and ', '}{layout}>"

    @property
    def shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Of both factors as they are stored."""
        a, b = (self.m, self.k), (self.k, self.n)
        turned = (a[1], a[0]), (b[1], b[0])
        return (
            turned[0] if self.form[0] == "t" else a,
            turned[1] if self.form[1] == "t" else b,
        )

    def text(self) -> str:
        """The module."""
        a, b = (self._view(*shape) for shape in self.shapes)
        out = self._view(self.m, self.n, dtype=self.out)
        bias = self._view(self.n, dtype="f32")
        tensors = [x.replace("!mlc_tile.view", "tensor") for x in (a, b, bias)]
        result = out.replace("!mlc_tile.view", "tensor")
        arguments = f"%a: {a}, %b: {b}, %bias: {bias}"
        workers = f"workers({self.m * self.n} by 1)"
        given = ", ".join(
            f"%{x}: {kind}" for x, kind in zip(("a", "b", "bias"), tensors, strict=True)
        )
        call = f"(%a, %b, %bias) : ({', '.join(tensors)}) -> {result}"
        return f"""
builtin.module attributes {{mlc.target = #mlc.target<"{self.target}">}} {{
mlc_tile.kernel @product({arguments}) -> (%c: {out}) {workers} {{
  %ring = mlc_tile.channel : {self._ring}
  {self._alloc}
  mlc_tile.roles producer(1, regs 40) %p {{
    {self._work} {{
      mlc_tile.for %k in {self.k} step 64 {{
        %x, %y = mlc_tile.put %ring : {self._ring} -> {self._slots}
        {self._copies}
      }}
    }}
  }} consumer(2, regs 232) %group {{
    {self._work} {{
      {self._sums}
      {self._epilogue}
    }}
  }}
}}
func.func @main({given}) -> {result} attributes {{mlc.arena = {{}}}} {{
  %c = mlc_tile.call @product{call} {{buffers = [#mlc.buffer<out 0>]}}
  func.return %c : {result}
}}
}}
"""

    @property
    def _slots(self) -> str:
        a, b = (self.tile[0], 64), (64, self.tile[1])
        shapes = (a if self.form[0] == "n" else a[::-1], b if self.form[1] == "n" else b[::-1])
        return ", ".join(self._view(*shape, layout="sw128") for shape in shapes)

    @property
    def _ring(self) -> str:
        return f"!mlc_tile.channel<{self.stages} x [{self._slots}]>"

    @property
    def _alloc(self) -> str:
        if self.out == "f32":
            return ""
        kind = self._view(2, 2, 64, 64, dtype=self.out, layout="sw128")
        return f"%out = mlc_tile.alloc worker : {kind}"

    @property
    def _work(self) -> str:
        (m, n), raster = self.tile, self.raster
        return f"mlc_tile.work %i in {self.m} step {m}, %j in {self.n} step {n} raster {raster}"

    @property
    def _copies(self) -> str:
        a = ("i, %k", "m k") if self.form[0] == "n" else ("k, %i", "k m")
        b = ("k, %j", "k n") if self.form[1] == "n" else ("j, %k", "n k")
        return f"""mlc_tile.copy %a[%{a[0]}] -> %x "{a[1]} -> {a[1]}" via tma
        mlc_tile.copy %b[%{b[0]}] -> %y "{b[1]} -> {b[1]}" via tma"""

    @property
    def _sums(self) -> str:
        sums = f"!mlc_tile.frag<64x{self.tile[1]}xf32>"
        token = f"!mlc_tile.token<{sums}>"
        lhs = "%x[64*%group, 0]" if self.form[0] == "n" else "%x[0, 64*%group]"
        letters = ("mk" if self.form[0] == "n" else "km", "kn" if self.form[1] == "n" else "nk")
        return f"""
      %zero = mlc_tile.map() -> ({sums}) {{
        %0 = mlc.constant dense<0.0> : tensor<f32>
        mlc_tile.yield %0 : tensor<f32>
      }}
      %begin = mlc_tile.ready %zero : {sums} -> {token}
      %t = mlc_tile.for %k in {self.k} step 64 carry(%u = %begin) -> ({token}) {{
        %x, %y = mlc_tile.get %ring : {self._ring} -> {self._slots}
        %v = mlc_tile.dot_start "{",".join(letters)}->mn" {lhs}, %y over (k 64) init %u : {token}
        mlc_tile.wait %v, 1 : {token}
        mlc_tile.release %ring behind 1 : {self._ring}
        mlc_tile.yield %v : {token}
      }}
      %s = mlc_tile.wait %t, 0 : {token} -> {sums}
      mlc_tile.release %ring : {self._ring}
"""

    @property
    def _epilogue(self) -> str:
        narrow = self.out != "f32"
        last = "%w" if narrow else "%v"
        convert = f"%w = mlc.convert %v : tensor<f32> -> tensor<{self.out}>" if narrow else ""
        tile = f"!mlc_tile.frag<64x{self.tile[1]}x{self.out}>"
        text = f"""
      %r = mlc_tile.map(%e = %s) at(%m = %i + 64*%group, %n = %j) -> ({tile}) {{
        %d = mlc_tile.read %bias[%n] : tensor<f32>
        %v = mlc.add %e, %d : tensor<f32>
        {convert}
        mlc_tile.yield {last} : tensor<{self.out}>
      }}
"""
        if not narrow:
            return f"{text}      mlc_tile.store %r, %c[%i + 64*%group, %j]"
        for q in range(self.tile[1] // 64):
            text += f"""
      %r{q} = mlc_tile.extract %r[:, {64 * q}:{64 * q + 64}] : !mlc_tile.frag<64x64x{self.out}>
      mlc_tile.store %r{q}, %out[%group, {q % 2}]
      mlc_tile.copy %out[%group, {q % 2}] -> %c[%i + 64*%group, %j + {64 * q}] "m n -> m n"
          over (m 64, n 64) via tma
"""
        return text
