"""Compiled loops of the wire: a gram's entries <-> bytes."""
