"""The treatment is the column that is called so, wherever it stands; where nothing says which it is, it is refused."""

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.pipeline import make_pipeline

import natsel
from natsel import causal
from natsel.causal import Propensity, SLearner, TLearner, overlap_of, positivity, treatment_of, with_treatment
from natsel.data import Examples
from natsel.models.fingerprints import parts_of

pandas = pytest.importorskip("pandas", reason="needs the extra tables")

COUNT = 60
DRAWN = np.random.default_rng(0)
AGE, SMOKER = DRAWN.normal(size=COUNT), (DRAWN.random(COUNT) < 0.5).astype(int)
ARM = (DRAWN.random(COUNT) < 0.4).astype(int)
AFTER = AGE + 3 * ARM + 0.05 * DRAWN.normal(size=COUNT)
FRAME = pandas.DataFrame({"arm": ARM, "age": AGE, "smoker": SMOKER})  # the last column is 0 or 1, and no treatment
FOREST = RandomForestRegressor(5)
LEARNERS = pytest.mark.parametrize("make", [SLearner, TLearner])


@LEARNERS
def test_a_last_column_of_0_and_1_is_not_taken_for_the_treatment(make):
    with pytest.raises(
        ValueError, match=r"^treatment: there is no column 'treatment' among arm, age, smoker; say which"
    ):
        make(FOREST).fit(Examples(FRAME, AFTER))
    with pytest.raises(ValueError, match=r"^treatment: there is no column 'treatment' of an array .*with_treatment"):
        make(FOREST).fit(Examples(FRAME.to_numpy(), AFTER))
    with pytest.raises(ValueError, match=r"^treatment: there is no column 'treatment' among"):
        natsel.ActiveLearner(make(FOREST), natsel.Pool(FRAME, regression=True))  # and before anybody is asked about


@LEARNERS
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_column_that_is_named_is_the_treatment_wherever_it_stands(make, library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({name: FRAME[name].to_list() for name in FRAME.columns})
    model = make(FOREST, treatment="arm", propensity=Propensity(treatment="arm").fit(frame))
    belief = model.fit(Examples(frame, AFTER)).believe(frame)
    assert belief.treatment_N.tolist() == ARM.tolist()
    assert float(belief.effect_N.mean()) == pytest.approx(3, abs=0.5)
    last = make(FOREST, treatment="arm").fit(Examples(with_treatment(frame, "arm"), AFTER))
    assert last.believe(frame).effect_N.tolist() == belief.effect_N.tolist()
    assert len(model.predictive(frame)) == COUNT
    assert len(model.believe_together(Examples(frame).inputs[:5], Examples(frame).inputs[5:])[0]) == 5


def test_files_of_numbers_keep_the_names_of_their_columns(tmp_path):
    FRAME.assign(after=AFTER).to_csv(tmp_path / "study.csv", index=False)
    examples = natsel.data.read_examples(tmp_path / "study.csv", labels="after", regression=True)
    assert isinstance(examples.inputs, np.ndarray)
    belief = SLearner(FOREST, treatment="arm").fit(examples).believe(examples.inputs)
    assert float(belief.effect_N.mean()) == pytest.approx(3, abs=0.5)
    with pytest.raises(ValueError, match="no column 'treatment' among arm, age, smoker"):
        SLearner(FOREST).fit(examples)
    part, others = examples.inputs[:3], examples.inputs[:, ::-1]
    assert (part.names, others.names, (part * 2).names) == (("arm", "age", "smoker"), (), ())


def test_arrays_say_by_number_what_nobody_has_named():
    rows_N_3 = FRAME.to_numpy()
    first = SLearner(FOREST, treatment=0).fit(Examples(rows_N_3, AFTER)).believe(rows_N_3)
    last = SLearner(FOREST, treatment=-1).fit(Examples(rows_N_3[:, [1, 2, 0]], AFTER)).believe(rows_N_3[:, [1, 2, 0]])
    named = SLearner(FOREST).fit(Examples(with_treatment(rows_N_3[:, 1:], ARM), AFTER))
    assert first.effect_N.tolist() == last.effect_N.tolist()
    assert named.believe(with_treatment(rows_N_3[:, 1:], ARM)).effect_N.tolist() == last.effect_N.tolist()
    for wrong in (3, -4, ARM, None, True):
        with pytest.raises(ValueError, match=r"^treatment: there is no column "):
            SLearner(FOREST, treatment=wrong).fit(Examples(rows_N_3, AFTER))
    with pytest.raises(ValueError, match=r"^features: a column of them is called 'treatment' already"):
        with_treatment(with_treatment(AGE, ARM), ARM)
    assert treatment_of(causal.causal_synthetic(50, 9, 9).pool.inputs).shape == (50,)


def test_overlap_goes_by_the_name_too():
    propensity_N = np.full(COUNT, 0.4)
    moved = with_treatment(FRAME, "arm").to_numpy()
    assert overlap_of(FRAME, propensity_N, treatment="arm") == overlap_of(moved, propensity_N, treatment=-1)
    assert positivity(FRAME, treatment="arm").all()


@LEARNERS
def test_the_name_stands_in_repr_journal_and_page(make, tmp_path):
    model = make(FOREST, treatment="arm")
    assert repr(model) == f"{make.__name__}(RandomForestRegressor, treatment='arm')"
    pool = natsel.Pool(FRAME, regression=True)
    with natsel.ActiveLearner(model, pool, "mu-rho-bald", k=4, store=tmp_path / "run.db") as learner:
        run = learner.journal.runs()[0]
        assert run.terms.notes["parts"]["treatment"] == "'arm'"
        learner.tell(learner.ask().ids, [1.0, 2.0, 3.0, 4.0])
    page = natsel.report(tmp_path / "run.db", tmp_path / "page.html").read_text()
    assert f"{make.__name__} (treatment &#x27;arm&#x27;)" in page
    with pytest.raises(ValueError, match=r"another model \(treatment: 'arm' → 'smoker'\)"):
        natsel.ActiveLearner(make(FOREST, treatment="smoker"), pool, "mu-rho-bald", store=tmp_path / "run.db")
    assert parts_of(make(FOREST))["treatment"] == "'treatment'"  # the default too: it may change


def test_a_pipeline_may_name_the_treatment_where_its_model_sees_it():
    encoder = ColumnTransformer([("kept", "passthrough", ["age", "arm"])])
    pool = natsel.Pool(FRAME, regression=True)
    natsel.ActiveLearner(SLearner(make_pipeline(encoder, FOREST), treatment="arm"), pool)
    with pytest.raises(ValueError, match="wants a column 'arm'"):
        natsel.ActiveLearner(TLearner(make_pipeline(encoder, FOREST), treatment="arm"), pool)


@LEARNERS
def test_the_outcome_among_the_covariates_is_noticed(make):
    with pytest.warns(UserWarning, match=r"^inputs: column 'visits' equals the outcomes of all 60 labelled points"):
        make(FOREST, treatment="arm").fit(Examples(FRAME.assign(visits=AFTER), AFTER))


def test_a_class_in_place_of_a_model_is_named():
    with pytest.raises(ValueError, match=r"^model: found the class RandomForestRegressor; pass one of it"):
        TLearner(RandomForestRegressor)


def test_a_belief_in_place_of_effects_is_answered_without_going_through_it(monkeypatch):
    belief = SLearner(FOREST, treatment="arm").fit(Examples(FRAME, AFTER)).believe(FRAME)
    monkeypatch.setattr(type(belief), "__getitem__", lambda self, place: pytest.fail("it was gone through"))
    with pytest.raises(
        ValueError, match=r"^effect_N: expected real numbers, found a PotentialOutcomes .*belief.effect_N"
    ):
        causal.pehe(belief, np.zeros(COUNT))


def test_a_causal_method_on_a_plain_model_says_what_to_wrap():
    belief = natsel.models.Sklearn(FOREST).fit(Examples(FRAME, AFTER)).believe(FRAME)
    with pytest.raises(ValueError, match=r"wrap the model in natsel.causal.SLearner\(model\)"):
        natsel.select("mu-rho-bald", belief, k=2)


@LEARNERS
@pytest.mark.parametrize("seed", range(2))
def test_the_first_batch_has_both_arms(make, seed):
    rare = np.zeros(COUNT, dtype=int)
    rare[7] = 1
    pool = natsel.Pool(with_treatment(AGE, rare), ids=[f"p{number:02}" for number in range(COUNT)], regression=True)
    first, again = (natsel.ActiveLearner(make(FOREST), pool, "mu-rho-bald", k=4, seed=seed).ask() for _ in range(2))
    assert "p07" in first.ids
    assert (len(set(first.ids)), first.ids.tolist()) == (4, again.ids.tolist())
    plain = natsel.ActiveLearner(FOREST, pool, k=4, seed=seed).ask()
    assert len(set(first.ids) & set(plain.ids)) >= 3  # at random otherwise
    dear = {f"p{number:02}": 100.0 if number == 7 else 1.0 for number in range(COUNT)}
    limited = natsel.ActiveLearner(make(FOREST), pool, "random", k=4, seed=seed, costs=dear)
    assert limited.ask(budget=101.0).total_cost <= 101


def test_an_arm_without_labels_can_be_told_without_being_asked_for():
    pool = natsel.Pool(with_treatment(AGE, ARM), regression=True)
    learner = natsel.ActiveLearner(TLearner(FOREST), pool, "mu-rho-bald", k=2)
    learner.tell(np.flatnonzero(ARM == 0)[:5], [1.0, 2.0, 3.0, 4.0, 5.0])
    with pytest.raises(ValueError, match=r"none of 5 examples has the treatment 1.*need not have been asked for"):
        learner.ask()
    learner.tell(np.flatnonzero(ARM == 1)[:1], [4.0])
    assert len(learner.ask().ids) == 2
