"""
The barrier of a team: all interleavings of a model of it, and the code itself, with workers that
stall at random, twice as many as there are cores, of which one cancels the call or meets an error.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

from mlc.dialects import abi
from tests.emitted import CallContext, kernel, openmp_symbols

# The model: runtime/barrier.ll, one access of shared memory at a time


class Worker(NamedTuple):
    """Where a worker stands."""

    at: str = "read"
    round: int = 0
    seen: tuple[int, bool, bool] = (0, False, False)
    """The word as it was read last: generation, whether somebody may sleep, whether to stop."""
    before: int = 0
    """The generation in which it arrived."""
    stop: bool = False
    answers: tuple[bool, ...] = ()


class State(NamedTuple):
    """All that workers share, and where each stands."""

    workers: tuple[Worker, ...]
    groups: tuple[int, ...]
    root: int = 0
    word: tuple[int, bool, bool] = (0, False, False)
    cancelled: bool = False


@dataclass(frozen=True)
class Model:
    """A team of `count` workers in groups of `width` that meet `rounds` times."""

    count: int
    rounds: int
    width: int
    fault: str = ""
    """What is done wrong: the checker must find it."""

    def start(self) -> State:
        """Nobody has begun."""
        return State((Worker(),) * self.count, (0,) * -(-self.count // self.width))

    def next_states(self, s: State) -> Iterator[State]:
        """Every step that one worker, or the user, may take."""
        if not s.cancelled:
            yield s._replace(cancelled=True)
        for k, worker in enumerate(s.workers):
            if worker.at not in ("left", "asleep"):
                yield from self.step(s, k, worker)

    def step(self, s: State, k: int, w: Worker) -> Iterator[State]:
        """The next steps of one worker."""

        def to(at: str, state: State = s, **changes: object) -> State:
            workers = list(state.workers)
            workers[k] = w._replace(at=at, **changes)
            return state._replace(workers=tuple(workers))

        group, generation = k // self.width, s.word[0]
        members = min(self.width, self.count - group * self.width)
        match w.at:
            case "read":
                yield to("arrive", before=generation)
            case "arrive":
                last = s.groups[group] == members - 1
                arrived = s._replace(groups=changed(s.groups, group, s.groups[group] + 1))
                yield to("reset group" if last else "look", arrived)
            case "reset group":
                yield to("rise", s._replace(groups=changed(s.groups, group, 0)))
            case "rise":
                last = s.root == len(s.groups) - 1
                late = self.fault == "reset after the release"
                reset = "ask" if late else "reset root"
                yield to(reset if last else "look", s._replace(root=s.root + 1))
            case "reset root":
                at = "done" if self.fault == "reset after the release" else "ask"
                yield to(at, s._replace(root=0))
            case "ask":
                yield to("release", stop=s.cancelled)
            case "release":
                woken = s.word[1] and self.fault != "no wake"
                at = "wake" if woken else "reset root" if "reset" in self.fault else "done"
                yield to(at, s._replace(word=(w.before + 1, False, w.stop)))
            case "wake":
                awake = [x._replace(at="look") if x.at == "asleep" else x for x in s.workers]
                at = "reset root" if "reset" in self.fault else "done"
                yield to(at, s._replace(workers=tuple(awake)))
            case _:
                yield from self.waiting(s, w, to)

    def waiting(self, s: State, w: Worker, to: Callable[..., State]) -> Iterator[State]:
        """The steps of a worker that waits."""
        match w.at:
            case "look":
                if s.word[0] == w.before:
                    yield to("tell", seen=s.word)  # or it looks again, which changes nothing
                elif self.fault == "flag polled apart":
                    yield to("done", stop=s.cancelled)
                else:
                    yield to("done", stop=s.word[2])
            case "tell":
                if w.seen[1] or self.fault == "no sleepers told":
                    yield to("sleep")
                elif s.word == w.seen:
                    told = (w.seen[0], True, w.seen[2])
                    yield to("sleep", s._replace(word=told), seen=told)
                else:
                    yield to("look")
            case "sleep":
                yield to("asleep" if s.word == w.seen else "look")
            case _:
                assert w.at == "done"
                over = w.stop or w.round + 1 == self.rounds
                yield to(
                    "left" if over else "read", round=w.round + 1, answers=(*w.answers, w.stop)
                )


def changed(values: Sequence[int], k: int, value: int) -> tuple[int, ...]:
    """The values with another k-th."""
    return (*values[:k], value, *values[k + 1 :])


def explore(model: Model) -> tuple[int, str]:
    """(states, what is wrong in one of them, or ""), over all interleavings."""
    start = model.start()
    known, pending = {start}, [start]
    while pending:
        state = pending.pop()
        following = list(model.next_states(state))
        running = [w for w in state.workers if w.at != "left"]
        if running and not [s for s in following if s.workers != state.workers]:
            return len(known), "nobody can go on: " + ", ".join(w.at for w in state.workers)
        first = max(state.workers, key=lambda w: w.round)
        for w in state.workers:
            if w.answers != first.answers[: w.round]:
                return len(known), "two workers have different answers"
            if first.round > w.round + (w.at not in ("read", "arrive")):
                return len(known), "a worker goes on before all have arrived"
        for found in following:
            if found not in known:
                known.add(found)
                pending.append(found)
    return len(known), ""


@pytest.mark.parametrize(("count", "width"), [(3, 4), (3, 2), (2, 1)])
def test_every_interleaving_ends_with_one_answer(count: int, width: int) -> None:
    states, wrong = explore(Model(count, rounds=2, width=width))
    assert not wrong
    assert states > 1000


@pytest.mark.parametrize(
    ("fault", "symptom"),
    [
        ("flag polled apart", "different answers"),
        ("no wake", "nobody can go on"),
        ("no sleepers told", "nobody can go on"),
        ("reset after the release", "nobody can go on"),
    ],
)
def test_the_model_finds_what_is_wrong(fault: str, symptom: str) -> None:
    assert symptom in explore(Model(3, rounds=2, width=2, fault=fault))[1]


# The code

CORES = min(len(os.sched_getaffinity(0)), 32)
ROUNDS = 6
STRESS = """
func.func @k(%ctx: !mlc_par.ctx, %rounds: index, %seed: index, %most: index, %when: index,
             %who: index, %how: index, %part: memref<?xindex>, %counter: memref<?xi64>,
             %left: memref<?xindex>, %wrong: memref<?xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c33 = arith.constant 33 : index
  %c65535 = arith.constant 65535 : index
  %factor = arith.constant 6364136223846793005 : index
  %one = arith.constant 1 : i64
  %threads = mlc_par.threads %ctx : index
  mlc_par.region (%ctx, %threads) {
  ^bb0(%tid: index, %nt: index):
    %mine = arith.addi %seed, %tid : index
    %first = arith.muli %mine, %factor : index
    %end = scf.for %r = %c0 to %rounds step %c1 iter_args(%random = %first) -> (index) {
      %mixed = arith.addi %random, %mine : index
      %next = arith.muli %mixed, %factor : index
      %high = arith.shrui %next, %c33 : index
      %low = arith.andi %high, %c65535 : index
      %stall = arith.remui %low, %most : index
      %waited = scf.for %i = %c0 to %stall step %c1 iter_args(%x = %next) -> (index) {
        %y = arith.xori %x, %i : index
        %z = arith.muli %y, %factor : index
        scf.yield %z : index
      }
      %at = arith.addi %r, %c1 : index
      memref.store %at, %part[%tid] : memref<?xindex>
      %now = arith.cmpi eq, %r, %when : index
      %me = arith.cmpi eq, %tid, %who : index
      %acts = arith.andi %now, %me : i1
      scf.if %acts {
        %fails = arith.cmpi eq, %how, %c0 : index
        scf.if %fails {
          mlc_par.fail %ctx site 7 value %r extent %tid
        } else {
          memref.store %one, %counter[%c0] : memref<?xi64>
        }
      }
      %stop = mlc_par.barrier %ctx, %tid of %nt : i1
      memref.store %at, %left[%tid] : memref<?xindex>
      scf.for %k = %c0 to %nt step %c1 {
        %other = memref.load %part[%k] : memref<?xindex>
        %early = arith.cmpi slt, %other, %at : index
        scf.if %early {
          memref.store %c1, %wrong[%tid] : memref<?xindex>
        }
      }
      mlc_par.leave %stop
      scf.yield %waited : index
    }
    mlc_par.yield
  }
  return
}"""


def stress(workers: int, regions: int, most: int) -> None:
    """So many regions, of which the workers stop four of five, by turns, in some round."""
    if not openmp_symbols():
        pytest.skip("no OpenMP runtime on this machine")
    call, numbers = kernel(STRESS), random.Random(workers)
    context = CallContext(threads=workers)
    for region in range(regions):
        part, left, wrong = (np.zeros(workers, np.int64) for _ in range(3))
        when, who, how = region % (ROUNDS + 1), numbers.randrange(workers), numbers.randrange(2)
        most_now = 1 if numbers.random() < 0.5 else most
        seed = numbers.randrange(2**31)
        arguments = (ROUNDS, seed, most_now, when, who, how, part, context.counter, left, wrong)
        call(context, *arguments)
        assert left.tolist() == [min(when + 1, ROUNDS)] * workers
        assert not wrong.any()
        failed = when < ROUNDS and how == 0
        assert context.get(abi.CTX_ERROR_SITE) == (7 if failed else 0)
        context.set(abi.CTX_ERROR_SITE, 0)
        context.counter[0] = 0


@pytest.mark.parametrize("spread", [1, 2])
def test_regions_with_stalls_errors_and_cancelled_calls(spread: int) -> None:
    stress(max(2, spread * CORES), 200, 2000)


@pytest.mark.slow
def test_a_million_regions() -> None:
    stress(2 * CORES, 1_000_000, 300)


def test_teams_of_many_workers() -> None:
    for workers in (3, 5, 17, 40):
        stress(workers, 10, 100)
