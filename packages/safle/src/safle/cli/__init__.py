"""The command line: a federation with nothing but files, one command a module.

Modules here import nothing heavy at the top, so that help answers at once.
"""
