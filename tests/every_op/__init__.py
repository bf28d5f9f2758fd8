"""Cases for test_every_op.py: which ops on which arrays, and how far results may lie off."""
