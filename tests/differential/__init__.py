"""Random programs over the tensor ops, for test_differential.py."""
