"""Every template on every dtype: PTX that NVIDIA's assembler accepts. Needs no GPU."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from xdsl.ir import SSAValue

from mlc import TensorSpec
from mlc.dialects.dims import Dim, tensor_type
from mlc.dialects.dtypes import BF16, BOOL, DTYPES, F32, I64, DType
from mlc.dialects.launch import GpuProgram
from mlc.dialects.target import GpuTarget
from mlc.dialects.target.known import named_target
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.elementwise import AddOp, ExpOp
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.op import OpBuilder
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tensor.shape import ConcatOp, TransposeOp
from mlc.lowering.emit import joined
from mlc.runtime.ptx import emit_ptx
from tests.assembler import checked, needs_ptxas
from tests.every_op.native import Argument, Body, function_module, to_plan
from tests.gpu.native import gpu_program
from tests.plans import planned
from tests.sweeps import covering

M, N, K = map(Dim.symbol, "mnk")


def _templates(dtype: DType) -> tuple[list[Argument], Body]:
    """One function with a kernel of each template that the dtype has."""
    arguments = [
        Argument(dtype, (M, N)),
        Argument(dtype, (N, K)),
        Argument(dtype, (M, N), strided=True),
        Argument(I64, (K,)),
    ]

    def body(b: OpBuilder, v: Sequence[SSAValue]) -> list[SSAValue]:
        x, y, strided, index = v
        results = [
            b(TransposeOp, x, letters="mn->nm"),
            b(ConcatOp, x, x, axis=1),
            b(GatherOp, x, index, letters="m0,k->mk"),
        ]
        if dtype.kind == "storage":  # nothing is computed of it
            return [*results, b(ConvertOp, strided, declared=tensor_type(F32.ir, (M, N)))]
        results += [
            b(ReduceOp, x, monoid=monoid, letters=letters)
            for monoid in (("sum",) if dtype.kind == "complex" else ("sum", "max"))
            for letters in ("mn->m", "mn->n", "mn->")
        ]
        if dtype.kind != "complex":
            results.append(b(ReduceOp, x, monoid="argmax", letters="mn->m"))
        if dtype is not BOOL:
            results += [b(AddOp, x, strided), b(ContractOp, x, y, letters="mn,nk->mk")]
        if dtype.is_inexact:
            results.append(b(ExpOp, x))
        return results

    return arguments, body


def _program(dtype: DType, target: GpuTarget) -> GpuProgram:
    arguments, body = _templates(dtype)
    module = function_module(arguments, body, ("m", "n", "k"))
    return gpu_program(to_plan(module), target)


def _target(name: str) -> GpuTarget:
    target = named_target(name)
    assert isinstance(target, GpuTarget)
    return target


@needs_ptxas
@pytest.mark.parametrize(("dtype", "sm"), covering(DTYPES, ["sm_80", "sm_90a"], strength=1))
def test_the_assembler_accepts_every_kernel(dtype: DType, sm: str, tmp_path: Path) -> None:
    target = _target(sm)
    program = _program(dtype, target)
    ptx = emit_ptx(joined([(k.name, k.llvm) for k in program.kernels]), target)
    checked(ptx, sm, tmp_path)


MEMORY = re.compile(r"\b(?:ld|st|atom|red|prefetch)\.global|\bld\.b|\bst\.b|\bcp\.async")


@pytest.mark.parametrize("sm", ["sm_80", "sm_90a"])
def test_no_kernel_touches_memory_before_those_before_it_have_ended(sm: str) -> None:
    target = _target(sm)
    for kernel in _program(F32, target).kernels:
        body = emit_ptx(kernel.llvm, target).split(".visible .entry")[1]
        first, waits = MEMORY.search(body), body.find("griddepcontrol.wait")
        assert first is not None
        assert (0 < waits < first.start()) if sm == "sm_90a" else waits < 0, kernel.name


def test_kernels_say_what_they_are_for() -> None:
    target = _target("sm_90a")
    program = _program(F32, target)
    for kernel in program.kernels:
        ptx = emit_ptx(kernel.llvm, target)
        assert ".version 8.0" in ptx
        assert ".target sm_90a" in ptx
        assert f".visible .entry {kernel.name}(" in ptx
        assert ".maxntid" in ptx


def test_contiguous_access_is_sixteen_bytes_wide() -> None:
    target = _target("sm_90a")
    module = function_module([Argument(F32, (N,))], lambda b, v: [b(AddOp, v[0], v[0])], ("n",))
    (kernel,) = gpu_program(to_plan(module), target).kernels
    ptx = emit_ptx(kernel.llvm, target)
    assert "ld.global.nc.v4.b32" in ptx
    assert "st.global.v4.b32" in ptx


def test_errors_are_written_by_the_device_alone() -> None:
    """The word is the host's memory, which has no atomic operations of the whole system."""

    def picked(x: Any, i: Any) -> Any:
        return x[i]

    ptx = planned(picked, TensorSpec(100), TensorSpec(5, dtype="i64"), target="sm_90a").asm()
    atomics = re.findall(r"atom\S+", ptx)
    assert atomics
    assert set(atomics) == {"atom.relaxed.gpu.global.cas.b64"}


def test_only_the_special_function_unit_approximates() -> None:
    """2^x and 1 / x of numbers whose results are normal; divisions, roots and sums are exact."""
    target = _target("sm_90a")
    for kernel in _program(F32, target).kernels:
        ptx = emit_ptx(kernel.llvm, target)
        for by_unit in ("ex2.approx.ftz.f32", "rcp.approx.ftz.f32"):
            ptx = ptx.replace(by_unit, "")
        assert ".ftz" not in ptx
        assert ".approx" not in ptx


def test_numbers_of_half_width_are_rounded_by_the_instruction() -> None:
    target = _target("sm_90a")
    argument = Argument(BF16, (N,))
    module = function_module([argument], lambda b, v: [b(AddOp, v[0], v[0])], ("n",))
    (kernel,) = gpu_program(to_plan(module), target).kernels
    ptx = emit_ptx(kernel.llvm, target)
    assert "cvt.rn.bf16x2.f32" in ptx


@needs_ptxas
@pytest.mark.parametrize(
    ("letters", "sm"),
    covering(["mk,kn->mn", "mk,nk->mn", "km,kn->mn", "km,nk->mn"], ["sm_80", "sm_90a"], strength=1),
)
def test_two_blocks_of_a_large_product_fit_a_multiprocessor(
    letters: str, sm: str, tmp_path: Path
) -> None:
    """Tiles come by asynchronous copies; 64 sums of a thread stay in its 128 registers."""
    words, sizes = letters.split("->")[0].split(","), {"m": 2048, "n": 1024, "k": 512}
    shapes = [tuple(Dim.const(sizes[c]) for c in word) for word in words]
    module = function_module(
        [Argument(F32, shape) for shape in shapes],
        lambda b, x: [b(ContractOp, *x, letters=letters)],
        (),
    )
    target = _target(sm)
    (kernel,) = gpu_program(to_plan(module), target).kernels
    ptx = emit_ptx(kernel.llvm, target)
    assert ".minnctapersm 2" in ptx
    assert ptx.count("cp.async") > 4
    assert set(checked(ptx, sm, tmp_path).values()) == {0}


def test_strided_factors_of_a_large_product_are_read_by_threads() -> None:
    square = (Dim.const(1024), Dim.const(1024))
    module = function_module(
        [Argument(F32, square, strided=True), Argument(F32, square)],
        lambda b, x: [b(ContractOp, *x, letters="mk,kn->mn")],
        (),
    )
    (kernel,) = gpu_program(to_plan(module), _target("sm_80")).kernels
    assert "cp.async" not in kernel.llvm
    assert "nvvm.minctasm" not in kernel.llvm
