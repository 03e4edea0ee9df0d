from __future__ import annotations

import torch

from goa_torch.agents.calls import Recorder
from goa_torch.nn.agent_conv import first_answers
from goa_torch.nn.readout import LastReadout, MaxReadout, MeanReadout, VoteReadout, domain_rank
from goa_torch.nn.selection import Everyone
from goa_torch.types import Reply
from tests.worlds import echo_pool, questions


def make_state(said, seed=0, names=None, n_questions=1):
    pool = echo_pool(lambda chat: "synthesis z", n=len(said), names=names)
    asked = questions(n_questions)
    state = Everyone()(asked, pool, Recorder(asked, seed, pool.sampling))
    first_answers(state)
    by_name = dict(zip(sorted(a.name for a in pool.agents), said))
    state.replies = [said_by if isinstance(said_by := by_name[state.agent_of(v).name], Reply)
                     else Reply(f"I say {said_by}", answer=said_by) for v in range(state.num_nodes)]
    state.initial = list(state.replies)
    return state


def test_the_majority_wins_and_unparsed_answers_abstain():
    assert VoteReadout()(make_state(["a", "b", "b", None, None, None]))[0].answer == "b"


def test_a_vote_without_votes_is_no_answer():
    [reply] = VoteReadout()(make_state([None, None]))
    assert reply.answer is None and not reply.failed


def test_a_tie_is_the_same_for_every_listing_and_differs_between_seeds():
    names = ["general", "code", "math", "biomedical"]
    drawn = set()
    for seed in range(12):
        winners = {VoteReadout()(make_state(["a", "b", "b", "a"], seed, order))[0].answer
                   for order in (names, names[::-1])}
        assert len(winners) == 1
        drawn |= winners
    assert drawn == {"a", "b"}


def test_a_weighted_vote_adds_relevance():
    state = make_state(["a", "b", "b"])
    state.relevance = torch.tensor([2.0, 0.5, 0.5])
    assert VoteReadout(weighted=True)(state)[0].answer == "a"
    assert VoteReadout()(state)[0].answer == "b"


def test_max_takes_the_top_source():
    state = make_state(["a", "b", "c"])
    state.relevance = torch.tensor([0.1, 0.2, 0.9])
    assert MaxReadout()(state)[0].answer == "c"
    assert not [c for c in state.recorder.calls[0] if c.purpose == "readout"]


def test_equal_sources_go_by_name_or_in_the_released_order_of_domains():
    state = make_state(["a", "b", "c", "d"])  # biomedical, code, general, math
    state.relevance = torch.ones(4)
    assert MaxReadout()(state)[0].answer == "a"
    assert MaxReadout(domain_rank)(state)[0].answer == "c"


def test_mean_asks_the_meta_llm_once_and_shows_survivors_only():
    state = make_state(["a", "b", "c"])
    state.relevance = torch.tensor([1.5, 1.0, 0.5])
    state.kept = torch.tensor([True, False, True])
    [reply] = MeanReadout()(state)
    chat = state.pool.meta.model.chats[-1]
    assert reply.text == "synthesis z" and chat.senders == [0, 2]
    assert "relevance: high" in chat.text and "relevance: low" in chat.text


def test_a_lone_survivor_needs_no_synthesis_unless_asked_for():
    state = make_state(["a", "b"])
    state.relevance, state.kept = torch.tensor([1.0, 0.0]), torch.tensor([True, False])
    assert MeanReadout()(state)[0].answer == "a"
    assert MeanReadout(always=True)(state)[0].text == "synthesis z"


def test_failed_replies_are_not_read_out():
    state = make_state(["a", Reply.failure("gone"), "c"])
    MeanReadout()(state)
    assert state.pool.meta.model.chats[-1].senders == [0, 2]
    assert LastReadout()(make_state(["a"]))[0].answer == "a"


def test_an_empty_graph_reads_out_a_failure():
    pool = echo_pool(n=1)
    asked = questions(1)
    from goa_torch.state import State

    state = State.collate(asked, pool, Recorder(asked, 0, pool.sampling), [[]])
    for readout in (MaxReadout(), MeanReadout(), VoteReadout(), LastReadout()):
        assert readout(state)[0].failed


def test_a_vote_after_everybody_failed_is_a_failure_and_after_everybody_was_cut_off_is_unfinished():
    failed, cut_off = Reply.failure("gone"), Reply("I say", "length")
    [reply] = VoteReadout()(make_state([failed, failed]))
    assert reply.failed and "vote" in reply.error
    assert VoteReadout()(make_state([cut_off, cut_off]))[0].finish_reason == "length"
    assert VoteReadout()(make_state([cut_off, failed, None]))[0].finish_reason == "stop"


def test_a_synthesis_names_relevance_by_share_or_as_it_is():
    said = {}
    for label_by in ("share", "relevance"):
        state = make_state(["a", "b", "c"])
        state.relevance, state.kept = torch.tensor([0.45, 0.2, 0.35]), torch.tensor([True, False, True])
        MeanReadout(label_by=label_by)(state)
        said[label_by] = state.pool.meta.model.chats[-1].text
    assert said["share"].count("relevance: moderate") == 2
    assert said["relevance"].count("relevance: moderate") == said["relevance"].count("relevance: low") == 1


def test_weights_of_one_are_not_mentioned_in_a_synthesis():
    state = make_state(["a", "b", "c"])
    state.relevance = torch.tensor([0.5, 0.1, 0.4])
    MeanReadout(ones=True)(state)
    assert "relevance" not in state.pool.meta.model.chats[-1].text


def test_syntheses_of_survivors_and_of_those_whom_nobody_survived_are_one_batch():
    state = make_state(["a", "b"], n_questions=2)
    state.kept = torch.tensor([False, False, True, True])
    batches = len(state.pool.meta.model.batches)
    replies = MeanReadout()(state)
    assert state.pool.meta.model.batches[batches:] == [2] and len(replies) == 2
    assert [trace["stages"][-1]["initial"] for trace in state.traces] == [True, False]


def test_the_call_of_a_synthesis_does_not_follow_the_rounds_of_the_batch():
    streams = set()
    for round in (1, 5):
        state = make_state(["a", "b"])
        state.round = round
        MeanReadout()(state)
        streams.add((state.pool.meta.model.chats[-1].stream, state.recorder.calls[0][-1].round))
    assert len(streams) == 1
