"""Instructions that multiply: rows against the exact product, the machine and the assembly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.bf16_parts import errors
from mlc.dialects.dtypes import DType, named_dtype
from mlc.dialects.target import named_target
from mlc.dialects.target.cpu import CpuTarget
from mlc.dialects.target.intrinsics import ARM, INTRINSICS, X86, Intrinsic, row_named, rows_of
from mlc.lowering.emit.dot import WRITERS
from mlc.runtime.llvm import emit_assembly
from mlc.runtime.probe import host_target
from tests.emitted import emit_text, functions, kernel, parse_loops

Array = NDArray[Any]


def _label(row: Intrinsic) -> str:
    return f"{row.arch}-{row.vector_bits}-{row.name}-{row.instruction}-{row.dtypes[0]}"


every_row = pytest.mark.parametrize("row", INTRINSICS, ids=_label)
every_product = pytest.mark.parametrize(
    "row", [row for row in INTRINSICS if row.name != "mul_add"], ids=_label
)


def _numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, wide: bool) -> Array:
    """Random values; `wide`: of all exponents where products are finite, subnormal ones too."""
    if dtype.is_integer:
        return rng.integers(
            int(dtype.lowest), int(dtype.highest), shape, dtype.numpy, endpoint=True
        )
    if dtype.kind == "complex":
        parts = [_numbers(rng, shape, dtype.part, wide) for _ in range(2)]
        return (parts[0] + 1j * parts[1]).astype(dtype.numpy)
    scale = 1.0 if dtype.name == "f64" or not wide else 2.0 ** rng.integers(-140, 40, shape)
    return (rng.standard_normal(shape) * scale).astype(dtype.numpy)


def _operands(row: Intrinsic, steps: int, *, wide: bool = False) -> tuple[Array, Array, Array]:
    """(c, a, b) of `steps` instructions in turn."""
    rng = np.random.default_rng(7)
    m, n, k = row.shape
    a, b, c = (
        _numbers(rng, shape, named_dtype(dtype), wide)
        for shape, dtype in zip(((m, steps * k), (steps * k, n), (m, n)), row.dtypes, strict=True)
    )
    return c, a, b


def _exact(c: Array, a: Array, b: Array) -> Array:
    """In Python's integers, or in numbers twice as long."""
    if c.dtype.kind in "iu":
        total = c.astype(object) + a.astype(object) @ b.astype(object)
        bits = 8 * c.dtype.itemsize
        return np.array([x % 2**bits for x in total.ravel()], f"u{c.dtype.itemsize}").reshape(
            c.shape
        )
    kind = np.clongdouble if c.dtype.kind == "c" else np.longdouble
    wide = [x.astype(np.float32) if x.dtype.itemsize == 2 else x for x in (a, b)]
    return c.astype(kind) + wide[0].astype(kind) @ wide[1].astype(kind)


@every_row
@pytest.mark.parametrize("wide", [False, True])
def test_meaning_is_the_product_within_the_stated_error(row: Intrinsic, wide: bool) -> None:
    c, a, b = _operands(row, 12, wide=wide)
    with np.errstate(over="ignore"):
        found, exact = row.run(c, a, b), _exact(c, a, b)
    assert found.dtype == c.dtype
    if c.dtype.kind in "iu":
        np.testing.assert_array_equal(found.view(exact.dtype), exact)
        return
    bound = row.error(c, a, b)
    assert (np.abs(found - exact) <= bound).all()
    assert (bound <= 0.01 * np.max(np.abs(exact)) * 100 + 1e-20).all()  # it says something


def test_subnormal_numbers_count_as_zero_where_the_row_says_so() -> None:
    tiny = np.full((16, 2), 2.0**-130, named_dtype("bf16").numpy)
    large = np.full((2, 16), 2.0**60, named_dtype("bf16").numpy)
    zero = np.zeros((16, 16), np.float32)
    for row in INTRINSICS:
        if row.dtypes == ("bf16", "bf16", "f32"):
            assert row.flushes
            assert not row.run(zero, tiny, large).any(), _label(row)
    fma = row_named("fma", _cpu("avx512"), [named_dtype("f32")] * 3)
    wide = fma.run(zero, tiny.astype(np.float32), large.astype(np.float32))
    assert (wide == 2.0**-69).all()


@every_row
def test_operands_lie_as_the_letters_say(row: Intrinsic) -> None:
    m, n, k = row.shape
    a = np.arange(m * k).reshape(m, k)
    b = np.arange(k * n).reshape(k, n)
    assert row.laid(0, a).size == m * k
    panel = row.laid(1, b).reshape(-1, row.group)
    assert (np.diff(panel, axis=1) == n).all()  # summed indices of one column, side by side
    columns = panel[:: 1 if row.group > 1 else n, 0] % n
    assert len(set(columns.tolist())) == (n if row.group > 1 else 1)


# the machine

_SPELLED = {"u": "i", "c64": "complex<f32>", "c128": "complex<f64>"}


def _type(name: str) -> str:
    return _SPELLED.get(name) or name.replace("u", "i")


def _text(row: Intrinsic, steps: int) -> str:
    """A loop of `steps` instructions that carries their sums."""
    (m, n, k), (a, b, c) = row.shape, map(_type, row.dtypes)
    group = row.group
    if row.in_tiles:
        kinds = [f"!mlc_vec.tile<{m}x{k}x{a}>", f"!mlc_vec.tile<{k // group}x{n * group}x{b}>",
                 f"!mlc_vec.tile<{m}x{n}x{c}>"]  # fmt: skip
        memory = [f"memref<?x{k}x{a}>", f"memref<?x{n * group}x{b}>", f"memref<?x{n}x{c}>"]
        load, store, step = "mlc_vec.tile_load", "mlc_vec.tile_store", 16
    else:
        a_lanes = (n if m == 1 else m) * k
        kinds = [f"vector<{a_lanes}x{a}>", f"vector<{n * k}x{b}>", f"vector<{m * n}x{c}>"]
        memory = [f"memref<?x{m * k}x{a}>", f"memref<?x{n * k}x{b}>", f"memref<?x{m * n}x{c}>"]
        load, store, step = "vector.load", "vector.store", 1
    lhs = f"%x = {load} %a[%i, %zero] : {memory[0]}, {kinds[0]}"
    if m == 1 and k == 1:
        lhs = f"""%g = memref.load %a[%i, %zero] : {memory[0]}
        %x = vector.broadcast %g : {a} to {kinds[0]}"""
    elif m == 1:
        lhs = f"""%g = vector.load %a[%i, %zero] : {memory[0]}, vector<{k}x{a}>
        %x = mlc_vec.repeat %g : vector<{k}x{a}> to {kinds[0]}"""
    return f"""
    func.func @k(%a: {memory[0]}, %b: {memory[1]}, %c: {memory[2]}) {{
      %zero = arith.constant 0 : index
      %step = arith.constant {step} : index
      %end = arith.constant {step * steps} : index
      %before = {load} %c[%zero, %zero] : {memory[2]}, {kinds[2]}
      %sum = scf.for %i = %zero to %end step %step iter_args(%s = %before) -> ({kinds[2]}) {{
        {lhs}
        %y = {load} %b[%i, %zero] : {memory[1]}, {kinds[1]}
        %d = mlc_vec.dot "{row.name}" %s, %x, %y : {kinds[2]}, {kinds[0]}, {kinds[1]}
        scf.yield %d : {kinds[2]}
      }}
      {store} %sum, %c[%zero, %zero] : {memory[2]}, {kinds[2]}
      return
    }}"""


def _runs_here(row: Intrinsic) -> bool:
    host = host_target()
    has = set(host.extensions.split(","))
    return row.arch == host.arch and row.vector_bits <= host.vector_bits and has >= set(row.needs)


@every_row
def test_the_machine_computes_what_the_row_means(row: Intrinsic) -> None:
    if not _runs_here(row):
        pytest.skip(f"this machine has no {row.instruction} of {row.vector_bits} bits")
    steps = 5
    call = kernel(_text(row, steps))
    for wide in (False, True):
        c, a, b = _operands(row, steps, wide=wide)
        k = row.shape[2]
        lhs = np.concatenate([row.laid(0, a[:, s : s + k]).ravel() for s in range(0, k * steps, k)])
        rhs = np.concatenate([row.laid(1, b[s : s + k]).ravel() for s in range(0, k * steps, k)])
        found = c.copy()
        call(lhs, rhs, found)
        meant = row.run(c, a, b)
        if row.flushes:  # manuals of different makers say it in different words
            assert (np.abs(found - meant) <= row.error(c, a, b)).all()
        else:
            np.testing.assert_array_equal(found, meant)


def _machine_of(row: Intrinsic) -> CpuTarget:
    """A target whose code generator has the row's instruction, whatever runs the test."""
    if row.arch == ARM:
        base = named_target("neon")
    elif row.in_tiles:
        return _cpu("amx")
    else:
        base = named_target("avx512" if row.vector_bits == 512 else "avx2")
    assert isinstance(base, CpuTarget)
    features = ",".join(f"+{name}" for name in row.needs)
    return replace(base, features=features, extensions=",".join(row.needs))


def _cpu(name: str) -> CpuTarget:
    target = named_target(name)
    assert isinstance(target, CpuTarget)
    return target


@every_product
def test_the_assembly_holds_the_instruction(row: Intrinsic) -> None:
    (function,) = functions(parse_loops(_text(row, 3)))
    assembly = emit_assembly(emit_text(function, _machine_of(row)), _machine_of(row))
    if row.name == "fma" and row.arch == X86:
        assert "vfmadd" in assembly or "vfmsub" in assembly or "vfnmadd" in assembly
    else:
        assert row.instruction in assembly, assembly
    if row.in_tiles:
        assert {"ldtilecfg", "tileloadd", "tilestored", "tilerelease"} <= set(assembly.split())


def test_tiles_stay_in_registers() -> None:
    """2 x 2 accumulators and 4 operands fill the eight registers; the loop spills no tile."""
    tile, operand = "!mlc_vec.tile<16x16xf32>", "!mlc_vec.tile<16x32xbf16>"
    loads = "".join(
        f"%{x}{i} = mlc_vec.tile_load %{x}[%r{i}, %k] : memref<?x512xbf16>, {operand}\n"
        for x in "ab" for i in (0, 1)
    )  # fmt: skip
    pairs = [(i, j) for i in (0, 1) for j in (0, 1)]
    zeros = "".join(f"%z{i}{j} = mlc_vec.tile_zero : {tile}\n" for i, j in pairs)
    dots = "".join(
        f'%d{i}{j} = mlc_vec.dot "amx_bf16" %s{i}{j}, %a{i}, %b{j} : {tile}, {operand}, {operand}\n'
        for i, j in pairs
    )
    stores = "".join(
        f"mlc_vec.tile_store %t#{2 * i + j}, %c[%r{i}, %r{j}] : memref<?x512xf32>, {tile}\n"
        for i, j in pairs
    )
    four = ", ".join([tile] * 4)
    carried = ", ".join(f"%s{i}{j} = %z{i}{j}" for i, j in pairs)
    text = f"""
    func.func @k(%a: memref<?x512xbf16>, %b: memref<?x512xbf16>, %c: memref<?x512xf32>) {{
      %r0 = arith.constant 0 : index
      %r1 = arith.constant 16 : index
      %step = arith.constant 32 : index
      %end = arith.constant 512 : index
      {zeros}
      %t:4 = scf.for %k = %r0 to %end step %step iter_args({carried}) -> ({four}) {{
        {loads}{dots}
        scf.yield {", ".join(f"%d{i}{j}" for i, j in pairs)} : {four}
      }}
      {stores}
      return
    }}"""
    (function,) = functions(parse_loops(text))
    lines = emit_assembly(emit_text(function, _cpu("amx")), _cpu("amx")).splitlines()
    dots_at = [k for k, line in enumerate(lines) if "tdpbf16ps" in line]
    assert len(dots_at) == 4
    start = max(k for k in range(dots_at[0]) if lines[k].endswith(":") or lines[k].startswith(".L"))
    end = min(k for k in range(dots_at[-1], len(lines)) if "\tj" in lines[k])
    loop = lines[start:end]
    assert sum("tileloadd" in line for line in loop) == 4
    assert not any("tilestored" in line for line in loop)
    assert not any("(%rsp" in line or "(%rbp" in line for line in loop)


def test_six_products_of_bf16_parts_are_no_less_exact_than_fused_ones() -> None:
    """Of float32 factors whose low parts are normal numbers; tiny ones lose them."""
    for name, _, *numbers in errors((64,)).rows:
        fused_rms, parts_rms = map(float, numbers[:2])
        assert (parts_rms <= fused_rms) == (name != "times 1e-35"), name


def _loop_of(assembly: str, instruction: str) -> list[str]:
    """The instructions of the loop that holds the first of these."""
    lines = assembly.splitlines()
    found = [k for k, line in enumerate(lines) if instruction in line]
    start = max(k for k in range(found[0]) if lines[k].startswith(".L"))
    end = min(k for k in range(found[-1], len(lines)) if "\tj" in lines[k])
    return [line for line in lines[start:end] if line.startswith("\t")]


@pytest.mark.parametrize("name", ["fma", "dot_bf16", "dot_u8s8", "dot_i16"])
def test_a_register_tile_of_6_x_4_vectors_spills_nothing(name: str) -> None:
    """24 instructions, 4 loads of b, 6 broadcasts of a, no access to the stack."""
    row = row_named(name, _cpu("amx"))
    a, b, c = map(_type, row.dtypes)
    n, k = row.shape[1:]
    acc, wide = f"vector<{n}x{c}>", f"vector<{n * k}x{b}>"
    tile = [(r, v) for r in range(6) for v in range(4)]
    take = f"vector.load %a[%r{{0}}, %pk] : memref<?x?x{a}>, vector<{k}x{a}>"
    lhs = f"%g{{0}} = {take}\n%x{{0}} = mlc_vec.repeat %g{{0}} : vector<{k}x{a}> to {wide}\n"
    if k == 1:
        take = f"memref.load %a[%r{{0}}, %pk] : memref<?x?x{a}>"
        lhs = f"%g{{0}} = {take}\n%x{{0}} = vector.broadcast %g{{0}} : {a} to {wide}\n"
    constants = "".join(
        f"%r{i} = arith.constant {i} : index\n%b{i} = arith.constant {i * n * k} : index\n"
        f"%c{i} = arith.constant {i * n} : index\n"
        for i in range(6)
    )
    out = f"memref<6x{4 * n}x{c}>"
    before = "".join(f"%z{r}{v} = vector.load %c[%r{r}, %c{v}] : {out}, {acc}\n" for r, v in tile)
    rhs = "".join(
        f"%y{v} = vector.load %b[%p, %b{v}] : memref<?x{4 * n * k}x{b}>, {wide}\n" for v in range(4)
    )
    dots = "".join(
        (lhs.format(r) if v == 0 else "")
        + f'%d{r}{v} = mlc_vec.dot "{name}" %s{r}{v}, %x{r}, %y{v} : {acc}, {wide}, {wide}\n'
        for r, v in tile
    )
    after = "".join(
        f"vector.store %t#{4 * r + v}, %c[%r{r}, %c{v}] : {out}, {acc}\n" for r, v in tile
    )
    carried = ", ".join(f"%s{r}{v} = %z{r}{v}" for r, v in tile)
    text = f"""
    func.func @k(%a: memref<?x?x{a}>, %b: memref<?x{4 * n * k}x{b}>, %c: {out}, %n: index) {{
      {constants}{before}
      %k = arith.constant {k} : index
      %t:24 = scf.for %p = %r0 to %n step %r1 iter_args({carried}) -> ({", ".join([acc] * 24)}) {{
        %pk = arith.muli %p, %k : index
        {rhs}{dots}
        scf.yield {", ".join(f"%d{r}{v}" for r, v in tile)} : {", ".join([acc] * 24)}
      }}
      {after}
      return
    }}"""
    (function,) = functions(parse_loops(text))
    loop = _loop_of(emit_assembly(emit_text(function, _cpu("amx")), _cpu("amx")), row.instruction)
    assert sum(row.instruction in line for line in loop) == 24
    assert sum("broadcast" in line for line in loop) == 6
    assert not any("(%rsp" in line or "(%rbp" in line for line in loop)


# the table


def test_every_row_has_a_writer_and_every_writer_a_row() -> None:
    assert set(WRITERS) == {row.name for row in INTRINSICS}


def test_rows_of_the_named_machines() -> None:
    def names(target: str) -> set[str]:
        return {f"{row.name} {row.instruction}" for row in rows_of(_cpu(target))}

    assert "madd_i16 vpmaddwd" in names("avx2")
    assert not any("vpdp" in name for name in names("avx2"))
    assert not any("amx" in name for name in names("avx2") | names("avx512"))
    vectors = {"dot_bf16 vdpbf16ps", "dot_u8s8 vpdpbusd", "dot_i16 vpdpwssd"}
    assert names("avx512") >= vectors
    assert names("amx") >= {"amx_bf16 tdpbf16ps", "amx_s8 tdpbssd", *vectors}
    assert "dot_s8 sdot" in names("neon")
    fastest = row_named("amx_bf16", _cpu("amx"))
    assert fastest.macs_per_cycle(_cpu("amx")) == 512
    assert row_named("fma", _cpu("amx")).macs_per_cycle(_cpu("amx")) == 32


def test_a_row_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(
        ValueError, match=r"avx2 has no instruction amx_bf16; expected one of madd_i16"
    ):
        row_named("amx_bf16", _cpu("avx2"))
    with pytest.raises(ValueError, match="no instruction fma for f32, i8, f32"):
        row_named("fma", _cpu("avx2"), [named_dtype(name) for name in ("f32", "i8", "f32")])
