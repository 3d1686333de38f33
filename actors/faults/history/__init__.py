"""What clients did and saw, and whether a sound cluster could have let them see it."""
