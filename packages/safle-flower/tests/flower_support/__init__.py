"""What the tests of safle-flower share: real networks, servers in one process, and clients."""
