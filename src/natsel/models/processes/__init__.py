"""Gaussian processes and Bayesian linear regression."""
