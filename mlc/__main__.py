"""`python -m mlc …` is the `mlc` command."""

from mlc.driver import main

if __name__ == "__main__":
    raise SystemExit(main())
