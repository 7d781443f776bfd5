"""The command line as a program of its own: what is on stdout, on stderr, and the exit code."""

import json


def test_from_predictions_to_labels_in_two_rounds(tmp_path, start, call, preds):
    first = start("select", preds, "--probs", "-k", 4, "--out", tmp_path / "picks.csv", "--json")
    assert first.code == 0, first.err
    assert first.err == ""
    assert first.out.count("\n") == 1
    picked = json.loads(first.out)["ids"]
    _, *rows = (tmp_path / "picks.csv").read_text().splitlines()
    assert [int(row.split(",")[1]) for row in rows] == picked
    (tmp_path / "labelled.txt").write_text("".join(f"{id}\n" for id in picked))
    second = call("select", preds, "--probs", "-k", 4, "--exclude", tmp_path / "labelled.txt", "--explain")
    assert second.code == 0, second.err
    ids = {int(line.split()[1]) for line in second.out.splitlines() if line.split()[:1] and line.split()[0].isdigit()}
    assert len(ids) == 4
    assert not ids & set(picked)


def test_a_refusal_is_one_sentence_and_exit_code_two(start, refused, preds):
    done = start("run")  # refused before torch is imported
    assert (done.code, done.out) == (2, "")
    assert done.err == refused("run")
    assert refused("select", preds).startswith(
        "natsel: say what the numbers are: --log-probs, --probs, --logits or --means"
    )
