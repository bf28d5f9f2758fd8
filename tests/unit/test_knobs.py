"""mlc/knobs.py: what each variable means, what a bad one says, and that scopes restore."""

import threading
from pathlib import Path

import pytest

from mlc import knobs
from mlc.knobs import KnobError, from_environment


def test_defaults() -> None:
    found = from_environment({"HOME": "/home/ada"})
    assert found == knobs.Knobs(
        dump=None,
        verify=False,
        cache_dir=Path("/home/ada/.cache/mlc"),
        cache_bytes=2**30,
        threads=None,
        target=None,
        fusion="exact",
        debug=0,
    )


def test_every_variable_is_read() -> None:
    found = from_environment(
        {
            "MLC_DUMP": "out",
            "MLC_VERIFY": "1",
            "MLC_CACHE_DIR": "/c",
            "MLC_CACHE_BYTES": "512M",
            "MLC_THREADS": "3",
            "MLC_TARGET": "avx2",
            "MLC_FUSION": "greedy",
            "MLC_DEBUG": "2",
        }
    )
    assert found == knobs.Knobs(
        dump=Path("out"),
        verify=True,
        cache_dir=Path("/c"),
        cache_bytes=512 * 2**20,
        threads=3,
        target="avx2",
        fusion="greedy",
        debug=2,
    )


def test_at_most_eight() -> None:
    assert len(knobs.VARIABLES) == len(set(knobs.VARIABLES)) <= 8
    assert all(name.startswith("MLC_") and name in str(knobs.__doc__) for name in knobs.VARIABLES)


@pytest.mark.parametrize(
    ("xdg", "expected"),
    [("/x", "/x/mlc"), ("relative", "/h/.cache/mlc"), ("", "/h/.cache/mlc")],
)
def test_default_cache_dir(xdg: str, expected: str) -> None:
    assert from_environment({"HOME": "/h", "XDG_CACHE_HOME": xdg}).cache_dir == Path(expected)


def test_empty_is_unset() -> None:
    assert from_environment(dict.fromkeys(knobs.VARIABLES, "")) == from_environment({})


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", 0), ("4096", 4096), ("2k", 2048), ("1.5GiB", 3 * 2**29), ("1MB", 2**20)],
)
def test_byte_counts(text: str, expected: int) -> None:
    assert from_environment({"MLC_CACHE_BYTES": text}).cache_bytes == expected


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "MLC_THREADS",
            "many",
            "MLC_THREADS=many: expected an integer from 1 to 4096; "
            "unset MLC_THREADS to use every allowed core",
        ),
        (
            "MLC_THREADS",
            "0",
            "MLC_THREADS=0: expected an integer from 1 to 4096; "
            "unset MLC_THREADS to use every allowed core",
        ),
        (
            "MLC_VERIFY",
            "maybe",
            "MLC_VERIFY=maybe: expected 0 or 1; unset MLC_VERIFY to verify nothing in the JIT path",
        ),
        (
            "MLC_CACHE_BYTES",
            "big",
            "MLC_CACHE_BYTES=big: expected bytes such as 500000000, 512M or 0; "
            "unset MLC_CACHE_BYTES to keep at most 1G",
        ),
        (
            "MLC_DEBUG",
            "9",
            "MLC_DEBUG=9: expected 0, 1, 2 or 3; unset MLC_DEBUG to print nothing",
        ),
    ],
)
def test_bad_values_say_what_to_do(name: str, text: str, message: str) -> None:
    with pytest.raises(KnobError) as caught:
        from_environment({name: text})
    assert str(caught.value) == message


@pytest.mark.parametrize("text", ["-1", "infG", "nanM", "B", "1X"])
def test_bad_byte_counts(text: str) -> None:
    with pytest.raises(KnobError, match="MLC_CACHE_BYTES"):
        from_environment({"MLC_CACHE_BYTES": text})


def test_scope_overrides_and_restores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLC_DEBUG", "1")
    monkeypatch.delenv("MLC_THREADS", raising=False)
    before = knobs.current()
    with knobs.scope(threads=2) as outer:
        assert (outer.threads, outer.debug) == (2, 1)
        with knobs.scope(debug=3):
            assert (knobs.current().threads, knobs.current().debug) == (2, 3)
        assert knobs.current() == outer
    assert knobs.current() == before


def test_scope_restores_after_an_error() -> None:
    before = knobs.current()
    with pytest.raises(RuntimeError), knobs.scope(verify=not before.verify):
        raise RuntimeError
    assert knobs.current() == before


def test_scope_can_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLC_THREADS", "4")
    with knobs.scope(threads=None):
        assert knobs.current().threads is None
    assert knobs.current().threads == 4


def test_scopes_stay_in_their_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLC_DEBUG", raising=False)
    seen: list[int] = []
    with knobs.scope(debug=3):
        thread = threading.Thread(target=lambda: seen.append(knobs.current().debug))
        thread.start()
        thread.join()
    assert seen == [0]
