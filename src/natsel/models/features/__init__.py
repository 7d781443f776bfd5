"""Frozen networks as features, texts, and the models that learn on top."""
