"""Experiments: recipes that compare methods over seeds, and the report that shows what they cost."""
