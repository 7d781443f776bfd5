"""Monte Carlo dropout with the same masks for every point."""
