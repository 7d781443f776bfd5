import math

import pytest
import torch

from golden_values import golden, logs
from natsel.calculus import (
    ALL,
    DiscreteJoint,
    GaussianJoint,
    PredictiveJoint,
    ZeroProbabilityOutcome,
    evaluate,
)

GOLDEN = golden("01-information-quantities")
TABLES = [name for name, case in GOLDEN.items() if "variables" in case["inputs"]]
SCORES = [name for name in GOLDEN if name.startswith("scores_")]
VALUES = [(name, text) for name in TABLES for text in GOLDEN[name]["expected"] if text != "atoms"]


def near(found, expected):
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(
        torch.as_tensor(found, dtype=torch.float64), expected, rtol=1e-10, atol=1e-10, equal_nan=True
    )


def joint_of(inputs):
    if "p" in inputs:
        return DiscreteJoint.from_probs(inputs["variables"], inputs["p"])
    return DiscreteJoint.from_counts(inputs["variables"], inputs["p_unnormalised"])


def draws_of(case):
    return PredictiveJoint(logs(case["inputs"]["probs_N_K_C"]), logs(case["inputs"]["weights_K"]))


@pytest.mark.parametrize(("name", "text"), VALUES, ids=[f"{name}: {text}" for name, text in VALUES])
def test_tables(name, text):
    inputs, expected = GOLDEN[name]["inputs"], GOLDEN[name]["expected"][text]
    at = dict(inputs["at"])
    if text.startswith("at y=2: "):
        text, at["y"] = text.removeprefix("at y=2: "), 2
    joint = joint_of(inputs)
    near(evaluate(text, joint, at=at, errors="nan").value, expected)
    if math.isnan(expected):
        with pytest.raises(ZeroProbabilityOutcome, match=r"undefined at .*y=2"):
            evaluate(text, joint, at=at)
    else:
        near(evaluate(text, joint, at=at, unit="bits").value, expected / math.log(2))


def test_atoms():
    case = GOLDEN["general_table"]
    joint = joint_of(case["inputs"])
    for inside, expected in case["expected"]["atoms"].items():
        groups, rest = ";".join(inside), ",".join(sorted(set("XYZ") - set(inside)))
        text = f"{'I' if len(inside) > 1 else 'H'}[{groups}{'|' + rest if rest else ''}]"
        near(evaluate(text, joint).value, expected)


def test_primitives():
    case = GOLDEN["primitives"]
    expected = case["expected"]
    for number, (p, q) in enumerate(case["inputs"]["pairs (p,q)"]):
        joint = DiscreteJoint.from_probs("X", p)
        for cross, kl in [("H(p || q)", "KL(p || q)"), ("H_q[X]", "D(p(X) || q(X))"), ("H_{p||q}[X]", "KL(p(X) || q)")]:
            near(evaluate(cross, joint, q=q).value, expected["cross_entropy"][number])
            near(evaluate(kl, joint, q={"q": DiscreteJoint.measure("X", q)}).value, expected["kl"][number])
        near(evaluate("H(p(X))", joint).value, expected["entropy_p"][number])
        assert evaluate("KL(p || q)", joint, q=q).value >= expected["h_of_Z_q (lower bound of kl)"][number] - 1e-12
    for number, content in zip(case["inputs"]["information_content_of"], expected["information_content"], strict=True):
        near(evaluate(f"h({number})", joint).value, content)


@pytest.mark.parametrize("name", SCORES)
def test_scores(name):
    expected, draws = GOLDEN[name]["expected"], draws_of(GOLDEN[name])
    near(evaluate("H[Y|x,D]", draws).value, expected["entropy_N"])
    near(evaluate("H[Y|x,W]", draws).value, expected["conditional_entropy_N"])
    near(evaluate("I[Y;Ω|x,D]", draws).value, expected["bald_N"])
    near(torch.exp(-evaluate("H[y|x]", draws, at={"y": ALL}).value), expected["predictive_N_C"])
    member_N_K = evaluate("I[omega;Y|x]", draws, at={"omega": ALL}, errors="nan").value
    # Of a draw of weight 0 the calculus says nothing: it is an outcome of probability 0.
    possible_K = draws.log_weights_K > -math.inf
    near(
        member_N_K[:, possible_K], torch.tensor(expected["member_disagreement_N_K"], dtype=torch.float64)[:, possible_K]
    )
    assert member_N_K[:, ~possible_K].isnan().all()
    gain_N_C = evaluate("I[W;y|x]", draws, at={"y": ALL}, errors="nan").value
    surprise_N_C = evaluate("I[y;W|x]", draws, at={"y": ALL}, errors="nan").value
    for row in expected["by_label"]:
        near(gain_N_C[row["point"], row["label"]], row["information_gain"])
        near(surprise_N_C[row["point"], row["label"]], row["surprise"])


def test_gaussian():
    case = GOLDEN["gaussian_mixed_terms"]
    joint = GaussianJoint(case["inputs"]["mean"], case["inputs"]["cov"], case["inputs"]["names"])
    for text, expected in case["expected"].items():
        near(evaluate(text, joint, at=case["inputs"]["at"]).value, expected)


def test_elbo():
    case = GOLDEN["elbo"]
    prior_K = torch.tensor(case["inputs"]["prior_K"], dtype=torch.float64)
    likelihood_K = torch.tensor(case["inputs"]["likelihood_K"], dtype=torch.float64)
    joint = DiscreteJoint.from_probs(
        ["W", "Y"], torch.stack([prior_K * likelihood_K, prior_K * (1 - likelihood_K)], dim=1)
    )
    q = DiscreteJoint.from_probs("W", case["inputs"]["q_K"])
    near(-evaluate("H[Y=0]", joint).value, case["expected"]["log_evidence"])
    near(evaluate("H(q(W)) - H(q(W) || p(W,y))", joint, q=q, at={"y": 0}).value, case["expected"]["elbo"])
    near(evaluate("KL(q(W) || p(W|y))", joint, q=q, at={"y": 0}).value, case["expected"]["kl_q_posterior"])


def test_stirling_gap_is_a_surprisal():
    for row in GOLDEN["stirling"]["expected"]["rows"]:
        count, r = row["N"], row["r"]
        if not 0 < r < count <= 100:
            continue
        rho = r / count
        p = [math.comb(count, k) * rho**k * (1 - rho) ** (count - k) for k in range(count + 1)]
        near(evaluate("H[r]", DiscreteJoint.from_probs("R", p), at={"r": r}).value, row["gap"])
