"""Machines as data, with units and sources; nothing here measures (that is runtime/probe.py)."""
