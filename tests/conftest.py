"""What every test runs under: two processes, a cache of its own, reproducible examples."""

import os
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from tests.plans import TARGETS

# derandomize: the same examples in every run; deadline: a first call compiles
settings.register_profile("mlc", deadline=None, derandomize=True, database=None, print_blob=True)
settings.load_profile("mlc")

# a run in the background of a shell ignores Ctrl-C, and so would every process it tests
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden` accepts the messages as they are now; `--programs=N` runs so many."""
    parser.addoption("--update-golden", action="store_true", help="write tests/golden anew")
    parser.addoption("--programs", type=int, help="random programs to compare")


@pytest.fixture(params=TARGETS)
def cpu(request: pytest.FixtureRequest) -> str:
    """Each processor for which a plan must be what a test says, whatever runs the test."""
    name: str = request.param
    return name


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """The whole suite runs in two processes; single files run in one, where a debugger works."""
    if hasattr(config, "workerinput"):  # this is one of the two: it must start none of its own
        return
    whole_suite = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if not whole_suite or not config.pluginmanager.hasplugin("xdist"):
        return
    if config.option.numprocesses is None and not config.option.usepdb:
        config.option.numprocesses = min(2, os.cpu_count() or 1)
        config.option.dist = "worksteal"  # a test takes from a millisecond to half a minute


def pytest_configure(config: pytest.Config) -> None:
    """
    A cache folder for this run, and in it one for each process: nothing compiled earlier or by
    another process can stand in for what is tested.
    """
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        os.environ["MLC_CACHE_DIR"] = str(Path(os.environ["MLC_CACHE_DIR"], worker))
        return
    folder = tempfile.mkdtemp(prefix="mlc-test-cache-")
    os.environ["MLC_CACHE_DIR"] = folder  # worker processes inherit it
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


_drawn_from: list[tuple[Any, Any]] = []  # each generator of a test module, its state at first


def pytest_collection_finish() -> None:
    """Find the random generators that the tests of a module share."""
    modules = [m for name, m in sys.modules.items() if name.startswith("tests.")]
    for value in {id(v): v for m in modules for v in vars(m).values()}.values():
        if isinstance(value, np.random.Generator):
            _drawn_from.append((value, value.bit_generator.state))
        elif isinstance(value, random.Random):
            _drawn_from.append((value, value.getstate()))


def pytest_runtest_setup() -> None:
    """Rewind them: what a test draws does not depend on which tests ran before it, or where."""
    for generator, state in _drawn_from:
        if isinstance(generator, random.Random):
            generator.setstate(state)
        else:
            generator.bit_generator.state = state


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`gpu` tests are skipped, by that name, where there is no NVIDIA device."""
    if Path("/dev/nvidia0").exists():
        return
    no_gpu = pytest.mark.skip(reason="needs an NVIDIA GPU: /dev/nvidia0 does not exist")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(no_gpu)
