"""
Tile programs with roles as functions of a GPU's threads: rings become barriers in shared memory,
copies the copy engine's, products those of groups of warps. Nothing is decided here.
"""
