"""The page people read: words, drawings, and sections made of them."""
