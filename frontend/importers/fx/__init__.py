"""Graphs of PyTorch (FX, in core ATen) as compiled functions: what `backend="mlc"` is made of."""
