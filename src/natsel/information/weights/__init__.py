"""The linear algebra of weight space: precisions, factors of Fisher information, similarities."""
