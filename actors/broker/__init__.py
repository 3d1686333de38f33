"""One broker's actors."""
