"""Integrations: natsel inside the training loops of other libraries, which are imported where they are used."""
