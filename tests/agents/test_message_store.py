"""Parallel messages: read once for all receivers of one model, with the same replies."""

from __future__ import annotations

import pytest
import torch

from goa_torch.agents.hf import HFModel
from goa_torch.agents.message_store import MessageStore
from goa_torch.types import Chat, Heard, Message, Sampling, Span
from tests.agents.tiny import save_tiny

SAMPLING = Sampling(0.8, max_new_tokens=6)
REPLIES = ["the answer is A because rivers flow", "it must be B, everybody says so", "C, as nine is not prime",
           "no answer is right, I believe so", "seven, eight, nine, ten: D"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("store") / "m")


def chat(me, parallel, question="which number is prime, and which rivers flow downhill? 4, 6, 7 or 9"):
    how = {number: Heard(0.5 + 0.2 * number, "receiver", parallel) for number in range(len(REPLIES)) if number != me}
    heard = [part for number, loud in how.items()
             for part in (Span("\nreply "), Span(REPLIES[number], sender=number, heard=loud))]
    return Chat((Message("user", (Span(question), *heard, Span(f"\nown {REPLIES[me]}\nyour turn"))),), me)


def said(folder, parallel, prefix_tokens):
    model = HFModel(folder, dtype="float32", prefix_tokens=prefix_tokens, name=f"{parallel}-{prefix_tokens}")
    replies = model.generate([chat(me, parallel) for me in range(5)], SAMPLING)
    model.close()
    return replies


def test_receivers_that_share_messages_say_what_they_said_without_sharing(folder):
    shared, alone = said(folder, True, 1 << 14), said(folder, True, 0)
    assert [r.text for r in shared] == [r.text for r in alone]
    assert [r.usage.prompt_tokens for r in shared] == [r.usage.prompt_tokens for r in alone]
    assert sum(r.usage.cached_tokens for r in alone) == 0 < sum(r.usage.cached_tokens for r in shared)


def test_parallel_messages_share_more_than_sequential_ones(folder):
    parallel, sequential = (sum(r.usage.cached_tokens for r in said(folder, how, 1 << 14)) for how in (True, False))
    assert parallel > 1.3 * sequential


def test_a_message_is_another_one_after_another_question(folder):
    model = HFModel(folder, dtype="float32", prefix_tokens=1 << 14)
    model.generate([chat(me, True) for me in range(5)], SAMPLING)
    other = [chat(me, True, "What is the capital of France, one two three four five?") for me in range(2)]
    fresh = HFModel(folder, dtype="float32", prefix_tokens=0)
    assert [r.text for r in model.generate(other, SAMPLING)] == [r.text for r in fresh.generate(other, SAMPLING)]


def test_the_question_is_known_from_plain_prompts():
    marks = [(number, number, -1) for number in range(40)]
    marks += [(9, 40 + place, 0) for place in range(9)] + [(1, 49, -1, ())]
    plain, store = list(range(45)), MessageStore(100)
    keys = store.block_keys(plain)
    store.expect([keys, keys])
    store.put(plain, keys, lambda n: [torch.zeros(2, 2, n, 4)])
    tensors, known = store.match(marks, store.block_keys(marks))
    assert known == 39 and tensors[0].shape[2] >= 39  # all but the last token of the question


def test_the_budget_counts_messages():
    marks = [(7, place, -1) for place in range(20)] + [(9, 20 + place, 0) for place in range(30)] + [(1, 60, -1, ())]
    store = MessageStore(40)
    keys = store.block_keys(marks)
    store.expect([keys, keys])
    store.put(marks, keys, lambda n: [torch.zeros(2, 2, n, 4)])
    tensors, known = store.match(marks, keys)
    assert tensors is None and known == 0  # the question was let go: 50 tokens are more than 40
    store = MessageStore(60)
    store.expect([keys, keys])
    store.put(marks, keys, lambda n: [torch.zeros(2, 2, n, 4)])
    tensors, known = store.match(marks, keys)
    assert known == 50 and tensors[0].shape == (2, 2, 50, 4)
    store.room(0)
    assert store.match(marks, keys) == (None, 0)
