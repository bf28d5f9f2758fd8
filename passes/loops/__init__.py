"""Rewrites of loops-level programs for CPUs; nothing here knows kernels or plans."""
