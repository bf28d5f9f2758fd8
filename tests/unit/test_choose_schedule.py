"""Schedules of products as values: routes, words, predictions; what today's loops can follow."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise, product
from math import inf
from typing import Any

import numpy as np
import pytest

from mlc.dialects.plan import Schedule, ScheduleAttr
from mlc.dialects.target import named_target
from mlc.dialects.target.cpu import CpuTarget
from mlc.dialects.target.intrinsics import row_named
from mlc.dialects.tile.words import Block, Pack, Register, Split, Via, Word, Words
from mlc.driver import main
from mlc.passes.tile.choose import (
    ROUTES,
    Candidate,
    choose_schedule,
    fits_registers,
    refused,
    register_tiles,
)
from mlc.passes.tile.predict import Problem, predict, row_of
from mlc.schedules import PARTS, program_of, schedules_of, why_not, with_words
from mlc.waiting import progress
from tests.plans import RUNNABLE, TARGETS

PROBLEMS = {
    "tiny": Problem(m=64, n=64, k=64),
    "square": Problem(m=1024, n=1024, k=1024),
    "odd": Problem(m=1000, n=1003, k=997, threads=2),
    "tall": Problem(m=100_000, n=24, k=64),
    "few rows": Problem(m=4, n=1024, k=4096, threads=4),
    "batched": Problem(m=128, n=64, k=64, batch=64, threads=2),
    "transposed": Problem(m=300, n=300, k=300, a_unit="m", b_unit="k"),
    "bf16": Problem(m=512, n=512, k=512, dtypes=("bf16", "bf16", "f32")),
    "bytes": Problem(m=512, n=512, k=512, dtypes=("i8", "i8", "i32"), threads=2),
    "f64": Problem(m=256, n=256, k=256, dtypes=("f64", "f64", "f64")),
    "complex": Problem(m=64, n=64, k=64, dtypes=("c64", "c64", "c64")),
}


def cpu(name: str) -> CpuTarget:
    target = named_target(name)
    assert isinstance(target, CpuTarget)
    return target


def best(problem: Problem, target: str) -> Candidate:
    return choose_schedule(problem, cpu(target))[0]


def tile_of(words: Words) -> Register:
    return next(word for word in words if isinstance(word, Register))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_every_candidate_is_a_schedule_that_the_machine_holds(name: str, target: str) -> None:
    problem, machine = PROBLEMS[name], cpu(target)
    found = choose_schedule(problem, machine)
    assert found
    assert [c.seconds for c in found] == sorted(c.seconds for c in found)
    assert len({c.words for c in found}) == len(found)
    for c in found:
        ScheduleAttr(Schedule(c.words)).verify()
        row, tile = row_of(problem, c.words, machine), tile_of(c.words)
        assert fits_registers(row, tile.m // row.shape[0], tile.n // row.shape[1], machine)
        assert 0 < c.seconds < inf
        assert c.predicted.workers <= problem.threads
        assert refused(c.route, problem, machine) is None
        for pack in (word for word in c.words if isinstance(word, Pack)):
            assert pack.panels == (tile.m if pack.operand == "a" else tile.n)
            assert pack.group == row.group


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_nothing_is_predicted_to_run_beyond_the_peak(name: str, target: str) -> None:
    problem, machine = PROBLEMS[name], cpu(target)
    for c in choose_schedule(problem, machine):
        peak = row_of(problem, c.words, machine).macs_per_cycle(machine) * machine.clock_hz
        assert c.seconds >= problem.macs / peak / c.predicted.workers


def test_routes_by_size() -> None:
    assert best(PROBLEMS["tiny"], "avx512").route == "tiny"
    assert best(PROBLEMS["square"], "avx512").route == "blocked"
    assert best(PROBLEMS["tall"], "avx512").route == "panel"
    assert best(Problem(m=4, n=512, k=512), "avx512").route == "skinny"
    assert best(replace(PROBLEMS["few rows"], threads=1), "avx512").route == "skinny"
    assert best(PROBLEMS["batched"], "avx512").route in ("batched", "panel")
    assert best(PROBLEMS["transposed"], "avx512").route == "blocked"


def test_a_route_that_is_none_says_which_number_rules_it_out() -> None:
    def said(name: str) -> dict[str, str]:
        found = {route: refused(route, PROBLEMS[name], cpu("avx512")) for route in ROUTES}
        return {route: text for route, text in found.items() if text is not None}

    assert said("square") == {
        "tiny": "m = 1024 and n = 1024: more than 64",
        "panel": "n = 1024: more than 64 columns of one register tile, and m = 1024: more than 256 "
        "rows, which repay a copy of b",
        "skinny": "m = 1024 and n = 1024 fill register tiles",
        "batched": "there is one batch",
    }
    assert "the columns of b lie apart in memory" in said("transposed")["panel"]
    assert "batched" not in said("batched")


def test_the_best_instruction_of_each_machine_multiplies() -> None:
    def row(name: str, target: str) -> str:
        return next(w.row for w in best(PROBLEMS[name], target).words if isinstance(w, Via))

    assert row("bf16", "amx") == "amx_bf16"
    assert row("bytes", "amx") == "amx_s8"
    assert row("bf16", "avx512") == "dot_bf16"
    assert row("bytes", "avx512") == "dot_u8s8"
    assert row("bf16", "avx2") == "fma"  # widened while it is packed
    assert row("bytes", "avx2") == "madd_i16"
    assert row("bytes", "neon") == "dot_s8"


def test_rows_of_small_matrices_need_both_factors_packed() -> None:
    """bfmmla takes two rows of a side by side, which no row-major a has."""
    for name, row in (("bf16", "mmla_bf16"), ("bytes", "mmla_s8")):
        found = choose_schedule(PROBLEMS[name], cpu("mmla"))
        matrices = [c for c in found if Via(row) in c.words]
        assert found[0] in matrices
        for c in matrices:
            assert {w.operand for w in c.words if isinstance(w, Pack)} == {"a", "b"}


def test_sums_in_small_matrices_fill_the_registers() -> None:
    """6 x 4 of them, and of one step 4 operands of b and one of a: 29 of 32 registers."""
    row = row_named("mmla_s8", cpu("mmla"))
    assert register_tiles(row, cpu("mmla"), 1024, 1024, apart=False)[0] == (12, 8)
    assert not fits_registers(row, 7, 4, cpu("mmla"))


def test_one_row_of_bytes_takes_no_instruction_that_makes_two() -> None:
    """Half of what it multiplies would be for nothing, and a would be copied."""
    words = choose_schedule(Problem(m=1, n=1024, k=1024, dtypes=PROBLEMS["bytes"].dtypes),
                            cpu("mmla"))[0].words  # fmt: skip
    assert Via("dot_s8") in words


def test_more_workers_are_not_slower() -> None:
    for problem in (Problem(m=n, n=n, k=n) for n in (16, 64, 128, 512, 2048)):
        times = [
            best(Problem(m=problem.m, n=problem.n, k=problem.k, threads=t), "avx512").seconds
            for t in (1, 2, 4, 8)
        ]
        assert all(after <= before * 1.01 for before, after in pairwise(times))


# register tiles


@pytest.mark.parametrize(
    ("target", "registers", "by_scalars", "by_instructions"),
    [("avx2", 16, (14, 8), (4, 24)), ("avx512", 32, (30, 16), (6, 64))],
)
def test_scalars_and_instructions_ask_for_different_tiles(
    target: str, registers: int, by_scalars: tuple[int, int], by_instructions: tuple[int, int]
) -> None:
    """Loads of scalars are least in a tall tile; load instructions are least in a wide one."""
    machine = cpu(target)
    assert machine.num_vector_registers == registers
    row = row_named("fma", machine)
    lanes = row.shape[1]
    fitting = [
        (rows, columns)
        for rows in range(1, 33)
        for columns in range(1, 5)
        if fits_registers(row, rows, columns, machine)
    ]
    scalars = min(fitting, key=lambda t: 1 / t[0] + 1 / (t[1] * lanes))
    assert (scalars[0], scalars[1] * lanes) == by_scalars
    instructions = min(fitting, key=lambda t: 1 / t[0] + 1 / t[1])
    assert (instructions[0], instructions[1] * lanes) == by_instructions
    assert register_tiles(row, machine, 2304, 2304)[0] == by_instructions


def test_amx_tiles_are_two_by_two() -> None:
    row = row_named("amx_bf16", cpu("amx"))
    assert register_tiles(row, cpu("amx"), 1024, 1024)[0] == (32, 32)


# predictions


def test_loads_and_bytes_of_a_product_that_level_1_holds() -> None:
    """48 x 64 x 64 in tiles of 6 x 64: 4 + 6 loads for 24 multiplications, nothing from further."""
    problem, machine = Problem(m=48, n=64, k=64), cpu("avx512")
    found = predict(problem, (Register(6, 64), Via("fma")), machine)
    assert found.loads == pytest.approx(10 / 24)
    steps = 8 * 64
    assert found.bytes == (steps * (6 * 4 + 4 * 64), 0, 0, 0)
    multiplying = steps * (24 / 2 + 0.28 * 10 / 2)
    assert found.core_s == pytest.approx((multiplying + 8 * 25) / machine.clock_hz)


def test_what_no_level_keeps_is_read_once() -> None:
    """a and the sums pass through; b stays in level 1."""
    end = (Register(6, 64), Via("fma"))
    level3 = predict(Problem(m=4800, n=64, k=64), end, cpu("avx512"))
    assert level3.bytes[1:] == (0, 4 * (4800 * 64 + 64 * 64), 0)
    memory = predict(Problem(m=480_000, n=64, k=64), end, cpu("avx512"))
    assert memory.bytes[1:] == (0, 0, 4 * (480_000 * 64 + 64 * 64))


def test_blocks_that_fit_are_read_from_near() -> None:
    problem, machine = Problem(m=1024, n=1024, k=1024), cpu("avx512")
    end = (Register(6, 64), Via("fma"))
    near = predict(problem, (Block("k", 128), Pack("b", 64), Block("m", 252), *end), machine)
    far = predict(problem, (Pack("b", 64), *end), machine)
    assert near.bytes[1] + near.bytes[2] < far.bytes[1] + far.bytes[2]


def test_rows_a_power_of_two_apart_do_not_stay_in_level_1() -> None:
    """b in place: 256 rows of 64 columns are 64 KiB, but rows 4096 bytes apart share two sets."""
    end = (Register(6, 64), Via("fma"))
    apart, near = (
        predict(Problem(m=60, n=n, k=64), end, cpu("avx512")).bytes[1:] for n in (1024, 1040)
    )
    assert sum(apart) > 2 * sum(near)


def test_workers_share_blocks_evenly_or_wait() -> None:
    """Rows alone are cut between register tiles, blocks of columns and rows are whole."""
    problem, machine = Problem(m=1024, n=512, k=512, threads=4), cpu("avx512")
    end = (Register(8, 32), Via("fma"))

    def took(*blocks: Block) -> float:
        return predict(problem, (Pack("b", 32, team=True), *blocks, *end), machine).core_s

    rows = [took(Block("m", step, team=True)) for step in (256, 384, 1024)]
    assert rows[0] == rows[1] == rows[2]

    def grid(columns: int, rows: int) -> float:
        return took(Block("n", columns, team=True), Block("m", rows, team=True))

    assert grid(256, 512) == rows[0]
    assert grid(256, 256) == rows[0]
    assert grid(256, 384) > 1.4 * rows[0]  # of six blocks two workers have two
    assert grid(512, 512) > 1.9 * rows[0]


def test_what_others_have_packed_is_read_from_their_caches() -> None:
    problem = Problem(m=1024, n=256, k=256, threads=4)
    end = (Block("m", 252, team=True), Register(6, 64), Via("fma"))
    own, common = (
        predict(problem, (Pack("b", 64, team=team), *end), cpu("avx512")).bytes[2]
        for team in (False, True)
    )
    assert common == own + 4 * 256 * 256


def test_a_factor_that_batches_share_stays_nearer() -> None:
    end = (Register(6, 64), Via("fma"))
    apart, shared = (
        predict(Problem(m=60, n=64, k=4096, batch=64, b_shared=shared), end, cpu("avx512")).bytes
        for shared in (False, True)
    )
    assert shared[3] < apart[3]  # of memory


def test_parts_of_the_sum_are_shared() -> None:
    problem, machine = Problem(m=4, n=64, k=65_536, threads=4), cpu("avx512")
    end = (Register(4, 64), Via("fma"))
    whole, split = (predict(problem, words, machine) for words in (end, (Split("k", 4), *end)))
    assert split.workers == 4
    assert split.seconds < whole.seconds / 2
    assert split.write_s > whole.write_s  # the parts are added


def test_words_without_a_tile_are_refused() -> None:
    with pytest.raises(ValueError, match="schedule: 0 words register; expected one"):
        predict(Problem(m=8, n=8, k=8), (Via("fma"),), cpu("avx512"))
    with pytest.raises(ValueError, match="avx2 has no instruction amx_bf16"):
        predict(Problem(m=8, n=8, k=8), (Register(4, 8), Via("amx_bf16")), cpu("avx2"))


def test_schedules_that_run_compute_the_product() -> None:
    problem = Problem(m=37, n=45, k=150)
    levels = program_of(problem, RUNNABLE, 1)
    target = levels.options.target
    assert isinstance(target, CpuTarget)
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((37, 150), (150, 45)))
    found = schedules_of(problem, target, levels)
    runs = [c for c in found.candidates if found.unapplied(c.words) is None]
    assert {True, False} == {any(isinstance(w, Pack) for w in c.words) for c in runs}
    tried = {tile_of(c.words): c for c in runs}  # one of each tile
    for c in tried.values():
        result: Any = with_words(levels, c.words)(a, b)
        np.testing.assert_allclose(result, a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", ["avx2", "avx512"])
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("shape", [(256, 256, 256), (1000, 1000, 1000), (192, 2048, 2048)])
def test_the_choice_is_the_best_of_a_search_over_all_blocks(
    shape: tuple[int, int, int], threads: int, target: str
) -> None:
    """What is not offered is not predicted to be more than a twentieth faster."""
    machine = cpu(target)
    problem = Problem(m=shape[0], n=shape[1], k=shape[2], threads=threads)
    row, team = row_named("fma", machine), threads > 1
    found: list[float] = []
    for rows, vectors in ((4, 1), (8, 2), (12, 2), (6, 2), (4, 3), (6, 4), (5, 4), (8, 3), (14, 2)):
        if not fits_registers(row, rows, vectors, machine):
            continue
        tile = Register(rows, vectors * row.shape[1])
        for n, k, m in product((512, 4096), (64, 128, 192, 256, 384, 512, 2048), (2, 6, 12, 30)):
            outer = (Block("n", n), Block("k", k), Pack("b", tile.n, team=team))
            inner = (Block("m", m * rows, team=team), tile, Via("fma"))
            found.append(predict(problem, (*outer, *inner), machine).seconds)
    assert len(found) > 100
    assert choose_schedule(problem, machine)[0].seconds <= 1.05 * min(found)


# sums between blocks of the summed axis


NARROW = Problem(
    m=1024, n=1024, k=1024, dtypes=("bf16", "bf16", "f32"), result="bf16", apart=True
)  # fmt: skip
END = (Pack("b", 64, dtype="f32"), Register(4, 64), Via("fma"))


def test_results_that_are_narrower_than_sums_are_written_so() -> None:
    wide = replace(NARROW, result="", apart=False)
    narrow, whole = (predict(x, END, cpu("avx512")).work.write for x in (NARROW, wide))
    assert sum(narrow) == 2 * 1024 * 1024
    assert sum(whole) == 4 * 1024 * 1024


def test_sums_apart_are_written_once_more_than_those_in_the_result() -> None:
    """Of two blocks: sums of the first one beyond level 2, and results."""
    words = (Block("k", 512), *END)
    apart = predict(NARROW, words, cpu("avx512")).work.write
    there = predict(replace(NARROW, result="", apart=False), words, cpu("avx512")).work.write
    assert sum(apart) == (4 + 2) * 1024 * 1024
    assert sum(there) == 2 * 4 * 1024 * 1024


def test_sums_apart_of_a_narrow_block_stay_near() -> None:
    """The next block's are in the same memory: 64 columns of them fit level 2."""
    words = (Block("n", 64), Block("k", 512), *END)
    near, far = (predict(NARROW, x, cpu("avx512")) for x in (words, (Block("k", 512), *END)))
    assert sum(near.work.write[2:]) == 2 * 1024 * 1024  # results alone
    assert near.bytes[2] + near.bytes[3] < far.bytes[2] + far.bytes[3]


@pytest.mark.parametrize("name", ["avx512", "amx"])
def test_tiles_whose_sums_wait_take_longer_to_multiply(name: str) -> None:
    words = {"avx512": (Register(6, 64), Via("fma")), "amx": (Register(32, 32), Via("amx_bf16"))}
    packs = {"avx512": Pack("b", 64, dtype="f32"), "amx": Pack("b", 32, 2, 32)}
    took = [
        predict(NARROW, (*blocks, packs[name], *words[name]), cpu(name)).core_s
        for blocks in ((), (Block("k", 512),), (Block("k", 256),))
    ]
    assert took[0] < took[1] < took[2]


# the command


def test_the_command_explains_every_candidate(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["tile", "96", "200", "128", "--target", "avx512", "--first", "3"]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert said.startswith("A[96, 128] · B[128, 200], f32, on avx512, 1 thread\n")
    assert "what the compiler takes now" in said
    assert "slower:" in said
    assert "not batched: there is one batch" in said
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [c["predicted"]["seconds"] for c in found["candidates"]] == sorted(
        c["predicted"]["seconds"] for c in found["candidates"]
    )
    assert sum(c["current"] for c in found["candidates"]) == 1


def test_the_command_times_what_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlc.timing.MEASURING_S", 0.001)
    assert main(["tile", "24", "32", "16", "--measure", "--first", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["candidates"]
    assert all(c["measured_s"] > 0 for c in found if c["runs"])
    assert any(c["runs"] for c in found)


def test_the_bar_is_for_terminals(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    progress("timing", 0.5)
    assert not capsys.readouterr().err
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    progress("timing", 0.5)
    progress("", 0.0)
    assert f"[{'#' * 20}{'.' * 20}]" in capsys.readouterr().err


def test_the_command_refuses_what_is_no_product(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in (
        (("0", "4", "4"), "m = 0; expected 1 or more"),
        (("4", "4", "4", "--dtype", "f31"), "dtype 'f31' is not one of"),
        (("4", "4", "4", "--dtype", "bool"), "no instruction that multiplies it"),
        (("4", "4", "4", "--target", "avx3"), "no target is called 'avx3'; expected one of host,"),
        (("4", "4", "3000000000"), "k = 3000000000; expected at most 2147483647"),
        (("4", "4", "4", "--threads", "99999"), "threads = 99999; expected at most 4096"),
        (("2000000000", "2000000000", "1", "--measure"), "this machine has"),
    ):
        assert main(["tile", *arguments]) == 2
        assert said in capsys.readouterr().err


def test_why_a_schedule_is_slower_names_what_it_does_more() -> None:
    problem, machine = Problem(m=1024, n=1024, k=1024), cpu("avx512")

    def candidate(*words: Word) -> Candidate:
        return Candidate("blocked", words, predict(problem, words, machine))

    end = (Register(6, 64), Via("fma"))
    first = candidate(Block("k", 512), Pack("b", 64), *end)
    outer = (Block("n", 128), Block("k", 512))  # a is packed for each block of columns
    packed = candidate(*outer, Pack("b", 64), Block("m", 252), Pack("a", 6), *end)
    narrow = candidate(Block("k", 512), Pack("b", 16), Register(6, 16), Via("fma"))
    assert "slower: copies" in why_not(first, packed, PARTS)
    assert "slower: arithmetic and loads" in why_not(first, narrow, PARTS)
    assert why_not(first, first, PARTS) == "as fast as the first"
