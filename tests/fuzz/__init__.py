"""Mutated texts of every level for every target: `python -m tests.fuzz --help`."""
