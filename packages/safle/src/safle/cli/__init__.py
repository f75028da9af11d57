"""The command line: a federation with nothing but files, a group of commands a module.

`main` lists the commands and imports a module when one of its commands is called. What is listed
below is for the commands of other packages.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
