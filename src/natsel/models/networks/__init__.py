"""Neural networks: architectures, what their outputs mean, training, prediction, ensembles."""
