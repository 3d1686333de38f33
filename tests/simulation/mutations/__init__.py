"""Whether every guard is needed, and whether its absence is noticed: `python -m` this."""
