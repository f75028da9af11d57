"""The commands that safle-images adds to the command line."""
