"""The measurement of `believe` says what it measured; how fast it is, a busy machine cannot say."""

from natsel.bench.dropout_beliefs import measure


def test_the_figures_are_complete(monkeypatch, tmp_path):
    monkeypatch.setenv("NATSEL_DATA", str(tmp_path))  # made pictures will do
    found = measure(count=12, draws=5, device="cpu")
    assert found["route"] == "together"
    assert 0 < found["share_of_clock"] < 1
    assert 0 < found["share_of_operations"] < 1
    assert found["largest_difference"] < 1e-4
