"""A model with an assumed noise, copied: fitting the copy leaves the first as it was."""

import numpy as np
from sklearn.ensemble import RandomForestRegressor

from natsel.data.examples import Examples
from natsel.models.adapter import ModelAdapter
from natsel.models.assumed_noise import AssumedNoise


def test_a_copy_learns_by_itself():
    inputs = np.arange(8.0)[:, None]
    adapter = ModelAdapter(AssumedNoise(RandomForestRegressor(5), 0.01))
    adapter.fit(Examples(inputs, np.arange(8.0)), seed=0)
    before = adapter.believe(inputs).mean
    other = adapter.copy()
    other.fit(Examples(inputs, -np.arange(8.0)), seed=0)
    assert (adapter.believe(inputs).mean == before).all()
    assert (other.believe(inputs).mean <= 0).all()
