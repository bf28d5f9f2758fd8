"""Kernels whose inside is a loop nest of its own: sorts, scans, scatters, library calls."""
