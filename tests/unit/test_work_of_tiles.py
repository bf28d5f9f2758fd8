"""The work of tile programs, read off their texts: counted by hand, and as the words say."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from math import log
from typing import Any

import pytest

from mlc.dialects.plan import KernelOp as PlanKernelOp
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.known import CPUS
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.words import Block, Grain
from mlc.passes.cost.prediction import predicted_seconds
from mlc.passes.cost.walk import work_of
from mlc.passes.cost.work import ATTO, Work, level_of, moved, seconds
from mlc.passes.report.report import plan_of
from mlc.passes.tile.products import WordsOf
from mlc.text import parse_text
from tests.plans import planned, spec

ROWS = {row.name: row for row in CPUS}
AVX512: CpuTarget = ROWS["avx512"]

TEXT = """
mlc_tile.kernel @k(%a: !mlc_tile.view<20x8xf32>, %b: !mlc_tile.view<8x64xf32>)
    -> (%c: !mlc_tile.view<20x64xf32>) {
  %p = mlc_tile.alloc worker : !mlc_tile.view<1x8x64xf32>
  mlc_tile.copy %b[k, 64*J + n] -> %p "k(Jn) -> Jkn" over (J 1, k 8)
  mlc_tile.for %m in 20 step 6 {
    %s = mlc_tile.dot "mk,kn->mn" %a[%m + m, k], %p[0, k, n] over (k 8) via fma clamp(m)
      : !mlc_tile.frag<6x64xf32>
    mlc_tile.if first(%m) {
      mlc_tile.barrier
    }
    mlc_tile.if last(%m) {
      mlc_tile.barrier
      mlc_tile.barrier
    }
    mlc_tile.store %s, %c[%m + m, n] as "mn"
  }
}
func.func @f(%a: tensor<20x8xf32> {mlc.name = "a"}, %b: tensor<8x64xf32> {mlc.name = "b"})
    -> tensor<20x64xf32> attributes {mlc.arena = {}} {
  %0 = mlc_tile.call @k(%a, %b) : (tensor<20x8xf32>, tensor<8x64xf32>) -> tensor<20x64xf32>
    {buffers = [#mlc.buffer<out 0>]}
  func.return %0 : tensor<20x64xf32>
}
"""


def product(a: Any, b: Any) -> Any:
    return a @ b


def program_of(module: Any) -> KernelOp:
    """The only tile program of a module."""
    (found,) = (op for op in module.body.block.ops if isinstance(op, KernelOp))
    return found


def test_a_text_is_counted_as_by_hand() -> None:
    work = work_of(program_of(parse_text(TEXT, "text")), {}, AVX512)
    tiles, copied = 4, 8 * 64 * 4
    assert work.operations == tiles * 2 * 6 * 64 * 8
    assert work.read == moved(copied + tiles * (6 * 8 + 8 * 64) * 4, 0)
    assert work.write == moved(copied + tiles * 6 * 64 * 4, 0)
    assert (work.starts, work.barriers) == (1, 3)


def test_what_a_loop_reads_again_is_near_and_the_rest_as_far_as_its_buffer() -> None:
    wide = TEXT.replace("20x", "20000x").replace("in 20 ", "in 20000 ")
    trips = -(-20000 // 6)
    assert level_of(20000 * 64 * 4, AVX512) == 2 > level_of(20000 * 8 * 4, AVX512) == 1
    work = work_of(program_of(parse_text(wide, "text")), {}, AVX512)
    assert work.read[1] == trips * 6 * 8 * 4
    assert work.read[0] == (1 + trips) * 8 * 64 * 4
    assert work.write[2] == trips * 6 * 64 * 4


def test_a_report_of_a_text_has_its_cost() -> None:
    (kernel,) = plan_of(parse_text(TEXT, "text"), AVX512, {}).kernels
    work = work_of(program_of(parse_text(TEXT, "text")), {}, AVX512)
    assert kernel.template == "k"
    assert kernel.ops == ("copy", "dot")
    assert kernel.flops == work.operations
    assert kernel.bytes == 4 * (20 * 8 + 8 * 64 + 20 * 64)
    assert kernel.predicted_s == seconds(work, AVX512) / ATTO > 0


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(384, 256, 256), (300, 500, 1000), (64, 512, 784), (32, 2048, 512)]
)
def test_texts_words_and_plans_agree(m: int, n: int, k: int, dtype: str) -> None:
    shapes = spec(m, k, dtype=dtype), spec(k, n, dtype=dtype)
    levels = planned(product, *shapes, target="avx512", threads=1)
    (kernel,) = (op for op in levels.plan().walk() if isinstance(op, PlanKernelOp))
    assert kernel.schedule is not None
    words = tuple(x for x in kernel.schedule.data.words if not isinstance(x, Grain))
    by_words = WordsOf(kernel, AVX512).predicted(words, {})
    by_text = work_of(program_of(levels.at("tiles")), {}, AVX512)
    (by_plan,) = predicted_seconds(levels.plan(), AVX512, {}).values()
    assert by_text.operations >= 2 * m * n * k
    if m % 6 == n % 64 == 0:  # no edges: nothing but the product, and sums that wait
        blocks = sum(isinstance(word, Block) and word.axis == "k" for word in words)
        assert by_text.operations == 2 * m * n * k + blocks * m * n
    for found in (seconds(by_text, AVX512) / ATTO, by_plan):
        assert abs(log(found / by_words.seconds)) < log(1.25)


def random_work(numbers: random.Random) -> Work:
    a, b, c, d, e = (numbers.randrange(10**12) for _ in range(5))
    return Work(a, moved(b, b % 4), moved(c, c % 4), d, e % 7, e % 11)


def test_work_is_a_monoid_of_whole_numbers() -> None:
    numbers = random.Random(1)
    a, b, c = (random_work(numbers) for _ in range(3))
    assert a + Work() == a == a.times(1)
    assert (a + b) + c == a + (b + c) == (c + b) + a
    assert (a + b).times(5) == a.times(5) + b.times(5) == sum([a + b] * 5, Work())
    assert a.times(0) == Work()


@pytest.mark.parametrize("target", CPUS, ids=lambda row: row.name)
def test_more_work_takes_longer_and_more_threads_do_not(target: CpuTarget) -> None:
    numbers = random.Random(2)
    for _ in range(20):
        a, b = random_work(numbers), random_work(numbers)
        both = seconds(a + b, target)
        assert isinstance(both, int)
        assert max(seconds(a, target), seconds(b, target)) <= both
        alone = replace(a, starts=0, barriers=0)
        times = [seconds(alone, target, threads) for threads in (1, 2, 4, 16)]
        assert all(more <= fewer for fewer, more in itertools.pairwise(times))
