"""A shop that writes an invoice for every order."""
