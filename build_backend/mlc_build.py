"""
PEP 517 build backend: setuptools, after a look at the five links in `mlc/`.

The code of `mlc.dialects`, `mlc.passes`, … stands in the top-level folders of the same names and
is reached through the committed links `mlc/NAME -> ../NAME`. Some ways of unpacking drop those
links or leave small text files in their place (zip downloads, git on Windows by default); the
package would then install and fail at the first import. So every build puts them right first, or
stops with one sentence.
"""

import compileall
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from setuptools import build_meta

FOLDERS = ("dialects", "passes", "lowering", "runtime", "frontend")
ROOT = Path(__file__).resolve().parent.parent

get_requires_for_build_editable = build_meta.get_requires_for_build_editable
get_requires_for_build_sdist = build_meta.get_requires_for_build_sdist
get_requires_for_build_wheel = build_meta.get_requires_for_build_wheel


def mend_links(root: Path) -> list[str]:
    """
    Make `mlc/NAME` reach the folder NAME for each of the five; the names that were mended.

    A source distribution holds real folders in `mlc/` and no top-level ones; it is left as it is.
    """
    return [name for name in FOLDERS if _mend_link(root, name)]


def _mend_link(root: Path, name: str) -> bool:
    """Whether the link had to be made. Ends the build with one sentence where it cannot be."""
    link, target = root / "mlc" / name, root / name
    if (link / "__init__.py").is_file() and (not target.exists() or link.samefile(target)):
        return False
    if not (target / "__init__.py").is_file():
        sys.exit(f"mlc: the folder {target} is missing or incomplete; unpack the whole source tree")
    if link.is_symlink() or _is_link_as_text(link, name):
        link.unlink()
    elif link.exists():
        sys.exit(f"mlc: {link} must be a link to ../{name} but is something else; remove it")
    try:
        link.symlink_to(Path("..") / name, target_is_directory=True)
    except OSError as error:
        sys.exit(
            f"mlc: cannot create the link {link} -> ../{name} ({error.strerror}); make it by hand,"
            " or unpack with a tool that keeps links (git clone, tar)"
        )
    return True


def compile_sources(root: Path) -> None:
    """
    Byte code beside the sources, which pip makes of what it copies and nobody of what stays in its
    place: without it each process compiles 600 files where Python may not write them.
    """
    for folder in ("mlc", *FOLDERS):
        if (root / folder).is_dir():
            compileall.compile_dir(root / folder, quiet=2)


def _is_link_as_text(path: Path, name: str) -> bool:
    """Whether `path` is a link that was unpacked as a small text file holding its target."""
    return path.is_file() and path.read_bytes().strip() == f"../{name}".encode()


def _prepared(hook: Callable[..., str]) -> Callable[..., str]:
    """`hook` on a tree with whole links and without what an earlier build left behind."""

    def prepared(*args: Any, **kwargs: Any) -> str:
        mended = mend_links(ROOT)
        if mended:
            print(f"mlc: made the links mlc/{{{','.join(mended)}}}")
        # setuptools would carry modules deleted since the last build into the new wheel
        shutil.rmtree(ROOT / "build" / "lib", ignore_errors=True)
        os.chdir(ROOT)
        return hook(*args, **kwargs)

    return prepared


def _build_editable(*args: Any, **kwargs: Any) -> str:
    compile_sources(ROOT)
    return build_meta.build_editable(*args, **kwargs)


build_editable = _prepared(_build_editable)
build_sdist = _prepared(build_meta.build_sdist)
build_wheel = _prepared(build_meta.build_wheel)
prepare_metadata_for_build_editable = _prepared(build_meta.prepare_metadata_for_build_editable)
prepare_metadata_for_build_wheel = _prepared(build_meta.prepare_metadata_for_build_wheel)
