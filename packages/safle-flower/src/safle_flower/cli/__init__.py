"""The commands that safle-flower adds to the command line."""
