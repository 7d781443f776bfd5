"""Evaluation: how good predictions are, and how many labels a method needed to make them so."""
