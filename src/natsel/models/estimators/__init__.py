"""scikit-learn estimators and committees of them."""
