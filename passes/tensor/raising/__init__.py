"""
Trips of a loop at once: what `mlc-raise-loops` is made of.

No decision whether that pays: that is the pass's.
"""
