"""Federations: contributions that come together, by files alone or over a network."""
