"""The journal: labels, rounds and acquisitions, written once and never changed."""
