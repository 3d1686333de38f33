"""The simulated World: one seed is one run."""
