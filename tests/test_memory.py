"""The memory budget and the chunks cut by it: every row once, right after running out of memory, always restored."""

import inspect
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel
from natsel import memory
from natsel.memory import chunked, memory_budget, rows_per_chunk

CPU = torch.device("cpu")
GIB = 1 << 30


@pytest.fixture(autouse=True)
def default_budget():
    with memory_budget(GIB):
        yield


class Worker:
    """Doubles the rows it is given and remembers how it was called; fails while a chunk has more than `most` rows."""

    def __init__(self, count, most=None, failure=None):
        self.rows = torch.arange(count)
        self.most, self.failure = most, failure
        self.done, self.tried = [], []

    def __call__(self, part):
        self.tried.append((part.start, part.stop))
        if self.most is not None and part.stop - part.start > self.most:
            raise self.failure
        self.done.append((part.start, part.stop))
        return self.rows[part] * 2


def assert_covers(parts, count):
    """The parts follow each other from 0 to count without gap, overlap or empty piece."""
    assert parts[0][0] == 0
    assert parts[-1][1] == count
    assert all(a < b for a, b in parts)
    assert all(before[1] == after[0] for before, after in itertools.pairwise(parts))


def test_default_budget_is_one_gibibyte():
    assert memory._budget == memory_budget() == GIB
    assert inspect.unwrap(natsel.memory_budget) is inspect.unwrap(memory_budget)


@settings(deadline=None)
@given(count=st.integers(1, 400), budget=st.integers(1, 5000), each=st.integers(0, 600))
def test_chunked_covers_every_row_once_whatever_the_budget(count, budget, each):
    worker = Worker(count)
    with memory_budget(budget):
        result = chunked(worker, count, each, CPU)
    assert torch.equal(result, torch.arange(count) * 2)
    assert_covers(worker.done, count)
    assert all(b - a == 1 or (b - a) * each <= budget for a, b in worker.done)


def test_a_chunk_takes_as_many_rows_as_fit():
    worker = Worker(10)
    with memory_budget(48):
        chunked(worker, 10, 16, CPU)
    assert worker.done == [(0, 3), (3, 6), (6, 9), (9, 10)]


def test_a_row_larger_than_the_budget_goes_alone():
    with memory_budget(10):
        assert rows_per_chunk(11, CPU) == 1


def test_cpu_chunks_stay_in_the_cache_and_other_devices_use_the_whole_budget():
    assert rows_per_chunk(1 << 10, CPU) * (1 << 10) <= 1 << 24
    assert rows_per_chunk(1 << 10, torch.device("cuda")) == GIB >> 10


def test_no_rows_are_one_call_on_the_empty_slice():
    worker = Worker(0)
    result = chunked(worker, 0, 8, CPU)
    assert worker.done == [(0, 0)]
    assert result.shape == (0,)
    assert result.dtype == torch.int64


def test_trailing_axes_and_dtype_survive():
    table_N_K = torch.rand(7, 3, dtype=torch.float32)
    with memory_budget(24):
        result = chunked(lambda part: table_N_K[part], 7, 12, CPU)
    assert torch.equal(result, table_N_K)
    assert result.dtype == torch.float32


OUT_OF_MEMORY = [
    MemoryError(),
    torch.OutOfMemoryError("CUDA out of memory"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried ..."),
]


@pytest.mark.parametrize("failure", OUT_OF_MEMORY, ids=["python", "accelerator", "cpu allocator"])
@pytest.mark.parametrize("most", [1, 3, 10, 99])
def test_out_of_memory_halves_the_chunk_and_the_result_is_right(failure, most):
    worker = Worker(100, most, failure)
    assert torch.equal(chunked(worker, 100, 1, CPU), torch.arange(100) * 2)
    assert_covers(worker.done, 100)
    tried = [b - a for a, b in worker.tried]
    assert tried[:2] == [100, 50]
    assert len(worker.tried) > len(worker.done)


def test_after_running_out_of_memory_later_chunks_stay_small():
    worker = Worker(64, 8, MemoryError())
    chunked(worker, 64, 1, CPU)
    assert len(worker.tried) - len(worker.done) == 3  # 64, 32 and 16 failed, each once


def test_memory_made_scarce_at_the_seam(monkeypatch):
    plain = memory.run

    def scarce(work, part):
        if part.stop - part.start > 5:
            raise torch.OutOfMemoryError
        return plain(work, part)

    monkeypatch.setattr(memory, "run", scarce)
    worker = Worker(23)
    assert torch.equal(chunked(worker, 23, 1, CPU), torch.arange(23) * 2)
    assert max(b - a for a, b in worker.done) <= 5


@pytest.mark.parametrize("failure", OUT_OF_MEMORY, ids=["python", "accelerator", "cpu allocator"])
def test_a_single_row_that_does_not_fit_is_an_error(failure):
    worker = Worker(4, 0, failure)
    with pytest.raises(type(failure)) as raised:
        chunked(worker, 4, 1, CPU)
    assert raised.value is failure
    assert worker.tried == [(0, 4), (0, 2), (0, 1)]


@pytest.mark.parametrize("failure", [RuntimeError("shapes do not match"), ValueError("no"), KeyError("alloc")])
def test_other_failures_pass_through_at_once(failure):
    worker = Worker(4, 0, failure)
    with pytest.raises(type(failure)):
        chunked(worker, 4, 1, CPU)
    assert worker.tried == [(0, 4)]


def test_the_budget_is_restored_after_the_block():
    with memory_budget(1000):
        assert memory_budget() == 1000
    assert memory_budget() == GIB


def test_the_budget_is_restored_after_an_exception():
    with pytest.raises(KeyError), memory_budget(1000):
        raise KeyError
    assert memory_budget() == GIB


def test_nested_budgets_unwind_in_order():
    with memory_budget(1000):
        with memory_budget(10):
            assert memory_budget() == 10
        assert memory_budget() == 1000
        with memory_budget(2000):
            assert memory_budget() == 2000
        assert memory_budget() == 1000
    assert memory_budget() == GIB


def test_without_a_block_the_budget_stays():
    memory_budget(4096)
    assert memory_budget() == 4096


@pytest.mark.parametrize("size", [0, -1, 0.5, float("nan"), "1GB"])
def test_bad_sizes_are_refused_and_change_nothing(size):
    with pytest.raises(ValueError, match=r"memory_budget: .*bytes"):
        memory_budget(size)
    assert memory_budget() == GIB


def test_the_budget_does_not_change_results():
    generator = torch.Generator().manual_seed(0)
    belief = natsel.CategoricalSamples.from_logits(torch.randn(50, 6, 4, generator=generator))
    whole = natsel.score("bald", belief)
    for budget in (1, 1000, 20_000):
        with memory_budget(budget):
            assert torch.allclose(natsel.score("bald", belief), whole, rtol=0, atol=1e-6)
