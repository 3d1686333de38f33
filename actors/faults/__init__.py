"""What may go wrong on purpose, and what must hold all the same."""
