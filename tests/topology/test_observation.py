"""What a controller sees of a debate."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from goa_torch.agents.calls import Recorder
from goa_torch.errors import UserError
from goa_torch.nn.selection import Everyone
from goa_torch.state import State
from goa_torch.topology.observation import ObservationConfig, observe
from goa_torch.types import Reply
from tests.worlds import LastWord, echo_pool, questions


def said(texts: list[str | None], n_questions: int = 1, names: list[str] | None = None) -> State:
    pool = echo_pool(n=len(texts), names=names)
    asked = questions(n_questions)
    state = Everyone()(asked, pool, Recorder(asked, 0, pool.sampling))
    one = [Reply.failure("lost") if t is None else Reply(t).with_answer(LastWord()) for t in texts]
    state.replies = one * n_questions
    state.history = [list(state.replies)]
    state.round = 1
    return state


def test_similarity_and_agreement_count_half_each():
    x, here = observe(said(["so red", "so red", "blue"]), ObservationConfig())
    assert x.shape == (1, 3, 3) and here.all()
    assert x[0, 0, 1] == pytest.approx(1) and x[0, 0, 2] == pytest.approx(0) and x[0, 2, 2] == pytest.approx(1)


def test_signs_count_as_words_where_that_is_asked_for():
    formulas = said(["(3 + 4)", "(8 - 9)"])
    apart, _ = observe(formulas, ObservationConfig(mixing=1.0))
    alike, _ = observe(formulas, ObservationConfig(mixing=1.0, signs=True))
    assert apart[0, 0, 1] == 0 < alike[0, 0, 1] < 1


def test_same_words_with_another_answer_are_similar_but_do_not_agree():
    x, _ = observe(said(["red blue", "blue red"]), ObservationConfig())
    assert x[0, 0, 1] == pytest.approx(0.5)


def test_who_has_no_answer_agrees_with_nobody_itself_included():
    state = said(["so red", "so red"])
    state.replies = [state.replies[0], replace(state.replies[1], finish_reason="length", answer=None)]
    x, _ = observe(state, ObservationConfig())
    assert x[0].flatten().tolist() == pytest.approx([1, 0.5, 0.5, 0.5])


def test_a_failed_reply_resembles_nobody():
    x, _ = observe(said(["so red", None]), ObservationConfig())
    assert x[0, 1].abs().sum() == 0


def test_embeddings_of_the_meta_llm_can_take_the_place_of_words():
    x, _ = observe(said(["so red", "so red", None]), ObservationConfig(similarity="embed", mixing=1.0))
    assert x[0, 0, 1] == pytest.approx(1, abs=1e-5) and x[0, 2].abs().sum() == 0


def test_features_say_what_their_names_do():
    state = said(["so red", "What is 0 and 0? What is 0 and 0?"])
    state.history = [[state.replies[1], state.replies[1]], list(state.replies)]
    state.replies[1] = replace(state.replies[1], answer=None)
    state.round = 3
    config = ObservationConfig(features=("round", "answered", "changed", "length", "surprise", "place"), rounds=6)
    x, _ = observe(state, config)
    length = len("so red") / len("What is 0 and 0?") / 2
    assert x[0, 0, 2:].tolist() == pytest.approx([2 / 5, 1, 1, length, 1, 1, 0])
    assert x[0, 1, 2:].tolist() == pytest.approx([2 / 5, 0, 0, 1, 1, 0, 1])  # longer than twice the question: 1
    assert x.size(2) == config.width(2)


def test_cards_name_agents_whatever_their_place():
    config = ObservationConfig(features=("card",))
    few, _ = observe(said(["a", "b"], names=["code", "general"]), config)
    many, _ = observe(said(["a", "b", "c"], names=["math", "code", "general"]), config)
    assert torch.equal(few[0, :, 2:], many[0, :2, 3:])
    assert not torch.equal(many[0, 0, 3:], many[0, 1, 3:])


def test_the_card_plane_compares_agent_and_reply():
    x, _ = observe(said(["law", "x"], names=["code", "general"]), ObservationConfig(planes=("card",)))
    assert x.shape == (1, 2, 4)
    state = said(["general stuff", "x"], names=["code", "general"])
    x, _ = observe(state, ObservationConfig(planes=("card",)))
    assert x[0, 1, 2] > x[0, 0, 2]  # general's card, code's reply


def test_questions_do_not_touch_each_other():
    config = ObservationConfig(features=("round", "card", "length"), planes=("card",))
    alone, _ = observe(said(["so red", "so blue"]), config)
    both, _ = observe(said(["so red", "so blue"], 2), config)
    assert torch.allclose(alone[0], both[0])


def test_a_batch_of_graphs_of_several_sizes_is_padded():
    pool, asked = echo_pool(n=3), questions(2)
    state = State.collate(asked, pool, Recorder(asked, 0, pool.sampling), [pool.agents[:1], pool.agents])
    state.replies = [Reply("so red", answer="red")] * 4
    x, here = observe(state, ObservationConfig())
    assert here.tolist() == [[True, False, False], [True, True, True]]
    assert x[0].count_nonzero() == 1 and x[1].min() == pytest.approx(1)


@pytest.mark.parametrize("settings", [{"features": ("rounds",)}, {"planes": ("cards",)}, {"similarity": "cosine"},
                                      {"mixing": 2}])
def test_unknown_names_are_refused(settings):
    with pytest.raises(UserError, match="observation"):
        ObservationConfig(**settings)
