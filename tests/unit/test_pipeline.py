"""The pipeline: stages, dumps, verification, the two-level cache, and what executables report."""

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from mlc import knobs
from mlc.backends import BACKENDS, backend_of
from mlc.dialects.errors import CompilerBug, MlcError
from mlc.dialects.target.known import named_target
from mlc.dialects.tensor.elementwise import AddOp, NegOp
from mlc.executable import Executable, compile_module
from mlc.frontend.importers.mlir import signature_of
from mlc.options import Options
from mlc.pipeline import check_leaves, level_of, run_pipeline
from mlc.runtime.cache import object_cache
from mlc.runtime.interpret import entry_function
from mlc.runtime.probe import host_target
from mlc.text import parse_text

AVX2 = Options(target=named_target("avx2"))
FUSED = """
!t = tensor<8xf32>
func.func @e(%a: !t, %b: !t, %c: !t, %d: !t) -> !t {
  %0 = mlc.add %a, %b : tensor<8xf32>
  %1 = mlc.mul %0, %c : tensor<8xf32>
  %2 = mlc.add %d, %1 : tensor<8xf32>
  func.return %2 : tensor<8xf32>
}
"""
GATHER = """
!i = tensor<?xi64, #mlc.dims<"N">>
!r = tensor<?xf32, #mlc.dims<"N">>
func.func @pick(%x: tensor<5xf32>, %i: !i) -> !r {
  %0 = mlc.gather "0,n->n" %x[%i] : tensor<5xf32>, !i -> !r
  func.return %0 : !r
}
"""


def read(text: str) -> ModuleOp:
    """The module of a text."""
    return parse_text(text, "test.mlir")


def compiled(text: str, **options: str) -> Executable:
    """The text's function on this machine."""
    module = read(text)
    signature = signature_of(entry_function(module))
    fusion = "none" if options.get("fusion") == "none" else "exact"
    return compile_module(module, signature, Options(target=host_target(), fusion=fusion))


def test_levels_are_recognised() -> None:
    module = read(FUSED)
    assert level_of(module) == "tensor"
    assert level_of(run_pipeline(module, AVX2, until="plan")) == "plan"
    assert level_of(run_pipeline(module, AVX2, until="loops")) == "loops"


def test_a_run_resumes_where_the_text_is() -> None:
    straight = str(run_pipeline(read(FUSED), AVX2))
    plan = str(run_pipeline(read(FUSED), AVX2, until="plan"))
    assert str(run_pipeline(read(plan), AVX2)) == straight


def test_every_step_says_why() -> None:
    stages = [stage for row in BACKENDS for stage in row.stages]
    assert all(len(step.because) > 10 for stage in stages for step in stage.steps)


def test_what_a_stage_forbids_is_a_bug_with_a_reproducer() -> None:
    module = read(FUSED)
    with pytest.raises(CompilerBug, match=r"mlc-form-waves left 'mlc.\w+' behind") as raised:
        check_leaves(module, backend_of(AVX2.target).stage("plan"))
    path = Path(str(raised.value).rpartition("reproducer: ")[2])
    assert str(read(path.read_text())) == str(module)


def test_dump_writes_every_level_and_marks_what_did_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "dump"
    with knobs.scope(dump=folder, cache_bytes=0, cache_dir=tmp_path / "cache"):
        compiled(FUSED)
        compiled(GATHER)
    names = sorted(path.name for path in folder.iterdir())
    assert names[0] == "00-trace.mlir"
    assert any(name.endswith("-e.ll") for name in names)
    index = (folder / "index.txt").read_text()
    assert "canonicalize" in index
    assert "(unchanged)" in index
    assert " ops" in index
    for path in folder.glob("*.mlir"):
        assert str(read(path.read_text())) + "\n" == path.read_text(), path
    assert (folder / "1-pick" / "00-trace.mlir").exists(), "a further function has its own folder"


def test_verify_finds_the_pass_at_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    from mlc.passes.tensor.cse import CsePass

    def spoil(self: CsePass, ctx: object, op: ModuleOp) -> None:
        block = entry_function(op).body.block
        first = block.first_op
        assert isinstance(first, AddOp)
        late = NegOp.make(first.lhs)
        block.insert_op_after(late, first)
        first.operands[0] = late.results[0]

    monkeypatch.setattr(CsePass, "apply", spoil)
    with knobs.scope(verify=True), pytest.raises(CompilerBug, match=r"wrong after mlc-cse.*later"):
        run_pipeline(read(FUSED), AVX2)


def test_fusion_raises_the_intensity_from_a_third_to_three_fifths() -> None:
    fused, apart = compiled(FUSED), compiled(FUSED, fusion="none")
    (kernel,) = fused.plan().kernels
    assert kernel.intensity_per_access == pytest.approx(3 / 5)
    assert kernel.intensity == pytest.approx(3 / 5 / 4)
    assert [k.intensity_per_access for k in apart.plan().kernels] == pytest.approx([1 / 3] * 3)
    assert fused.plan().intermediates == ()
    assert len(apart.plan().intermediates) == 2
    assert fused.memory().arena_bytes == 0
    assert apart.memory().peak_bytes == 3 * 32 + 2 * 32  # slots are multiples of 64 bytes
    assert "0.600" in fused.explain()
    assert "0.333" in apart.explain()


def test_cost_counts_by_source_line() -> None:
    cost = compiled(FUSED).cost()
    assert (cost.flops, cost.bytes_moved) == (24, 160)
    assert cost.flops_by_line == {"test.mlir:4": 8, "test.mlir:5": 8, "test.mlir:6": 8}


def test_symbols_have_values_in_reports() -> None:
    executable = compiled(GATHER)
    assert executable.memory(N=10).results_bytes == 40
    with pytest.raises(MlcError, match="no symbol is called 'M'; expected one of: N"):
        executable.cost(M=3)


def test_the_first_key_finds_the_program_again(tmp_path: Path) -> None:
    with knobs.scope(cache_dir=tmp_path):
        first, second = compiled(FUSED), compiled(FUSED)
        other = compiled(FUSED.replace("mlc.mul", "mlc.add"))
    assert (first.compilations, first.cache_hits) == (1, 0)
    assert (second.compilations, second.cache_hits) == (0, 1)
    assert other.compilations == 1
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(second(x, x, x, x), x + (x + x) * x)
    assert "llvm" not in second.times_s
    assert second.plan().kernels == first.plan().kernels, "reports do not need the compilation"


def test_a_damaged_entry_is_a_miss(tmp_path: Path) -> None:
    with knobs.scope(cache_dir=tmp_path):
        compiled(FUSED)
        for path in tmp_path.rglob("*.o"):
            path.write_bytes(path.read_bytes()[:-7])
        object_cache()._memory.clear()  # pyright: ignore[reportPrivateUsage]
        again = compiled(FUSED)
    assert again.compilations == 1


def test_errors_of_the_code_name_the_line() -> None:
    executable = compiled(GATHER)
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(executable(x, np.array([0, -1])), [0, 4])
    with pytest.raises(IndexError, match=r"index 7 is out of bounds .*\n  test.mlir:5"):
        executable(x, np.array([1, 7]))


def test_what_the_code_does_not_take_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"e is compiled for \(f32\[8\], .*found \(float64"):
        compiled(FUSED)(*[np.zeros(8)] * 4)


def test_a_function_may_have_the_name_of_a_c_function() -> None:
    executable = compiled(FUSED.replace("@e", "@memset"))
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(executable(x, x, x, x), x + (x + x) * x)


def test_text_of_every_level_and_assembly() -> None:
    executable = compiled(FUSED)
    assert "mlc.mul" in executable.text("tensor")
    assert "mlc.kernel" in executable.text("plan")
    assert "vector<" in executable.text("loops")
    assert "define" in executable.text("code")
    assert "ret" in executable.asm()


def test_xdsl_knows_our_passes_and_dialects() -> None:
    from mlc.universe import MLC_UNIVERSE

    assert all(name.startswith("mlc-") for name in MLC_UNIVERSE.all_passes)
    for name, factory in MLC_UNIVERSE.all_passes.items():
        assert factory().name == name
    for name, factory in MLC_UNIVERSE.all_dialects.items():
        assert factory().name == name
