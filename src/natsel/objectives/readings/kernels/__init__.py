"""Readings from similarities between one gradient per point."""
