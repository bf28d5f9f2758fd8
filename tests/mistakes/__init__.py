"""Mistakes that users make, for test_mistakes.py."""
