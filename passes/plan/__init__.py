"""Choices over kernels and buffers; nothing here emits a loop."""
