"""Rewrites of loop nests for CPUs; nothing here changes what a kernel computes."""
