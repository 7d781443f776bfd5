"""Readings in weight space: Fisher information of each point under a Gaussian over weights."""
