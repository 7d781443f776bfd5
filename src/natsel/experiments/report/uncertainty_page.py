"""The page about how good a model's uncertainty is: metrics, reliability, the error of what is kept, detection."""

from natsel.choose.uncertainty_evaluation import MEANING, UncertaintyEvaluation
from natsel.experiments.report.charts import line_chart
from natsel.experiments.report.page import page, table
from natsel.experiments.report.score_charts import reliability_chart
from natsel.texts import escape


def uncertainty_page(found: UncertaintyEvaluation, title: str = "Predictions") -> str:
    """The page as HTML: write it to a file and open it in any browser.

    >>> from natsel import ClassProbabilities, evaluate_uncertainty
    >>> found = evaluate_uncertainty(ClassProbabilities.from_probs([[0.9, 0.1], [0.8, 0.2]]), [0, 1])
    >>> "calibration" in uncertainty_page(found)
    True
    """
    parts = [
        ("metrics", "Metrics", _metrics(found)),
        ("reliability", "Does it happen as often as said?", _reliability(found)),
        ("rejection", "Does it know where it is wrong?", _rejection(found)),
        ("scores", "The scores side by side", _scores(found)),
    ]
    head = (
        f'<p class="eyebrow">natsel evaluate</p><h1>{escape(title)}</h1>'
        f'<p class="headline">{escape(_headline(found))}</p>'
        + "".join(f'<p class="note">{escape(warning)}</p>' for warning in found.warnings)
    )
    return page(f"{title} – natsel evaluate", head, [part for part in parts if part[2]], [])


def _headline(found: UncertaintyEvaluation) -> str:
    points = f"{found.points:,} points"
    if "accuracy" in found.metrics:
        wrong = 1 - found.metrics["accuracy"]
        return (
            f"{points}: {wrong:.1%} of the predictions are wrong, and the model expects"
            f" {found.metrics['predicted top-1 error']:.1%}."
        )
    if "rmse" in found.metrics:
        return f"{points}: the root of the mean squared error is {found.metrics['rmse']:.4g}."
    return f"{points} without labels."


def _metrics(found: UncertaintyEvaluation) -> str:
    rows = [[escape(name), f"{value:.4f}", escape(MEANING.get(name, ""))] for name, value in found.metrics.items()]
    words = ""
    if found.reliability is not None:
        words = (
            f"<p>Calibration errors are in {found.bins} bins. They depend on the kind and on the bins, and are too"
            " large for few points: compare only numbers that were computed alike.</p>"
        )
    body = table(["metric", "value", "what it is"], rows, "Metrics")
    return f'{words}<div class="card claims">{body}</div>' if rows else ""


def _reliability(found: UncertaintyEvaluation) -> str:
    if found.reliability is None:
        return ""
    words = (
        "<p>On the dashed line, predictions are right as often as the model says. Below it the model is too sure."
        " Beside: how many points there are in each bin.</p>"
    )
    return words + reliability_chart(found.reliability)


def _rejection(found: UncertaintyEvaluation) -> str:
    lines = {
        name: list(zip(curve.shares.tolist(), curve.values[found.error].tolist(), strict=True))
        for name, curve in found.rejection.items()
    }
    if not lines:
        return ""
    words = (
        f"<p>The {found.error} on the points that a score finds most certain, and on ever more of them: a score that"
        " knows where the model is wrong has a curve that begins low. At the right end all points are kept.</p>"
    )
    return words + line_chart(lines, "share of points kept", found.error)


def _scores(found: UncertaintyEvaluation) -> str:
    rows = found.score_rows()
    if not rows:
        return ""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_cell(row.get(name)) for name in names] for row in rows]
    words = ""
    if found.detection:
        words = (
            f"<p>How well a score tells the {found.outside_points:,} inputs from elsewhere from these: AUROC is the"
            " chance that one of them scores higher, 0.5 for a score without use; FPR95 is the share of these inputs"
            " that is flagged where 95&nbsp;% of those from elsewhere are.</p>"
        )
    return f'{words}<div class="card">{table([escape(name) for name in names], cells, "Scores")}</div>'


def _cell(value: float | str | None) -> str:
    return "–" if value is None else escape(value) if isinstance(value, str) else f"{value:.4f}"
