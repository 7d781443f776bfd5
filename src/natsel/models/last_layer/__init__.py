"""Gaussians over weights: the last layer, or gradients of a whole network."""
