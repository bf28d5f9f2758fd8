"""
Runs Python for AArch64 on any machine: `python -m tests.emulated -m pytest -q FILE`.

What compiled code computes there is seen so without such a processor: qemu-user runs Debian's
Python with mlc's dependencies, as a Neoverse V1 would, many times slower. The first run makes
build/aarch64; it wants the packages qemu-user and mmdebstrap.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "build" / "aarch64"
SUITE, PYTHON = "bookworm", "3.11"
PACKAGES = ("python3-minimal", f"libpython{PYTHON}-stdlib", "libgomp1", "libstdc++6", "zlib1g")
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux_2_17_aarch64",
             "manylinux2014_aarch64")  # fmt: skip
CPUINFO = """processor\t: 0
Features\t: fp asimd aes pmull sha1 sha2 crc32 atomics fphp asimdhp asimddp i8mm bf16
CPU implementer\t: 0x41
CPU part\t: 0xd40
"""
"""What LLVM reads of a Neoverse V1; extensions that are not there it takes for missing."""


def prepare() -> None:
    """A Debian without a kernel, and wheels."""
    system, site = FOLDER / "root", FOLDER / "site"
    if site.exists():
        return
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    subprocess.run(
        ["mmdebstrap", "--quiet", "--arch=arm64", "--variant=extract",
         f"--include={','.join(PACKAGES)}", SUITE, system],
        check=True,
    )  # fmt: skip
    (system / "proc").mkdir(exist_ok=True)
    (system / "proc" / "cpuinfo").write_text(CPUINFO)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    partial = FOLDER / "partial"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:",
         f"--python-version={PYTHON}", *(f"--platform={x}" for x in PLATFORMS),
         f"--target={partial}", *wanted],
        check=True,
    )  # fmt: skip
    partial.rename(site)


def main(arguments: list[str]) -> None:
    """Becomes the emulator of the interpreter."""
    prepare()
    system = FOLDER / "root"
    environment = {
        **os.environ, "PYTHONHOME": str(system / "usr"), "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": f"{ROOT}:{FOLDER / 'site'}", "MLC_CACHE_BYTES": "0",
    }  # fmt: skip
    emulator = ["qemu-aarch64", "-cpu", "max", "-L", str(system)]
    interpreter = system / "usr" / "bin" / f"python{PYTHON}"
    os.execvpe(emulator[0], [*emulator, str(interpreter), *arguments], environment)


if __name__ == "__main__":
    main(sys.argv[1:])
