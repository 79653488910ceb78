"""What the readers of data share: faults, and how long a name may be.

:class:`Faults` is defined in :mod:`fathom.reading`; formats of others import it from here.
"""

from fathom.reading import Faults

__all__ = ["LONGEST_NAME", "Faults"]

LONGEST_NAME = 20_000
"""Characters of a name; what is longer is a text, and would keep a model busy for hours."""
