"""The command line: a federation with files only; one module per group of commands.

`main` lists the commands and imports a module when one of its commands is called. What is listed
below is for the commands of other packages.

A new command is a function under `command`, with an example that runs, in the module of its group.
Imports that take time go inside, logic into a room. It has a row in `PANELS` of `main`; that of
another package has an entry point of ``safle.commands`` and a row in `HOUSES`. A page of docs/
shows it in a block of ``sh``, which the slow tests of test_pages.py run.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
