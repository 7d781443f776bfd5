"""Readings from draws of predictions."""
