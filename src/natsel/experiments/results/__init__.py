"""Results: what the journals of an experiment say, in tables and verdicts."""
