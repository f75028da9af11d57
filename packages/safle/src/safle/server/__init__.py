"""At the server: the store of contributions, what it admits, and sums of many."""
