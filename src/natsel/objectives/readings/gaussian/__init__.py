"""Readings from jointly Gaussian predictions."""
