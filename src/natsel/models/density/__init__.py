"""Densities of features: what one network has seen, and what it has not."""
