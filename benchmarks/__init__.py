"""
mlc beside its peers, on the machine at hand.

    python -m benchmarks                  every theme below, one after the other
    python -m benchmarks matmul --quick   one theme, with fewer rounds
    python -m benchmarks matmul --threads 1 --json matmul.json

Every table is measured in one run with the candidates taking turns; times are medians. Nothing here
is asserted: a benchmark prints what it found, with the machine it found it on.
"""
