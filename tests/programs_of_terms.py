"""Products of f32 whose factors come in terms of bf16, as texts, of any size."""

from __future__ import annotations

from dataclasses import dataclass

FORMS = {"nn": "ab,bc->ac", "nt": "ab,cb->ac", "tn": "ba,bc->ac", "tt": "ba,cb->ac"}


@dataclass(frozen=True)
class OfTerms:
    """A product at the tensor level; `relu`: what follows it. `narrow`: b is bf16 itself."""

    m: int
    n: int
    k: int
    form: str = "nn"
    relu: bool = False
    narrow: bool = False
    batches: int = 0

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of both factors."""
        sizes = {"a": self.m, "b": self.k, "c": self.n}
        words = FORMS[self.form].split("->")[0].split(",")
        left, right = (tuple(sizes[c] for c in word) for word in words)
        batch = (self.batches,) if self.batches else ()
        return (*batch, *left), (*batch, *right)

    def text(self, target: str) -> str:
        """The module."""
        left, right = ("x".join(map(str, shape)) for shape in self.shapes)
        result = "x".join(map(str, ((self.batches, self.m, self.n)[not self.batches :])))
        kind = "bf16" if self.narrow else "f32"
        letters = FORMS[self.form]
        if self.batches:
            operands, out = letters.split("->")
            letters = ",".join(f"g{word}" for word in operands.split(",")) + f"->g{out}"
        lines = [*_terms("a", left), *([] if self.narrow else _terms("b", right))]
        if self.narrow:
            lines.append(f"%b3 = mlc.convert %b : tensor<{right}xbf16> -> tensor<{right}xf32>")
        lines.append(
            f'%c = mlc.contract "{letters}" %a3, %b3 : tensor<{left}xf32>, tensor<{right}xf32>'
            f" -> tensor<{result}xf32>"
        )
        last = "%c"
        if self.relu:
            last = "%d"
            lines.append(f"%z = mlc.constant dense<0.0> : tensor<{result}xf32>")
            lines.append(f"%d = mlc.max %c, %z : tensor<{result}xf32>")
        lines.append(f"func.return {last} : tensor<{result}xf32>")
        body = "\n    ".join(lines)
        return (
            f'module attributes {{mlc.numerics = "standard", mlc.target = #mlc.target<"{target}">}}'
            f" {{\n  func.func @f(%a: tensor<{left}xf32>, %b: tensor<{right}x{kind}>)"
            f" -> tensor<{result}xf32> {{\n    {body}\n  }}\n}}\n"
        )


def _terms(name: str, shape: str) -> list[str]:
    wide, narrow = f"tensor<{shape}xf32>", f"tensor<{shape}xbf16>"
    found = [f"%{name}{k} = mlc.term {k}, %{name} : {wide} -> {narrow}" for k in range(3)]
    terms = ", ".join(f"%{name}{k}" for k in range(3))
    return [*found, f"%{name}3 = mlc.of_terms {terms} : {narrow} -> {wide}"]
