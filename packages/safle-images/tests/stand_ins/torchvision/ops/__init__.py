"""Operators: none is called."""
