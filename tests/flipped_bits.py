"""Single bits flipped in every kind of file that natsel writes for itself, by a program with a seed.

Each kind of file is written once. One random bit of one file is then flipped at a time, and what lies there is read as
natsel reads it. What comes of it is one of

    as it was   what is read is what was written
    made again  natsel does not use the file, and says so, or makes what is kept in it once more
    refused     an error in a sentence of natsel's
    raw         any other error
    silent      something else is read, and nobody is told

    python tests/flipped_bits.py 7 3000        seed 7, 3,000 flips; prints what is raw and silent
"""

import json
import os
import random
import re
import sys
import tempfile
import warnings
from collections import Counter
from contextlib import closing
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from torch import nn

import natsel
from natsel.beliefs.shards import Shards, write_shards
from natsel.containers import open_arrays, readable, sealed
from natsel.data.fetching import _written
from natsel.data.made_once import made_once
from natsel.experiments.compare import _as_files
from natsel.experiments.recipe.recipe import Recipe
from natsel.experiments.running import folder as folders
from natsel.experiments.studies.units import Units
from natsel.integrations.selective_batches import SelectiveBatches, collated_as_given
from natsel.models.features import embeddings
from natsel.models.networks.checkpoints import Checkpoint
from natsel.sampling.irreducible_loss import IrreducibleLoss
from natsel.sampling.pruning import Pruning
from natsel.store.artefacts import Artefacts

_RNG = np.random.default_rng(0)
_INPUTS, _LABELS = _RNG.normal(size=(24, 3)).astype(np.float32), _RNG.integers(0, 3, 24)
_NAMES = [f"p{number}.png" for number in range(24)]
_PAIR = (_INPUTS, _LABELS)
_LOGITS = torch.from_numpy(_RNG.normal(size=(24, 4, 3)))
_BACKBONE = embeddings.Backbone("thrice", 3, lambda rows: rows * 3)
RECIPE = {
    **{"name": "small", "about": "for tests", "data": {"set": "iris"}, "model": {"kind": "forest", "trees": 10}},
    **{"methods": ["random", {"method": "power-bald", "beta": 4}], "initial": {"per_class": 1}, "k": 4},
    **{"budget": 15, "seeds": 2, "targets": [0.8]},
}


class Known:
    """A kind of file: `write` makes it in a folder, `read` gives what natsel finds there."""

    modules: tuple[str, ...] = ()  # where natsel writes it

    def write(self, folder):
        raise NotImplementedError

    def read(self, folder):
        raise NotImplementedError


def _belief(part=slice(None), **options):
    return natsel.CategoricalSamples.from_logits(_LOGITS[part], ids=_NAMES[part], draws_id="fit 1", **options)


def _told(belief):
    return [belief.log_probs_N_K_C.tolist(), belief.log_weights_K.tolist(), belief.ids.tolist(), belief.draws_id]


class Belief(Known):
    modules = ("containers",)

    def __init__(self, suffix):
        self.file = f"belief{suffix}"

    def write(self, folder):
        _belief().condition([0, 1], [2, 0]).save(folder / self.file)

    def read(self, folder):
        found = natsel.Belief.load(folder / self.file)
        return [_told(found), repr(found.learnt), found.warnings]


class Prunings(Known):
    modules = ("containers",)

    def __init__(self, suffix):
        self.file = f"pruning{suffix}"

    def write(self, folder):
        natsel.prune(_PAIR, "input-norm", keep=0.5, ids=_NAMES).save(folder / self.file)

    def read(self, folder):
        found = Pruning.load(folder / self.file, of=_PAIR)
        return [found.hardest(), found.ids.tolist(), found.keep, dict(found.provenance), found.score_R_N.tolist()]


class Losses(Known):
    modules = ("containers", "sampling.irreducible_loss")

    def __init__(self, suffix):
        self.file = f"losses{suffix}"

    def write(self, folder):
        IrreducibleLoss(_INPUTS[:, 0] ** 2, _NAMES, about="made").save(folder / self.file)

    def read(self, folder):
        found = IrreducibleLoss.load(folder / self.file)
        return [found.loss_N.tolist(), found.ids.tolist(), found.about, found.fingerprint]


class SpilledBelief(Known):
    modules = ("beliefs.shards",)

    def write(self, folder):
        write_shards(folder / "shards", [_belief(slice(10)), _belief(slice(10, 24))], key="model").belief()

    def read(self, folder):
        shards = Shards(folder / "shards")
        return [_told(shards.belief()), [_told(one) for one in shards], len(shards)]


class TrainingCheckpoint(Known):
    modules = ("containers",)

    def _of(self, folder):
        torch.manual_seed(0)
        network = nn.Linear(3, 3)
        optimiser = torch.optim.SGD(network.parameters(), 0.1, momentum=0.9)
        state, kept = list(network.parameters()), [torch.zeros(3, 3), torch.zeros(3)]
        drawn = [torch.Generator().manual_seed(3)]
        checkpoint = Checkpoint(
            folder, ["a fit"], [one.data for one in state], kept, optimiser, drawn, torch.device("cpu")
        )
        return checkpoint, network, optimiser, kept

    def write(self, folder):
        checkpoint, network, optimiser, kept = self._of(folder)
        network(torch.from_numpy(_INPUTS)).square().sum().backward()
        optimiser.step()
        kept[0].fill_(2)
        checkpoint.last_written = -1e9
        checkpoint.write({"epoch": 3, "losses": [0.25]})

    def read(self, folder):
        checkpoint, network, optimiser, kept = self._of(folder)
        facts = checkpoint.resume()
        tensors = [*network.state_dict().values(), *kept, *(one["momentum_buffer"] for one in optimiser.state.values())]
        drawn = torch.rand(1, generator=checkpoint.generators[0]), torch.get_rng_state().sum()
        return [facts, [one.tolist() for one in tensors], [one.tolist() for one in drawn]]


class Artefact(Known):
    modules = ("store.artefacts",)

    def write(self, folder):
        self.name, _ = Artefacts(folder / "run.db").write({"weights": torch.from_numpy(_INPUTS)})

    def read(self, folder):
        found = Artefacts(folder / "run.db").read(self.name)
        return None if found is None else found["weights"].tolist()


class Journalled(Known):
    modules = ("store.copying",)  # the journal itself is written by SQLite

    def write(self, folder):
        with natsel.Journal(folder / "run.db") as journal:
            state = journal.begin("main", natsel.store.Terms("a pool", "bald", 2, 0, notes={"classes": ["cat", "dog"]}))
            for number in range(6):
                journal.tell(state, [number, f"p{number}.png"], [number % 2, 1], who="anna", digests=[number, 2**61])
            journal.record_round(state.run, 12, 12, {"accuracy": 0.5}, {"fit": 0.25})
            journal.copy(folder / "copy.db")
        (folder / "copy.db").replace(folder / "run.db")

    def read(self, folder):
        with closing(natsel.Journal(folder / "run.db", create=False, timeout=0.2)) as journal:
            return repr([journal.labels(1), journal.rounds(1), journal.contents(1), journal.runs()])


class Embeddings(Known):
    modules = ("containers",)

    def write(self, folder):
        embeddings.embed(_BACKBONE, _INPUTS, cache=folder)

    def read(self, folder):
        return embeddings.embed(_BACKBONE, _INPUTS, cache=folder).tolist()


class MadeOnce(Known):
    modules = ("data.made_once",)

    def _arrays(self):
        return {"x": _INPUTS, "y": _LABELS}

    def write(self, folder):
        with _cache(folder):
            made_once("some", self._arrays)

    def read(self, folder):
        with _cache(folder):
            return [array.tolist() for array in made_once("some", self._arrays).values()]


class FetchedSet(Known):
    modules = ("data.fetching",)

    def write(self, folder):
        _written({"some": {"x": _INPUTS, "y": _LABELS, "names": np.array(["a", "b"])}}, folder)

    def read(self, folder):
        opened = open_arrays(folder / "some.npz")
        return [opened.read(key).tolist() for key in ("x", "y", "names")]


class StudyUnits(Known):
    modules = ("experiments.studies.units", "experiments.running.folder")

    def write(self, folder):
        self.read(folder)

    def read(self, folder):
        units = Units(folder)
        arrays = units.arrays("outputs", lambda: {"x": _INPUTS})
        return [units.measured("a", lambda: {"x": 1.25, "of": ["b", 3]}), {key: arrays[key].tolist() for key in arrays}]


class Experiment(Known):
    modules = ("experiments.running.folder",)

    def write(self, folder):
        (folder / "random").mkdir()
        folders.prepare(folder, Recipe.from_table(RECIPE), command=["natsel", "run"])
        folders.write_outcome(folder, folders.Job("random", "random", 0), {"budget": 15, "stopped": "Budget(15)"})
        folders.write_json(folder / "data.json", sealed({"points": 105, "classes": ["a", "b"]}))
        folders.write_json(folder / "plan.json", sealed({"name": "small", "variants": ["one", "other"], "claims": []}))

    def read(self, folder):
        found = [folders.read_document(folder), folders.read_outcome(folder, "random", 0), folders.read_plan(folder)]
        return [*found, folders.read_object(folder / "data.json")]


_STUDY = {"name": "line", "about": "", "study": "gp-example", "settings": {}, "findings": {"table": [{"x": 0.25}]}}


class Study(Known):
    modules = ("experiments.running.folder",)

    def write(self, folder):
        folders.write_json(folder / "study.json", sealed(_STUDY))

    def read(self, folder):
        return folders.read_plan(folder)


class ComparedData(Known):
    modules = ("experiments.compare",)

    def write(self, folder):
        part = natsel.Examples(_INPUTS, _LABELS, masks={"ids": np.array(_NAMES)})
        _as_files(folder, natsel.data.DataSet("some", part, part, None, "table", ""))

    def read(self, folder):
        opened = [open_arrays(folder / name) for name in ("pool.npz", "test.npz")]
        return [{key: one.read(key).tolist() for key in ("inputs", "labels", "ids")} for one in opened]


class LoaderState(Known):
    modules = ("integrations.hugging_face",)

    def _batches(self):
        torch.manual_seed(0)
        options = {"irreducible_loss": np.zeros(24), "keep": 0.5, "batch": 2, "lag": True}
        return SelectiveBatches(natsel.SelectiveLoader(_PAIR, nn.Linear(3, 3), **options), collated_as_given)

    def write(self, folder):
        batches = self._batches()
        next(iter(batches.loader))
        (folder / "state.json").write_text(json.dumps(batches.state_dict()))

    def read(self, folder):
        batches = self._batches()
        with readable(folder / "state.json"):
            state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        batches.load_state_dict(state)
        return batches.state_dict()


KINDS = (
    *(kind(suffix) for kind in (Belief, Prunings) for suffix in (".safetensors", ".npz")),
    *(Losses(suffix) for suffix in (".safetensors", ".parquet")),
    *(SpilledBelief(), TrainingCheckpoint(), Artefact(), Journalled(), Embeddings(), MadeOnce(), FetchedSet()),
    *(StudyUnits(), Experiment(), Study(), ComparedData(), LoaderState()),
)

FOR_OTHERS = {
    "cli.prune": "tables and pages for people",
    "cli.triage": "tables and pages for people",
    "cli.select": "tables for people",
    "cli.evaluate": "pages for people",
    "cli.run": "a recipe for people to change",
    "data.as_table": "tables for people",
    "store.exporting": "tables for people",
    "experiments.report.any_report": "pages for people",
    "experiments.report.figure_files": "figures for people",
    "experiments.results.publish": "pages and results for people; natsel makes them again from the journals",
    "calculus.diagrams.figures": "figures for people",
    "data.download": "originals, which are compared with what their home publishes, and with a digest of all arrays",
    "experiments.running.worker_pool": "logs for people",
    "experiments.running.this_process": "logs for people",
    "bench": "results for people",
    "bench.kernel_searches": "features for another process of the same measurement",
    "bench.workers": "features for another process of the same measurement",
    "bench.peer_worker": "a counter of the operating system",
    "models.features.embeddings": "a lock without content; segments are written by containers",
    "learning.client_names": "a lock without content",
}
"""What else natsel writes: module → why no flipped bit of it can come back as something else."""

_WRITES = re.compile(
    r"atomically\(|appending\(|write_text\(|\.write_bytes\(|save_file\(|savez|np\.save\(|write_array\(|backup\("
)
_OPENS = re.compile(r"\.open\(\"[wax]|open\([^()]*\"[wax]b?\"")


def writers():
    """The modules of natsel that write files."""
    source = Path(natsel.__file__).parent
    found = set()
    for path in source.rglob("*.py"):
        code = "\n".join(line for line in path.read_text().splitlines() if not line.lstrip().startswith((">>>", "...")))
        if _WRITES.search(code) or _OPENS.search(code):
            name = ".".join(path.relative_to(source).with_suffix("").parts)
            found.add(name.removesuffix(".__init__"))
    return found


def _cache(folder):
    """natsel's cache folder is another one for a while."""
    return mock.patch.dict(os.environ, {"NATSEL_CACHE": str(folder)})


def outcomes(seed, count, folder):
    """(verdict, file, bit, what was said) of so many flips, spread evenly over the kinds of files."""
    draw, places = random.Random(seed), []
    for number, kind in enumerate(KINDS):
        place = Path(folder) / str(number)
        place.mkdir()
        kind.write(place)
        files = [path for path in place.rglob("*") if path.is_file() and path.stat().st_size]
        places.append((kind, place, files, repr(kind.read(place))))
    for number in range(count):
        kind, place, files, expected = places[number % len(places)]
        path = draw.choice(files)
        sound = path.read_bytes()
        bit = draw.randrange(8 * len(sound))
        flipped = bytearray(sound)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        yield (*_verdict(kind, place, expected), f"{type(kind).__name__} {path.name}", bit)
        path.write_bytes(sound)


# The name of the digest became another, so that nothing is compared: the one bit that was flipped is known, and unread.
_UNREAD = r""", ['"][^:]{12,16}['"]: '[0-9a-f]{32}'"""


def _verdict(kind, place, expected):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = repr(kind.read(place))
        except (ValueError, OSError) as refusal:
            sentence = re.match(r"[a-z][a-z_. ]*: \S", str(refusal))
            return ("refused" if sentence else "raw"), f"{type(refusal).__name__}: {refusal}"
        except Exception as failure:
            return "raw", f"{type(failure).__name__}: {failure}"
    if found == expected or re.sub(_UNREAD, "", found) == expected:
        return "as it was", ""
    if said and found == "None":
        return "made again", str(said[0].message)
    return "silent", found[:200]


if __name__ == "__main__":
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        found = list(outcomes(seed, count, folder))
    for verdict, said, file, bit in found:
        if verdict in ("raw", "silent"):
            print(verdict, file, bit, said)
    print(dict(Counter(verdict for verdict, *_ in found)))
