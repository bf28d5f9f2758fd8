"""Rewrites of loop-level programs for GPUs; nothing here knows one CUDA runtime call."""
