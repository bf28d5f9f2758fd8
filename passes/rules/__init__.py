"""Rewrite rules as data: their text, matchers and grades; nothing here weighs costs."""
