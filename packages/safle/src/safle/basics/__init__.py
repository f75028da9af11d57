"""Small things that every room may use: files written whole, memory, compiling."""
