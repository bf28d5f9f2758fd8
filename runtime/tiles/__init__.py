"""
The interpreter of the tile level: tiles are NumPy arrays, workers run in a random order that a seed
fixes, and memory that nobody has written holds NaN. It judges words, lowerings and hand-made texts.
"""
