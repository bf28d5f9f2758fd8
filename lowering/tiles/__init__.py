"""
One level down from tile programs: loops, memory, vectors and single elements. How a kernel is cut
is not decided here: the tile program says it.
"""
