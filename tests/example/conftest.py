"""A project of its own needs none of this: it serves those who run the shop with our suite.

There `sim` is something else, and the shop is not on the path.
"""

import sys
from pathlib import Path

from actors.testing.plugin import sim

__all__ = ["sim"]

sys.path.insert(0, str(Path(__file__).parent))
