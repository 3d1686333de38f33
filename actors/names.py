"""What nodes are called.

Rule: a broker's name is made here and nowhere else.
"""


def node_name(broker: int) -> str:
    """A broker's address on the network and in the trace."""
    return f"broker-{broker}"
