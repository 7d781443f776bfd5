"""A loader that chooses what to train on: of each batch of candidates, the share that a method selects.

    B_t    n_B candidates, each example in one such batch per epoch          natsel.sampling.candidates
    loss   of each candidate under the network as it is, without gradients   natsel.sampling.scoring_pass
    b_t    the n_b = keep · n_B candidates that the method selects           as natsel.select on natsel.ExampleLosses

By default the method is RHO-LOSS: the largest loss less irreducible loss. Any method works that can be read from
losses, logits and features of the last layer, or from predictions under several masks of dropout. Everything is decided
by the seed, the epoch and the number of the batch: the same seed on the same network selects the same examples, and a
loader resumes at its next batch.
docs/theory/training-selection.md, 2, 5 and 6; Mindermann et al. 2022.
"""

import copy
import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd
from torch.utils.data import DataLoader

from natsel.beliefs import Belief, IndependentSamples
from natsel.beliefs.arrays import as_device
from natsel.beliefs.example_losses import ExampleLosses
from natsel.capabilities import Picks
from natsel.choose.methods import METHODS, Method, resolve
from natsel.choose.select import select
from natsel.containers import sealed
from natsel.data.alignment import aligned, index_of
from natsel.data.contents import sample
from natsel.data.examples import Examples
from natsel.data.labels import Array, as_numpy
from natsel.ids import IdArray, are_among, ids_for, keys_of
from natsel.models.fingerprints import fingerprint
from natsel.models.last_layer.readout import last_linear
from natsel.models.networks.augmentation import Augmentation
from natsel.objectives import Context, read_and_warn
from natsel.sampling.candidates import CandidateSource, epoch_batches, n_candidates, n_selected, parts_of, source_of
from natsel.sampling.irreducible_loss import IrreducibleLoss, examples_fingerprint
from natsel.sampling.recorded_pass import RecordedPass
from natsel.sampling.scoring_pass import ExampleLoss, PassResult, ScoringPass
from natsel.seeds import derive
from natsel.ties import order_of

_OTHER_WORDS = {
    "batch_size": "it is called batch",
    "labels": "pass (inputs, labels), or labels_key=, the column of a table",
    "shuffle": "every epoch has an order of its own, by the seed",
}


@dataclass(frozen=True, eq=False)
class SelectedBatch:
    """Selected examples: `inputs, labels, weights = batch`, on the device of the network.

    The loss to train on is `(weights * loss_per_example).mean()`. Weights are 1 unless the method draws by importance;
    the same example may then come several times.
    """

    inputs: Any
    labels: Tensor
    weights: Tensor
    ids: IdArray
    scores: Tensor = field(repr=False)
    """One score per example under the method, bigger is better, on the CPU."""
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Any]:
        yield self.inputs
        yield self.labels
        yield self.weights


@dataclass(frozen=True)
class SelectionCounts:
    """What was selected in an epoch so far: counts, and counts of examples under each mask.

    >>> counts = SelectionCounts(epoch=0, selected=20, correct=5, selected_by_mask={"noisy": 1})
    >>> counts.correct / counts.selected
    0.25
    """

    epoch: int
    batches: int = 0
    candidates: int = 0
    selected: int = 0
    not_finite: int = 0
    """Candidates whose loss was infinite or NaN: they are left out."""
    correct: int | None = 0
    """Selected examples whose class the network predicted already; None where outputs are no logits of classes."""
    selected_by_mask: Mapping[str, int] = field(default_factory=dict)
    """Of the selected examples, how many are noisy, irrelevant, … by the masks that are known."""
    candidates_by_mask: Mapping[str, int] = field(default_factory=dict)
    candidates_correct: int | None = 0

    def plus(self, other: "SelectionCounts") -> "SelectionCounts":
        """Both together, in the epoch of the first."""
        return replace(self, **{key: _sum(one, vars(other)[key]) for key, one in vars(self).items() if key != "epoch"})


class _Choice(NamedTuple):
    """Which of a batch of candidates are trained on."""

    rows_B: Array
    weights_B: Array | None
    scores_B: Array
    warnings: tuple[str, ...]
    counts: SelectionCounts


class _ScoredCandidates(NamedTuple):
    """A batch of candidates, and what a pass over it said."""

    epoch: int
    number: int
    positions_N: Array
    inputs: Any
    labels: Tensor
    result: PassResult | None = None
    correct_N: Tensor | None = None
    """Whether the network predicts the class of each candidate, on the CPU; None where outputs are no logits."""
    done: torch.cuda.Event | None = None
    """After which all this may be read, where an accelerator computes it."""


class _NetworkCopy(NamedTuple):
    """A copy of the network that another stream computes with while the network is trained."""

    network: nn.Module
    parts: list[nn.Module]
    pairs: list[tuple[list[Tensor], list[Tensor]]]
    """Weights and buffers of the copy, and those of the network: one pair of lists for each type of number."""

    @classmethod
    def of(cls, network: nn.Module) -> "_NetworkCopy":
        copied = copy.deepcopy(network)
        own, others = ([*one.parameters(), *one.buffers()] for one in (copied, network))
        pairs = []
        for dtype in {tensor.dtype for tensor in own}:
            rows = [row for row, tensor in enumerate(own) if tensor.dtype == dtype]
            pairs.append(([own[row] for row in rows], [others[row] for row in rows]))
        return cls(copied, list(copied.modules()), pairs)

    def update(self, parts: list[nn.Module]) -> None:
        """Take over the weights and buffers of the network, many in one launch, and the modes of its parts."""
        for part, other in zip(self.parts, parts, strict=True):
            part.training = other.training
        with torch.no_grad():
            for own, others in self.pairs:
                torch._foreach_copy_(own, others)


class _Needs(NamedTuple):
    """What a method reads besides losses, and whether its picks have weights."""

    labels: bool
    logits: bool
    features: bool
    weights: bool = False


class SelectiveLoader:
    """Batches to train `model` on, selected from larger batches of candidates by a method.

    `dataset`: natsel.Examples or (inputs, labels), which come as the networks of natsel take them; a torch data set of
    (input, label) or of dicts (`labels_key`, `inputs_key`; without the latter all else goes to the model by name); or a
    DataLoader, whose data set, collate function and workers are used.
    `keep`: the share of candidates that is trained on; `batch`: how many that are.
    `irreducible_loss`: natsel.IrreducibleLoss, a mapping from id to loss, or one number per example. `ids` name the
    examples; without ids they count from 0.
    `loss`, `mode`, `dropout`, `update_statistics`, `precision`, `chunk`: how candidates are scored (`ScoringPass`).
    `augmentation`: changes candidates at random before they are scored, such as natsel.models.CropFlip(); what is
    scored is what is trained on.
    `draws`: with so many passes of dropout per batch of candidates, methods read what these disagree in: bald, entropy,
    conditional-entropy, loss-minus-entropy.
    `uniform_after`: from this epoch on, candidates are not scored, and examples are taken at random.
    `lag=True` scores the next candidates while the training step runs, with weights that are one step old.
    `cuda_graph=True` records the pass over candidates in each epoch and repeats it in one launch: faster where a GPU
    waits for Python, for networks that do the same with each batch.
    `drop_last=True` leaves out the last candidates of an epoch where they are fewer than the others, as batch norm may
    need; by default what a DataLoader says, else False.
    `masks`: facts about examples that `diagnostics` counts; those of natsel.Examples are known already.
    `rank` and `world`: by default those of torch.distributed; each rank selects from its own candidates.

    One iteration runs to the end of the epoch, from where the last one stopped.

    >>> inputs, labels = torch.eye(20), torch.arange(20) % 2
    >>> loader = SelectiveLoader((inputs, labels), nn.Linear(20, 2), irreducible_loss=[0.5] * 20, keep=0.2, batch=2)
    >>> [len(weights) for inputs, labels, weights in loader], loader.diagnostics.candidates
    ([2, 2], 20)
    """

    def __init__(
        self,
        dataset: Any,
        model: nn.Module,
        *,
        method: str | Method = "rho-loss",
        keep: float = 0.1,
        batch: int = 32,
        irreducible_loss: Any = None,
        loss: ExampleLoss | None = None,
        augmentation: Augmentation | None = None,
        mode: Literal["train", "eval"] = "train",
        dropout: bool = True,
        update_statistics: bool = False,
        precision: Literal["bfloat16"] | None = None,
        chunk: int | None = None,
        draws: int | None = None,
        uniform_after: int | None = None,
        lag: bool = False,
        cuda_graph: bool = False,
        drop_last: bool | None = None,
        seed: int = 0,
        ids: Any = None,
        masks: Mapping[str, Any] | None = None,
        inputs_key: str | None = None,
        labels_key: str = "labels",
        rank: int | None = None,
        world: int | None = None,
        device: torch.device | str | None = None,
        **others: Any,
    ) -> None:
        for name in others:
            told = _OTHER_WORDS.get(name, "how data are read is said by a DataLoader, passed as dataset")
            raise ValueError(f"{name}: SelectiveLoader has no such option; {told}")
        _check_sizes(keep, batch, seed, draws, uniform_after)
        keep, batch, seed = float(keep), int(batch), int(seed)  # numbers of NumPy would not go into a file of a state
        draws, uniform_after = (None if one is None else int(one) for one in (draws, uniform_after))
        if not isinstance(model, nn.Module):
            raise ValueError(f"model: expected a torch module, found {type(model).__name__}; pass the network itself")
        self.scoring = ScoringPass(loss, mode, dropout, update_statistics, precision, chunk)
        self.augmentation, self.draws, self.uniform_after = augmentation, draws, uniform_after
        if draws is not None and (mode == "eval" or not dropout):
            raise ValueError("draws: passes differ by their masks of dropout; use mode='train' and dropout=True")
        if lag and update_statistics:
            raise ValueError("update_statistics: with lag=True candidates pass a copy of the network; leave one out")
        self.method, self.keep, self.batch, self.seed, self.lag = resolve(method), keep, batch, seed, bool(lag)
        # Without the wrapper of distributed training: its forward pass would wait for other ranks.
        self.model = model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model
        weight = next(self.model.parameters(), None)
        self.device = torch.device("cpu") if weight is None else weight.device
        if device is not None:
            self.device = as_device(device)
        self.cuda_graph = bool(cuda_graph)
        if self.cuda_graph and (self.device.type != "cuda" or draws is not None):
            found = "draws=" if draws is not None else f"the device {self.device}"
            raise ValueError(f"cuda_graph: needs a CUDA device and one pass per batch, found {found}; leave one out")
        self.rank, self.world = _place(rank, world)
        self.drop_last = isinstance(dataset, DataLoader) and dataset.drop_last if drop_last is None else bool(drop_last)
        self.n_candidates = n_candidates(batch, keep)
        """How many candidates a batch is selected from."""
        self._source, names = source_of(dataset, self.model, self.device, inputs_key, labels_key, ids)
        if len(self._source) < self.world:
            raise ValueError(f"world: {len(self._source)} examples cannot be shared by {self.world} ranks; use fewer")
        if len(self) == 0:
            raise ValueError(
                f"drop_last: {len(self._source) // self.world} examples are fewer than the {self.n_candidates}"
                " candidates of a batch, so that no batch would be left; leave it out, or use a smaller batch"
            )
        self.ids = ids_for(names, len(self._source))
        self._masks = _masks(masks, dataset, self.ids)
        self._irreducible_N = _irreducible(irreducible_loss, self.ids, self._source, named=names is not None)
        self._look_at_sizes()
        self._name = method if isinstance(method, str) else method.name  # as the user has it, in errors
        knows = self._irreducible_N is not None
        tried = min(self.n_candidates, len(self._source) // self.world)  # a tiny share asks for more than there are
        self._needs = _needs_of(self.method, self._name, knows, tried, n_selected(tried, keep), draws)
        self._feature_layer: str | None = None
        self._epoch, self._batch = 0, 0  # of the batch that comes next
        self._counts = self._no_counts()
        self._ahead: _ScoredCandidates | None = None  # with lag: the next candidates, scored or being scored
        self._generator = torch.Generator()  # of the searches, seeded anew for each batch
        self._chosen: _Choice | None = None  # of the next candidates, where a state was saved or loaded
        self._parts: list[nn.Module] = []
        self._copy: _NetworkCopy | None = None
        self._recorded: RecordedPass | None = None
        self._passes = 0  # in this iteration
        self._gaps: list[float] | None = []  # by epoch: how much more often the selected were predicted right
        self._stream: torch.cuda.Stream | None = None

    def __len__(self) -> int:
        """How many batches an epoch has."""
        whole, rest = divmod(len(self._source) // self.world, self.n_candidates)
        return whole + (rest > 0 and not self.drop_last)

    def __repr__(self) -> str:
        return (
            f"SelectiveLoader({len(self._source)} examples; {self.batch} of {self.n_candidates} candidates by"
            f" {self._name}; next: epoch {self._epoch}, batch {self._batch})"
        )

    @property
    def diagnostics(self) -> SelectionCounts:
        """What was selected in the epoch that the last batch belongs to, so far."""
        return self._counts

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands, in plain values; saved after a training step, it resumes with the batch after it."""
        if self._ahead is not None and self._chosen is None:
            self._chosen = self._choose(self._ahead)  # of weights that will be gone
        chosen = None
        if self._chosen is not None:
            parts = self._chosen._asdict() | {"counts": vars(self._chosen.counts)}
            chosen = {name: part.tolist() if isinstance(part, np.ndarray) else part for name, part in parts.items()}
        place = {"epoch": self._epoch, "batch": self._batch, "chosen": chosen, "counts": vars(self._counts)}
        return sealed(copy.deepcopy({**self._settings(), **place}))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where another loader of the same data, seed and sizes stood."""
        if not isinstance(state, Mapping) or sealed(state) != state:
            raise ValueError("state: is not as state_dict() gave it; pass the one that was saved, with nothing changed")
        for name, own in self._settings().items():
            if state.get(name) != own:
                raise ValueError(
                    f"state: was saved with {name} {state.get(name)!r}, this loader has {own!r}; make the loader alike"
                )
        state = copy.deepcopy(dict(state))
        self._epoch, self._batch = state["epoch"], state["batch"]
        self._counts = SelectionCounts(**state["counts"])
        chosen = state["chosen"]
        self._ahead, self._chosen = None, None
        if chosen is not None:
            arrays = {name: np.array(part) for name, part in chosen.items() if name.endswith("_B") and part is not None}
            self._chosen = _Choice(**chosen | arrays | {"counts": SelectionCounts(**chosen["counts"])})

    def _settings(self) -> dict[str, Any]:
        """What has to be the same where a state is loaded; each rank has a state of its own."""
        return {
            "n_examples": len(self._source),
            "data": self._data,
            "n_candidates": self.n_candidates,
            "drop_last": self.drop_last,
            "keep": self.keep,
            "seed": self.seed,
            "method": self.method.name,
            "draws": self.draws,
            "uniform_after": self.uniform_after,
            "rank": self.rank,
            "world": self.world,
        }

    @cached_property
    def _data(self) -> str:
        """What names the examples, of which 64 labels stand for those that others read, their ids and losses."""
        rows = self._source.examples
        known = _some_labels(self._source) if rows is None else examples_fingerprint(rows)
        return fingerprint(known, keys_of(self.ids), self._irreducible_N)

    def __iter__(self) -> Iterator[SelectedBatch]:
        current, self._ahead = self._ahead, None  # where an iteration was left: what it read and scored already
        ahead = current is not None
        if current is not None and self._chosen is None:
            self._chosen = self._choose(current)
        if self._batch == 0:
            self._counts = self._no_counts()
        # Parts may have been replaced since.
        self._parts, self._copy, self._recorded, self._passes = list(self.model.modules()), None, None, 0
        reader = self._candidates(self._batch + ahead)
        if current is None:
            current = next(reader, None)
        if current is not None and self._chosen is None:
            current = self._scored(current)
        while current is not None:
            choice = self._chosen or self._choose(current)
            self._chosen = None
            following = next(reader, None) if self.lag else None
            # Before the step runs, which is what makes its weights one step old.
            self._ahead = None if following is None else self._scored(following)
            self._counts = self._counts.plus(choice.counts)
            self._batch += 1
            if self._batch == len(self):
                self._epoch, self._batch = self._epoch + 1, 0
                self._warn_of_turn()
            yield self._selected(current, choice)
            if self.lag:
                current = self._ahead
            else:
                current = next(reader, None)
                current = None if current is None else self._scored(current)

    def _candidates(self, first: int) -> Iterator[_ScoredCandidates]:
        """The candidates of the epoch from a batch on."""
        epoch, size = self._epoch, (len(self._source), self.n_candidates)
        batches = epoch_batches(*size, self.seed, epoch, self.rank, self.world)[first : len(self)]
        read = self._source.batches(batches, derive(self.seed, "workers", epoch, self.rank))
        for number, (positions_N, (inputs, labels)) in enumerate(zip(batches, read, strict=True), first):
            if self.augmentation is not None:
                if not isinstance(inputs, Tensor):
                    raise ValueError(
                        f"augmentation: changes one tensor of inputs, found {type(inputs).__name__}; say inputs_key=,"
                        " or augment inside the data set"
                    )
                drawn = torch.Generator(self.device)
                drawn.manual_seed(derive(self.seed, "augmentation", epoch, number, self.rank))
                inputs = self.augmentation(inputs, drawn)
            yield _ScoredCandidates(epoch, number, positions_N, inputs, labels)

    def _scored(self, candidates: _ScoredCandidates) -> _ScoredCandidates:
        """Candidates with their losses; with lag on an accelerator, while something else goes on there."""
        if self.uniform_after is not None and candidates.epoch >= self.uniform_after:
            return candidates
        if self._needs.features and self._feature_layer is None:
            self._feature_layer = _last_layer(self.model, candidates.inputs, self.device)
        if self.device.type != "cuda":
            return self._passed(candidates, self.model, self._parts)
        done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        if not self.lag:
            scored = self._passed(candidates, self.model, self._parts)
            done.record(torch.cuda.current_stream(self.device))
            return scored._replace(done=done)
        if self._copy is None:
            self._copy = _NetworkCopy.of(self.model)
            self._stream = self._stream or torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        assert self._stream is not None
        self._copy.update(self._parts)
        self._stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._stream):
            scored = self._passed(candidates, self._copy.network, self._copy.parts)
            done.record(self._stream)
        return scored._replace(done=done)

    def _passed(self, candidates: _ScoredCandidates, network: nn.Module, parts: list[nn.Module]) -> _ScoredCandidates:
        """Candidates with what a network says about them; what the choice reads on the CPU is on its way there.

        By losses one chooses on the CPU: an accelerator would be waited for after each of many small operations.
        """
        inputs, labels, correct_N = candidates.inputs, candidates.labels, None
        seed = derive(self.seed, "dropout", candidates.epoch, candidates.number, self.rank)
        if self.draws is None:
            result = self._one_pass(network, inputs, labels, seed, parts)
        else:
            result = self.scoring.draws(network, inputs, labels, [derive(seed, i) for i in range(self.draws)], parts)
            dropped = [one.p for one in parts if isinstance(one, _DropoutNd) and one.training == parts[0].training]
            table_N_K_C = result.log_probs_N_K_C
            if table_N_K_C is not None and not any(dropped) and bool((table_N_K_C == table_N_K_C[:, :1]).all()):
                raise ValueError("draws: all passes predict the same; use a network with dropout, or leave draws out")
        if result.logits_N_C is not None and labels.ndim == 1 and not labels.is_floating_point():
            correct_N = (result.logits_N_C.argmax(1) == labels).to("cpu", non_blocking=True)
        if not self._needs.logits:
            result = PassResult(result.loss_N.to("cpu", non_blocking=True), None)
        return candidates._replace(result=result, correct_N=correct_N)

    def _one_pass(
        self, network: nn.Module, inputs: Any, labels: Tensor, seed: int, parts: list[nn.Module]
    ) -> PassResult:
        """The first pass of an iteration as it comes, which makes the device ready; then recorded ones."""
        self._passes += 1
        if self.cuda_graph and self._passes == 2:
            if not isinstance(inputs, Tensor):
                raise ValueError(
                    f"cuda_graph: records one tensor of inputs, found {type(inputs).__name__}; leave it out"
                )
            self._recorded = RecordedPass(self.scoring, network, inputs, labels, self._feature_layer, parts)
        if self._recorded is not None and self._recorded.fits(inputs, labels):
            return self._recorded(inputs, labels, seed)
        return self.scoring(network, inputs, labels, seed, self._feature_layer, parts)

    def _choose(self, candidates: _ScoredCandidates) -> _Choice:
        """Which candidates are trained on: those that the method selects, or any where they were not scored."""
        if candidates.result is None:
            result = PassResult(torch.zeros(len(candidates.positions_N)), None)
            return self._chosen_by(METHODS["random"], candidates, result, None, None)
        result, positions_N = candidates.result, candidates.positions_N
        if candidates.done is not None:  # the one wait in a step; with lag the step before hides it
            candidates.done.synchronize()
        if self._needs.logits and result.logits_N_C is None:
            raise ValueError(
                f"method: {self._name} reads logits, but the network gives no row of them per example; use"
                " rho-loss or loss"
            )
        irreducible_N = None if self._irreducible_N is None else self._irreducible_N[positions_N]
        known_N = candidates.labels if self._needs.labels else None
        return self._chosen_by(self.method, candidates, result, irreducible_N, known_N)

    def _chosen_by(
        self,
        method: Method,
        candidates: _ScoredCandidates,
        result: PassResult,
        irreducible_N: Array | None,
        known_N: Tensor | None,
    ) -> _Choice:
        positions_N = candidates.positions_N
        # NumPy takes a fifth of the time of torch for so few numbers.
        finite_N = np.isfinite(result.loss_N.cpu().numpy())
        if irreducible_N is not None:
            finite_N &= np.isfinite(irreducible_N)
        belief: Belief
        if result.log_probs_N_K_C is None:
            belief = ExampleLosses(result.loss_N, irreducible_N, result.logits_N_C, result.features_N_D)
        else:
            belief = IndependentSamples(result.log_probs_N_K_C)
        count, wanted = int(finite_N.sum()), n_selected(len(positions_N), self.keep)
        warnings: tuple[str, ...] = ()
        if count < len(positions_N):
            rows_n = finite_N.nonzero()[0]
            if count < wanted:
                raise ValueError(
                    f"loss: only {count} of {len(positions_N)} candidates have a finite loss, and {wanted} are wanted"
                    f" (epoch {candidates.epoch}, batch {candidates.number}; not finite:"
                    f" {_named(self.ids[positions_N[~finite_N]])}); look for a diverged network"
                )
            belief, known_N = belief[rows_n], None if known_N is None else known_N[rows_n]
            warnings = (f"losses: {len(positions_N) - count} of {len(positions_N)} are not finite and were left out",)
        seed = derive(self.seed, "select", candidates.epoch, candidates.number, self.rank)
        picks, said = _picked(method, belief, wanted, known_N, self._generator.manual_seed(seed))
        rows_B = belief.ids[picks.positions.cpu().numpy()]
        return _Choice(
            rows_B,
            None if picks.weights is None else picks.weights.numpy(),
            picks.scores.numpy(),
            (*warnings, *said),
            self._counted(candidates, rows_B, len(positions_N) - count),
        )

    def _counted(self, candidates: _ScoredCandidates, rows_B: Array, not_finite: int) -> SelectionCounts:
        positions_N, correct_N = candidates.positions_N, candidates.correct_N
        taken_B = positions_N[rows_B]
        return SelectionCounts(
            candidates.epoch,
            1,
            len(positions_N),
            len(taken_B),
            not_finite,
            None if correct_N is None else int(correct_N.numpy()[rows_B].sum()),
            {name: int(mask_N[taken_B].sum()) for name, mask_N in self._masks.items()},
            {name: int(mask_N[positions_N].sum()) for name, mask_N in self._masks.items()},
            None if correct_N is None else int(correct_N.sum()),
        )

    def _selected(self, candidates: _ScoredCandidates, choice: _Choice) -> SelectedBatch:
        rows_B = torch.from_numpy(choice.rows_B).to(self.device, non_blocking=True)
        if choice.weights_B is None:
            weights_B = torch.ones(len(rows_B), device=self.device)
        else:
            weights_B = torch.from_numpy(choice.weights_B).to(self.device, torch.float32, non_blocking=True)
        return SelectedBatch(
            inputs=parts_of(candidates.inputs, rows_B),
            labels=parts_of(candidates.labels, rows_B),
            weights=weights_B,
            ids=self.ids[candidates.positions_N[choice.rows_B]],
            scores=torch.from_numpy(choice.scores_B),
            warnings=tuple(choice.warnings),
        )

    def _look_at_sizes(self) -> None:
        """Refuse candidates that batch norm cannot score; warn of what may not be meant."""
        *parts, last = self.model.modules()
        each, size, mode = len(self._source) // self.world, self.n_candidates, self.model.training
        # Of pictures the pixels of one are enough, and statistics of all ranks together are those of another layer.
        norm = any(isinstance(part, nn.BatchNorm1d) and part.training == mode for part in (*parts, last))
        alone = 1 in (size, each) or (each % size == 1 and not self.drop_last)
        if alone and norm and self.scoring.mode == "train":
            raise ValueError(
                f"drop_last: {each} examples in batches of {size} candidates leave one alone, of which batch norm has"
                " no statistics; pass drop_last=True, another batch=, or mode='eval'"
            )
        if self.batch > each:
            warnings.warn(f"batch: found {self.batch}, and all {each} examples make one batch; lower it", stacklevel=3)
        if isinstance(last, nn.Softmax) and self.scoring.loss is None:
            warnings.warn("model: ends in Softmax, and cross-entropy takes logits; leave Softmax out", stacklevel=3)

    def _warn_of_turn(self) -> None:
        """Warn, once, where the labels that are selected are those that the network does not come to predict."""
        now, gaps = self._counts, self._gaps
        if self._irreducible_N is None or gaps is None or now.correct is None or now.candidates_correct is None:
            return
        gaps.append(now.correct / now.selected - now.candidates_correct / now.candidates)
        if sum(gap > 0.1 for gap in gaps) > 1 and sum(gaps[-2:]) < 0:  # one epoch of few examples tells little
            self._gaps = None
            warnings.warn(
                f"epoch {now.epoch}: the selected examples are predicted right less often than the candidates, after"
                " they had been more often, and may be wrong labels; stop here, or use uniform_after=",
                stacklevel=3,
            )

    def _no_counts(self) -> SelectionCounts:
        zeros = dict.fromkeys(self._masks, 0)
        return SelectionCounts(self._epoch, selected_by_mask=zeros, candidates_by_mask=zeros)


def _picked(
    method: Method, belief: Belief, k: int, labels_N: Tensor | None, generator: torch.Generator
) -> tuple[Picks, tuple[str, ...]]:
    """The picks of `natsel.select`, and warnings.

    What `select` works out besides (the worth of the batch, its part of the belief) takes as long as the picks: for
    320 candidates a quarter of a millisecond in each step.
    """
    known_N = None if labels_N is None else belief.checked_labels(labels_N, "labels")
    context: Context[Belief] = Context(None, known_N, generator)
    state, _, approximations = read_and_warn(method.objective, belief, context, method.search.needs)
    order_of(state).wanted = k
    picks = method.search(state, k, torch.ones(len(belief), dtype=torch.bool), generator)
    return picks, (*approximations, *state.warnings, *order_of(state).warnings, *picks.notes)


def _check_sizes(keep: Any, batch: Any, seed: Any, draws: Any, uniform_after: Any) -> None:
    if isinstance(keep, bool) or not isinstance(keep, int | float | np.floating) or not 0 < keep <= 1:
        raise ValueError(f"keep: expected a share above 0 and up to 1, found {keep!r}; 0.1 trains on one in ten")
    sizes = [("batch", batch, 1), ("seed", seed, 0)]
    sizes += [] if draws is None else [("draws", draws, 2)]
    sizes += [] if uniform_after is None else [("uniform_after", uniform_after, 0)]
    for name, value, least in sizes:
        if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
            raise ValueError(f"{name}: expected a whole number from {least}, found {value!r}; the default will do")


def _place(rank: int | None, world: int | None) -> tuple[int, int]:
    """Which rank this is, of how many."""
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    ranks = (torch.distributed.get_rank(), torch.distributed.get_world_size()) if distributed else (0, 1)
    found = ranks[0] if rank is None else rank, ranks[1] if world is None else world
    if not all(isinstance(one, Integral) for one in found) or not 0 <= found[0] < found[1]:
        raise ValueError(f"rank: expected 0 to {found[1] - 1} for a world of {found[1]}, found {found[0]}; pass both")
    return found


def _masks(masks: Mapping[str, Any] | None, dataset: Any, ids: IdArray) -> dict[str, Array]:
    """Truth values over examples: those that came with them, and those given; copies, which nobody else can change."""
    own = dataset.masks if isinstance(dataset, Examples) else {}
    found = {name: mask_N.copy() for name, mask_N in own.items() if mask_N.dtype == bool and mask_N.ndim == 1}
    for name, mask in (masks or {}).items():
        mask_N = as_numpy(_in_order(mask, ids, f"masks: {name!r}"))
        if mask_N.dtype != bool or mask_N.shape != ids.shape:
            raise ValueError(
                f"masks: {name!r} should hold True or False for each of {len(ids)} examples, found {mask_N.dtype} of"
                f" shape {mask_N.shape}"
            )
        found[name] = mask_N.copy()
    return found


def _in_order(column: Any, ids: IdArray, name: str) -> Any:
    """A column of pandas in the order of the ids, anything else as it is."""
    return column if index_of(column) is None else aligned(column, ids, name, listed=True, what="examples")[0]


def _irreducible(given: Any, ids: IdArray, source: CandidateSource, named: bool) -> Array | None:
    """One irreducible loss per example in float64; missing ones are refused.

    `named`: whether examples have ids of their own. Without them the first row of the data would get the first loss of
    a table, also where the data are another part of those that the table was made of.
    """
    if given is None:
        return None
    if isinstance(given, IrreducibleLoss | Mapping) and not named and len(given) > len(ids):
        raise ValueError(
            f"irreducible_loss: the table holds {len(given)} examples, found {len(ids)}; say by ids= which of the table"
            " these are, or make a table of these"
        )
    if isinstance(given, IrreducibleLoss):
        if len(given) == len(ids) and _belongs(given, ids, source, named):
            return np.array(given.loss_N, dtype=np.float64)
        there = are_among(ids, given.ids)
        loss_N = np.full(len(ids), np.nan)
        loss_N[there] = given.at(ids[there]).numpy()
    elif isinstance(given, Mapping):
        loss_N = np.array(
            [given.get(key, given.get(id, math.nan)) for id, key in zip(ids.tolist(), keys_of(ids), strict=True)],
            dtype=np.float64,
        )
    else:
        loss_N = as_numpy(_in_order(given, ids, "irreducible_loss"))
        if loss_N.dtype.kind not in "biuf":
            raise ValueError(
                f"irreducible_loss: expected numbers, found {loss_N.dtype}; pass one loss per example, or a table"
            )
        loss_N = loss_N.astype(np.float64)
    if loss_N.shape != ids.shape:
        raise ValueError(
            f"irreducible_loss: expected one for each of {len(ids)} examples, found shape {loss_N.shape}; pass as"
            " many, or a mapping from ids"
        )
    absent = np.isnan(loss_N)
    if absent.any():
        raise ValueError(f"irreducible_loss: none is known for {_named(ids[absent])}; make one for each, or pass ids=")
    return loss_N.copy()


def _belongs(table: IrreducibleLoss, ids: IdArray, source: CandidateSource, named: bool) -> bool:
    """Whether the losses of as many examples are in the order of these rows; those of other rows are refused."""
    rows, order_N = source.examples, np.arange(len(ids))
    if rows is not None:
        if named:
            place_of = {key: place for place, key in enumerate(keys_of(ids))}
            order_N = np.array([place_of.get(key, -1) for key in keys_of(table.ids)])
        same = order_N.min() < 0 or table.are_of(rows if (order_N[1:] > order_N[:-1]).all() else rows[order_N])
    elif not (same := named):
        labels = _some_labels(source)  # 64 tell
        same = labels.ndim > 1 or labels.dtype.kind not in "iu" or table.are_of(None, labels.astype("<i8"))
    if not same:
        raise ValueError(
            f"irreducible_loss: these irreducible losses belong to {len(table)} other examples, or to these in another"
            f" order ({table.about or 'no more is known'}); say by ids= which these are, or make a table of these"
        )
    return not named and rows is not None and bool(table.fingerprint)


def _some_labels(source: CandidateSource) -> Array:
    with torch.random.fork_rng(devices=[]):  # a data set may draw
        return as_numpy(next(source.batches([sample(len(source))], 0))[1].cpu())


def _needs_of(
    method: Method, name: str, knows_irreducible: bool, n_rows: int, k: int, draws: int | None = None
) -> _Needs:
    """What a method reads, found by trying it on made-up candidates; refused where it cannot select from any."""
    found, reason = tried_on_candidates(method, knows_irreducible, n_rows, k, draws)
    if found is not None:
        return found
    if draws is not None:
        raise ValueError(
            f"method: {name} cannot select from draws of predictions ({reason}); leave draws out, or use bald, entropy,"
            " conditional-entropy or loss-minus-entropy"
        )
    if not knows_irreducible and tried_on_candidates(method, True, n_rows, k)[0] is not None:
        raise ValueError(
            f"irreducible_loss: {name} needs one per example; pass natsel.IrreducibleLoss.fit(…), or use method='loss'"
        )
    raise ValueError(
        f"method: {name} cannot select from losses, logits and features of one network ({reason}); use rho-loss,"
        " loss, grad-norm, grad-norm-is, entropy or random; some methods want draws="
    )


def tried_on_candidates(
    method: Method, knows_irreducible: bool, n_rows: int, k: int, draws: int | None = None
) -> tuple[_Needs | None, str]:
    """What a method needs to select k of some made-up candidates, else why it cannot."""
    generator, reason = torch.Generator().manual_seed(0), ""
    loss_N, irreducible_N = torch.rand(2, n_rows, generator=generator)
    logits_N_C, features_N_D = torch.randn(2, n_rows, 3, generator=generator)
    labels_N = torch.arange(n_rows) % 3
    ways = [_Needs(bool(i % 2), i > 1, i > 3) for i in range(6)]
    for needs in ways if draws is None else ways[2:4]:
        belief: Belief = ExampleLosses(
            loss_N,
            irreducible_N if knows_irreducible else None,
            logits_N_C if needs.logits else None,
            features_N_D if needs.features else None,
        )
        if draws is not None:
            log_probs_N_K_C = torch.randn(n_rows, draws, 3, generator=generator).log_softmax(2)
            belief = IndependentSamples(log_probs_N_K_C)
        try:
            found = select(method, belief, k, labels=labels_N if needs.labels else None)
            return needs._replace(weights=found.weights is not None), ""
        except ValueError as refusal:
            reason = str(refusal)
    return None, reason


def _last_layer(network: nn.Module, inputs: Any, device: torch.device) -> str:
    """The name of the last linear layer that a network calls."""
    if not isinstance(inputs, Tensor):
        raise ValueError(
            "method: features of the last layer are read where inputs are one tensor; use rho-loss or loss"
        )
    layer, _ = last_linear(network, inputs[:2], device)
    found: str = next(name for name, part in network.named_modules() if part is layer)
    return found


def _named(ids: IdArray) -> str:
    """A few ids, and how many there are besides."""
    keys = keys_of(ids)
    return ", ".join(map(repr, keys[:5])) + (f" and {len(keys) - 5} more" if len(keys) > 5 else "")


def _sum(one: Any, other: Any) -> Any:
    """Two counts together, None where one is not known, and counts by name."""
    if isinstance(one, Mapping):
        return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}
    return None if one is None or other is None else one + other
