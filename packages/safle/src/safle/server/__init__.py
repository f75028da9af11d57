"""At the server: the store of contributions, their admission, and their sums."""
