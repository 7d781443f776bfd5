"""Recipes: what an experiment compares, checked before any work."""
