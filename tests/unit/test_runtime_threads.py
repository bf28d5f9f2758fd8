"""Threads, fork, Ctrl-C and the result pool; what changes a whole process runs in its own."""

from __future__ import annotations

import ctypes
import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from mlc import knobs
from mlc.dialects.signature import ArgSpec, EntrySignature, ResultSpec
from mlc.runtime import threads
from mlc.runtime.support import clear_pool, support
from tests.unit.native_kernels import ADD, load

VECTOR = ArgSpec("array", "f32", ("B",))
ADD_SIGNATURE = EntrySignature((VECTOR, VECTOR), (ResultSpec("f32", ("B",)),), ("B",))

# out[thread] = number of threads, in a region of ctx.threads threads; sizes: N >= that
TEAM = """
declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare zeroext i1 @mlc_team_barrier(ptr, i64, i64)
declare i32 @omp_get_thread_num()
declare i32 @omp_get_num_threads()
define i32 @team(ptr %ctx, ptr %args, ptr %sizes, ptr %outs) {
  %out = load ptr, ptr %outs
  %threads.at = getelementptr i8, ptr %ctx, i64 16
  %threads = load i64, ptr %threads.at
  %count = trunc i64 %threads to i32
  %alone = icmp sle i32 %count, 1
  br i1 %alone, label %serial, label %parallel
serial:
  store i64 1, ptr %out
  ret i32 0
parallel:
  %frame = alloca { ptr, ptr }
  store ptr %ctx, ptr %frame
  %second = getelementptr i8, ptr %frame, i64 8
  store ptr %out, ptr %second
  call void @GOMP_parallel(ptr @body, ptr %frame, i32 %count, i32 0)
  ret i32 0
}
define internal void @body(ptr %frame) {
  %ctx = load ptr, ptr %frame
  %second = getelementptr i8, ptr %frame, i64 8
  %out = load ptr, ptr %second
  %id = call i32 @omp_get_thread_num()
  %team = call i32 @omp_get_num_threads()
  %number = zext i32 %id to i64
  %wide = zext i32 %team to i64
  %stop = call zeroext i1 @mlc_team_barrier(ptr %ctx, i64 %number, i64 %wide)
  %at = getelementptr i64, ptr %out, i32 %id
  store i64 %wide, ptr %at
  ret void
}
"""
TEAM_SIGNATURE = EntrySignature((ArgSpec("array", "i64", (8,), donated=True),),
                                (ResultSpec("i64", (8,), alias_of=0),))  # fmt: skip

# counts until cancelled
SPIN = """
define i32 @spin(ptr %ctx, ptr %args, ptr %sizes, ptr %outs) {
entry:
  %cancel.at = getelementptr i8, ptr %ctx, i64 24
  %cancel = load ptr, ptr %cancel.at
  %base.at = getelementptr i8, ptr %ctx, i64 32
  %base = load i64, ptr %base.at
  %x = load ptr, ptr %args
  %most = load i64, ptr %x
  %out = load ptr, ptr %outs
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %now = load volatile i64, ptr %cancel
  %cancelled = icmp ne i64 %now, %base
  br i1 %cancelled, label %stop, label %next
next:
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %most
  br i1 %more, label %loop, label %done
stop:
  ret i32 3
done:
  store i64 %most, ptr %out
  ret i32 0
}
"""
SPIN_SIGNATURE = EntrySignature((ArgSpec("int", "i64"),), (ResultSpec("i64"),))


Vector = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


def vector(value: object) -> Vector:
    """A result that must be an array."""
    assert isinstance(value, np.ndarray)
    return cast(Vector, value)


def team(thread_count: int | None) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """What each thread of one region saw."""
    out = np.zeros(8, np.int64)
    load(TEAM, "team", TEAM_SIGNATURE, thread_count=thread_count).builtin(out)
    return out


def in_a_new_process(body: str) -> str:
    """Run Python text that may use this module's names; its output."""
    text = "from tests.unit.test_runtime_threads import *\n" + textwrap.dedent(body)
    command = [sys.executable, "-W", "error", "-c", text]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_a_region_has_the_threads_asked_for() -> None:
    assert threads.find_runtime() is not None, "no OpenMP runtime on this machine"
    assert team(3).tolist() == [3, 3, 3, 0, 0, 0, 0, 0]
    assert team(1).tolist() == [1, 0, 0, 0, 0, 0, 0, 0]


def test_a_team_has_the_workers_that_are_awake_or_worth_waking() -> None:
    """Of so many threads, shares of work, and shares that repay waking."""
    assert in_a_new_process("""
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, *3 * (ctypes.c_int64,))
        size = kind(support().symbols["mlc_team_size"])
        awake, late = (
            ctypes.c_int64.from_address(support().symbols[name])
            for name in ("mlc_awake_ns", "mlc_late")
        )
        cases = [(4, 9, 9), (4, 3, 0), (4, 9, 2), (4, 9, 0), (4, 0, 0), (1, 9, 9)]
        awake.value = -1  # nobody ever is
        print([size(*x) for x in cases])
        awake.value = 10**15
        print([size(*x) for x in cases])
        size(*cases[0])
        other = threading.Thread(target=lambda: print([size(*x) for x in cases[:1]]))
        other.start(), other.join()
        print(size(*cases[2]), size(*cases[2]))  # the other thread's call was the last
        late.value = time.monotonic_ns()
        print([size(*x) for x in cases])
    """).split("\n") == [
        "[4, 1, 2, 1, 1, 1]", "[4, 3, 4, 4, 1, 1]", "[4]", "2 4", "[4, 1, 2, 1, 1, 1]",
    ]  # fmt: skip


def test_set_threads_reaches_loaded_functions() -> None:
    call = load(TEAM, "team", TEAM_SIGNATURE, thread_count=None).builtin
    try:
        for count in (2, 1, 4):
            threads.set_threads(count)
            assert threads.get_threads() == count
            out = np.zeros(8, np.int64)
            call(out)
            assert out.tolist() == [count] * count + [0] * (8 - count)
    finally:
        threads.set_threads(None)
    with knobs.scope(threads=5):
        assert threads.get_threads() == 5
    for bad in (0, -1, True, 1.5, "2", 10**6, 4097):
        with pytest.raises(ValueError, match="expected an integer from 1 to 4096"):
            threads.set_threads(cast(Any, bad))


def test_one_thread_starts_none() -> None:
    assert in_a_new_process("""
        def state():
            maps = open("/proc/self/maps").read()
            return len(os.listdir("/proc/self/task")), "gomp" in maps, "iomp" in maps
        before = state()
        assert team(1)[0] == 1
        assert state() == before, (state(), before)
        team(2)
        print(state()[0] - before[0])
    """) == "1"  # fmt: skip


def test_a_forked_child_runs_serially() -> None:
    assert in_a_new_process("""
        assert team(2).tolist()[:3] == [2, 2, 0]
        child = os.fork()
        if child == 0:
            seen = team(2).tolist()[:3]
            os._exit(0 if seen == [1, 0, 0] else 1)
        print(os.waitpid(child, 0)[1], team(2).tolist()[:3])
    """) == "0 [2, 2, 0]"  # fmt: skip


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")
def test_a_worker_leaves_the_core_of_another_and_keeps_its_mask() -> None:
    assert in_a_new_process("""
        threads.bind_for(2)
        support().cpus.value = 8
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
        settle = kind(support().symbols["mlc_settle"])
        everything = os.sched_getaffinity(0)
        first = min(everything)
        def began(allowed, others):
            os.sched_setaffinity(0, {first})
            os.sched_setaffinity(0, allowed)
            places = (ctypes.c_int32 * 64)(*others, *[-1] * (64 - len(others)))
            settle(places, len(others))
            assert os.sched_getaffinity(0) == allowed
            return places[len(others)]
        print(began(everything, [first]) != first, began(everything, [-1]) == first,
              began({first}, [first]) == first, began(everything, [first, -1]) != first)
    """) == "True True True True"  # fmt: skip


def test_no_runtime_is_one_warning_and_one_thread() -> None:
    assert in_a_new_process("""
        import warnings
        threads.find_runtime = lambda: None
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            results = [team(2).tolist()[:2] for _ in range(3)]
        print(results, len(seen), "intel-openmp" in str(seen[0].message))
    """) == "[[1, 0], [1, 0], [1, 0]] 1 True"  # fmt: skip


def test_counts_respect_affinity_and_quota() -> None:
    assert 1 <= threads.default_count() <= len(os.sched_getaffinity(0))
    quota = threads.cgroup_cpus()
    assert quota is None or quota > 0
    first = min(os.sched_getaffinity(0))
    program = (
        f"import os; os.sched_setaffinity(0, {{{first}}}); import mlc.runtime.threads as t;"
        " print(t.default_count(), t.allowed_cpus())"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "1 1\n"


@pytest.mark.parametrize(
    ("groups", "files", "cpus"),
    [
        ("0::/a/b", {"a/b/cpu.max": "150000 100000"}, 1.5),
        ("0::/a/b", {"a/b/cpu.max": "max 100000", "a/cpu.max": "300000 100000"}, 3.0),
        ("0::/a/b", {"a/b/cpu.max": "400000 100000", "a/cpu.max": "200000 100000"}, 2.0),
        ("0::/", {"cpu.max": "50000 100000"}, 0.5),  # as a container sees its own
        ("0::/a", {"a/cpu.max": "max 100000"}, None),
        ("0::/a", {}, None),
        ("4:cpu,cpuacct:/d", {"cpu/d/cpu.cfs_quota_us": "250000",
                              "cpu/d/cpu.cfs_period_us": "100000"}, 2.5),
        ("4:cpu,cpuacct:/gone", {"cpu/cpu.cfs_quota_us": "100000",
                                 "cpu/cpu.cfs_period_us": "100000"}, 1.0),
        ("4:cpu:/d", {"cpu/d/cpu.cfs_quota_us": "-1", "cpu/d/cpu.cfs_period_us": "100000"}, None),
        ("3:memory:/d", {"cpu/d/cpu.cfs_quota_us": "100000",
                         "cpu/d/cpu.cfs_period_us": "100000"}, None),
    ],
)  # fmt: skip
def test_the_tightest_quota_of_all_groups_holds(
    groups: str,
    files: dict[str, str],
    cpus: float | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = tmp_path / "own"
    own.write_text(f"{groups}\n")
    for name, text in files.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert threads.cgroup_cpus(tmp_path / "root", own) == cpus
    monkeypatch.setattr(threads, "cgroup_cpus", lambda: cpus)

    def eight(_: int) -> range:
        return range(8)

    monkeypatch.setattr(os, "sched_getaffinity", eight)
    assert threads.allowed_cpus() == (8 if cpus is None else max(1, math.ceil(cpus)))


@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals need the main thread"
)
def test_ctrl_c_stops_a_long_kernel() -> None:
    call = load(SPIN, "spin", SPIN_SIGNATURE, work_ns=10**9).builtin
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        call(2**62)
    assert time.perf_counter() - start < 10
    timer.join()
    assert call(1000) == 1000


def test_other_threads_are_not_cancelled() -> None:
    call = load(SPIN, "spin", SPIN_SIGNATURE, work_ns=10**9).builtin
    results: list[object] = []
    worker = threading.Thread(target=lambda: results.append(call(300_000_000)))
    worker.start()
    support().interrupts.value += 1  # what the handler does
    worker.join()
    assert results == [300_000_000]


def test_a_users_handler_is_left_alone() -> None:
    assert in_a_new_process("""
        hits = []
        signal.signal(signal.SIGINT, lambda *_: hits.append(1))
        load(ADD, "add", ADD_SIGNATURE)
        before = support().interrupts.value
        os.kill(os.getpid(), signal.SIGINT)
        print(len(hits), support().interrupts.value - before)
    """) == "1 0"  # fmt: skip


# ---- results from the pool

LARGE = (1 << 20) // 4 + 1000  # elements: just above the size from which the pool is used


def test_large_results_reuse_released_memory() -> None:
    call = load(ADD, "add", ADD_SIGNATURE).builtin
    clear_pool()
    x = np.ones(LARGE, np.float32)
    first = vector(call(x, x))
    assert first.flags.owndata
    assert first.ctypes.data % 64 == 0
    address = first.ctypes.data
    del first
    assert support().pool_bytes.value >= x.nbytes
    second = vector(call(x, x))
    assert second.ctypes.data == address
    assert support().pool_bytes.value == 0
    view = second[10:20]
    del second
    assert support().pool_bytes.value == 0  # the view holds it
    assert view[0] == 2
    del view
    assert clear_pool() >= x.nbytes
    assert support().pool_bytes.value == 0


def test_the_pool_is_bounded() -> None:
    call = load(ADD, "add", ADD_SIGNATURE).builtin
    clear_pool()
    limit = support().pool_limit.value
    support().pool_limit.value = 8 << 20
    try:
        results = [call(x, x) for x in [np.ones(LARGE, np.float32)] * 10]
        del results
        assert 0 < support().pool_bytes.value <= 8 << 20
        support().pool_limit.value = 0
        call(np.ones(LARGE, np.float32), np.ones(LARGE, np.float32))
        clear_pool()
        assert support().pool_bytes.value == 0
    finally:
        support().pool_limit.value = limit
        clear_pool()


def test_pool_arrays_resize_and_outlive_the_function() -> None:
    loaded = load(ADD, "add", ADD_SIGNATURE)
    x = np.arange(LARGE, dtype=np.float32)
    result = vector(loaded.builtin(x, x))
    del loaded
    result.resize(10 * LARGE, refcheck=False)
    np.testing.assert_array_equal(result[:LARGE], x + x)
    assert not result[LARGE:].any()
    result.resize(5, refcheck=False)
    assert result.tolist() == [0, 2, 4, 6, 8]


def test_arrays_freed_after_everything_else() -> None:
    assert in_a_new_process("""
        keep = load(ADD, "add", ADD_SIGNATURE)
        x = np.ones(LARGE, np.float32)
        import builtins
        builtins.kept_result = keep.builtin(x, x)
        print("done")
    """) == "done"  # fmt: skip


def test_numpy_s_own_handler_is_back_after_a_call() -> None:
    from numpy._core.multiarray import get_handler_name

    call = load(ADD, "add", ADD_SIGNATURE).builtin
    x = np.ones(LARGE, np.float32)
    assert get_handler_name(vector(call(x, x))) == "mlc_result_pool"
    assert get_handler_name(np.empty(LARGE)) == "default_allocator"


def test_contexts_are_native_memory() -> None:
    loaded = support()
    own = ctypes.c_size_t(loaded.context_new())
    assert own.value % 64 == 0
    loaded.contexts_free(ctypes.addressof(own))
    assert own.value == 0
