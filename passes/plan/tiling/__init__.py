"""Tile loops, streams, and how each kernel is cut."""
