"""Offsets that consumer groups have committed, on the broker that coordinates each group."""
