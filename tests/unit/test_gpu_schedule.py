"""How kernels are spread over a GPU's threads."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from xdsl.ir import SSAValue

from mlc.dialects.analysis.access import nest_of
from mlc.dialects.dims import Dim, tensor_type
from mlc.dialects.dtypes import BF16, BOOL, F16, F32, F64, I32, DType
from mlc.dialects.plan import KernelOp, Schedule
from mlc.dialects.target import GpuTarget
from mlc.dialects.target.known import named_target
from mlc.dialects.tensor.elementwise import AddOp
from mlc.dialects.tensor.op import OpBuilder, tensor_of
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tensor.shape import BroadcastOp
from mlc.dialects.tensor.window import ConvOp
from mlc.passes.gpu.schedule import gpu_schedules
from tests.every_op.native import Argument, Body, function_module, to_plan

Shape = tuple[int | str, ...]


def _schedule(body: Body, *arguments: tuple[DType, Shape], on: str = "h200") -> Schedule:
    """The schedule of the only kernel."""
    given = [Argument(dtype, tuple(map(Dim.of, shape))) for dtype, shape in arguments]
    symbols = sorted({s for a in given for d in a.dims for s in d.symbols()})
    module = to_plan(function_module(given, body, symbols), fusion="exact")
    (kernel,) = [op for op in module.walk() if isinstance(op, KernelOp)]
    target = named_target(on)
    assert isinstance(target, GpuTarget)
    return next(gpu_schedules(nest_of(kernel), kernel, target))


def _twice(b: OpBuilder, x: Sequence[SSAValue]) -> list[SSAValue]:
    return [b(AddOp, x[0], x[0])]


def _add_row(b: OpBuilder, x: Sequence[SSAValue]) -> list[SSAValue]:
    row = b(BroadcastOp, x[1], letters="n->mn", declared=tensor_of(x[0]))
    return [b(AddOp, x[0], row)]


def _reduce(letters: str, monoid: str = "sum") -> Body:
    return lambda b, x: [b(ReduceOp, x[0], monoid=monoid, letters=letters)]


def _product(b: OpBuilder, x: Sequence[SSAValue]) -> list[SSAValue]:
    return [b(ContractOp, *x, letters="mk,kn->mn")]


def test_sixteen_bytes_for_each_thread() -> None:
    assert _schedule(_twice, (F32, ("n",))).lanes == 4
    assert _schedule(_twice, (F64, ("n",))).lanes == 2


@pytest.mark.parametrize(("row", "lanes"), [(4096, 4), (10, 2), (7, 1), ("n", 4)])
def test_lanes_divide_known_rows(row: int | str, lanes: int) -> None:
    assert _schedule(_add_row, (F32, ("m", row)), (F32, (row,))).lanes == lanes


@pytest.mark.parametrize(
    ("row", "threads"), [(2, 1), (10, 2), (64, 8), (1000, 32), (4096, 256), ("n", 256)]
)
def test_threads_of_a_row(row: int | str, threads: int) -> None:
    assert _schedule(_reduce("mn->m"), (F32, ("m", row))).threads == threads


def test_columns_run_along_the_kept_axis() -> None:
    found = _schedule(_reduce("mn->n"), (F32, ("m", "n")))
    assert (found.lanes, found.vector_axis, found.threads, found.share) == (1, 0, 256, 0)
    assert _schedule(_reduce("mn->n"), (F32, (512, 100))).lanes == 4
    assert _schedule(_reduce("mn->n"), (F32, (512, 99))).lanes == 1


@pytest.mark.parametrize(
    ("rows", "columns", "share"), [(32768, 8192, 6554), (8192, 768, 187), (100, 64, 0)]
)
def test_few_columns_are_cut_into_shares_of_rows(rows: int, columns: int, share: int) -> None:
    """Until each of the H200's 132 multiprocessors has two blocks."""
    assert _schedule(_reduce("mn->n"), (F32, (rows, columns))).share == share


def test_a_thread_takes_several_vectors_of_large_arrays() -> None:
    assert _schedule(_twice, (F32, (1 << 26,))).unroll == 4
    assert _schedule(_twice, (F32, (1 << 16,))).unroll == 1
    assert _schedule(_twice, (F32, ("n",))).unroll == 1


def test_positions_cost_registers() -> None:
    assert _schedule(_reduce("mn->m", "argmax"), (F32, ("m", 4096))).unroll == 2
    assert _schedule(_reduce("mn->m"), (F32, ("m", 4096))).unroll == 4


def test_tiles_of_products() -> None:
    def tile(dtype: DType, m: int, n: int, on: str = "h200") -> tuple[int, int]:
        found = _schedule(_product, (dtype, (m, 50)), (dtype, (50, n)), on=on)
        return (found.stage.m, found.stage.rows) if found.stage is not None else (0, 0)

    assert tile(F32, 2048, 2048) == (128, 8)
    assert tile(F64, 2048, 2048, on="cuda:sm_75") == (64, 4)
    assert tile(F32, 100, 100) == (16, 4)
    assert tile(F32, 1000, 1000) == (64, 4)
    assert tile(F32, 2, 100) == (0, 0)  # too few rows: each result on its own
    assert tile(BOOL, 100, 100) == (0, 0)


def _mma(found: Schedule) -> tuple[str, int, int]:
    stage = found.stage
    return ("", 0, 0) if stage is None else (stage.mma, stage.m, stage.n)


@pytest.mark.parametrize(
    ("dtype", "size", "on", "expected"),
    [
        (F64, 4096, "h200", ("mma_f64", 64, 128)),
        (F64, 4096, "cuda:sm_80", ("mma_f64_m8n8k4", 64, 128)),
        (F64, 400, "h200", ("mma_f64", 64, 64)),
        (F64, 100, "h200", ("", 16, 16)),  # threads divide it among more multiprocessors
        (F64, "n", "h200", ("mma_f64", 64, 64)),
        (F64, 4, "h200", ("", 16, 16)),
        (BF16, 4096, "cuda:sm_80", ("mma_bf16", 128, 128)),
        (F16, 400, "cuda:sm_80", ("mma_f16", 64, 64)),
        (F32, 4096, "h200", ("", 128, 128)),  # tf32 is for those who ask
        (F64, 4096, "cuda:sm_75", ("", 64, 64)),
        (F64, 4096, "cuda:sm_89", ("", 64, 64)),  # a data sheet without f64
        (I32, 4096, "h200", ("", 128, 128)),
    ],
)
def test_products_of_warps(
    dtype: DType, size: int | str, on: str, expected: tuple[str, int, int]
) -> None:
    given = (dtype, (size, size))
    assert _mma(_schedule(_product, given, given, on=on)) == expected


def test_products_of_whole_tiles_are_staged() -> None:
    def stages(dtype: DType, m: int, n: int, k: int, on: str = "cuda:sm_80") -> int:
        stage = _schedule(_product, (dtype, (m, k)), (dtype, (k, n)), on=on).stage
        return 0 if stage is None else stage.slots

    assert stages(F32, 2048, 1024, 512) == 2
    assert stages(F32, 2048, 1024, 520) == 0  # half a tile at the end
    assert stages(F32, 2000, 1024, 512) == 0
    assert stages(F32, 1024, 1024, 512) == 2
    assert stages(F32, 96, 64, 512) == 0
    assert stages(F64, 2048, 1024, 512) == 3  # warps' tiles
    assert stages(F64, 2048, 1024, 512, on="cuda:sm_75") == 0
    assert stages(F32, 2048, 1024, 512, on="cuda:sm_75") == 0


@pytest.mark.parametrize(
    ("m", "n", "k", "stage"),
    [
        (1024, 1024, 1024, (64, 128, 4, 8)),
        (1536, 1536, 1536, (64, 64, 4, 4)),
        (2048, 2048, 2048, (128, 128, 8, 8)),
        (2048, 512, 4096, (64, 128, 4, 8)),
        (3072, 3072, 3072, (64, 128, 4, 8)),
        (4096, 4096, 4096, (128, 128, 8, 8)),
    ],
)
def test_staged_tiles_fill_the_machine(
    m: int, n: int, k: int, stage: tuple[int, int, int, int]
) -> None:
    """The fastest of those measured on an H100, which has as many multiprocessors."""
    found = _schedule(_product, (F32, (m, k)), (F32, (k, n))).stage
    assert found is not None
    assert (found.m, found.n, found.rows, found.columns) == stage
    assert found.slots == 2


@pytest.mark.parametrize(
    ("dtype", "m", "n", "k", "stage", "share"),
    [
        (F32, 64, 256, 64, (16, 16, 64, 16), 0),
        (F64, 64, 256, 64, (16, 16, 32, 16), 0),  # as much shared memory as a block declares
        (F32, 64, 10, 20, (16, 16, 32, 16), 0),
        (F32, 512, 512, 512, (32, 32, 32, 4), 0),
        (F32, 64, 64, 4096, (32, 16, 32, 8), 128),
        (F32, "m", 64, 4096, (64, 64, 16, 0), 0),
    ],
)
def test_products_of_few_results_are_summed_in_parts(
    dtype: DType, m: int | str, n: int, k: int, stage: tuple[int, int, int, int], share: int
) -> None:
    """An H200 has 132 multiprocessors; 64 rows and columns would be a block for few of them."""
    found = _schedule(_product, (dtype, (m, k)), (dtype, (k, n)))
    cut = found.stage
    assert cut is not None
    assert (cut.m, cut.n, cut.k, cut.parts) == stage
    assert found.share == share


@pytest.mark.parametrize("letters", ["a(u+i)(v+j)c,ijcf->auvf", "ac(u+i)(v+j),fcij->afuv"])
def test_convolutions_are_products(letters: str) -> None:
    last = letters.endswith("f")
    x, w = ((8, 30, 30, 16), (3, 3, 16, 32)) if last else ((8, 16, 30, 30), (32, 16, 3, 3))
    kind = tensor_type(F32.ir, tuple(map(Dim.of, (8, 28, 28, 32) if last else (8, 32, 28, 28))))
    found = _schedule(
        lambda b, v: [b(ConvOp, *v, letters=letters, declared=kind)], (F32, x), (F32, w)
    )
    assert found.stage is not None
    assert found.stage.parts > 0


@pytest.mark.parametrize("shape", [(500, 512, 512), (512, 512, 500), (1088, 1088, 64)])
def test_other_products_are_read_by_their_threads(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    found = _schedule(_product, (F32, (m, k)), (F32, (k, n))).stage
    assert found is not None
    assert found.slots != 2
