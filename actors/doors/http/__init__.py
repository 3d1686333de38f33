"""HTTP: an admin API, metrics, and the live page."""
