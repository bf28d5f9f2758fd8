"""
Dialect `mlc_tile`: kernels as programs over tiles, on every target. Thread ids, vectors and masks
do not belong here: they appear when a tile program is lowered.
"""
