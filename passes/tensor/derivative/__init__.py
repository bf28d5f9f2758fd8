"""Derivatives of blocks of tensor ops, from facts that the ops state; no rules of single ops."""
