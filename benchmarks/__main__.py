"""`python -m benchmarks [THEME …]`: runs themes, each in a process of its own."""

import subprocess
import sys

THEMES = (
    "elementwise",
    "reductions",
    "ordering",
    "matmul",
    "call_overhead",
    "first_call",
    "shapes",
    "ops_vs_numpy",
    "deep_loops",
    "training",
    "kernels",
)


def main() -> int:
    """Run the themes named first, or all; every other argument goes to each of them."""
    arguments = sys.argv[1:]
    known = [a for a in arguments if a in THEMES]
    rest = [a for a in arguments if a not in THEMES]
    status = 0
    for theme in known or THEMES:
        command = [sys.executable, "-m", f"benchmarks.{theme}", *rest]
        status = subprocess.run(command, check=False).returncode or status
    return status


if __name__ == "__main__":
    raise SystemExit(main())
