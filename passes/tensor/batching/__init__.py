"""
Batching: a program over one example becomes the program over many, along a new leading axis.

Each op states what becomes of it (`TensorOp.batch`), and `control.py` says it for ops with regions.
What depends on no batched value stays as it is and is computed once.
"""
