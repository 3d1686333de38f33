"""All operations.

Rule: whoever writes one adds it here; the command line and HTTP both read this.
"""

from typing import Final

from actors.operations.operation import Operation

OPERATIONS: Final[tuple[Operation, ...]] = ()
