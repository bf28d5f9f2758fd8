"""Rewrites of tensor-level programs; nothing here knows kernels, loops or buffers."""
