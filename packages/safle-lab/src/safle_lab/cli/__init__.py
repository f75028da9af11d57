"""The commands that safle-lab adds to the command line."""
