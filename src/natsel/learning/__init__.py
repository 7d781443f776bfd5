"""The loop: ask, tell, retrain, evaluate; journalled, and resumable at any instant."""
