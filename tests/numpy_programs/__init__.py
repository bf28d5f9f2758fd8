"""NumPy expressions and random programs that compiled functions must answer as NumPy does."""
