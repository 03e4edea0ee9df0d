from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from goa_torch.agents.base import Agent, LanguageModel
from goa_torch.agents.calls import Recorder
from goa_torch.agents.echo import EchoModel
from goa_torch.agents.many import grow_pool
from goa_torch.agents.pool import Pool
from goa_torch.agents.prompts import PromptSet
from goa_torch.errors import UserError
from goa_torch.methods import build_method
from goa_torch.nn.shortlist import Shortlist
from goa_torch.types import Card, Question, Sampling
from tests.worlds import PROMPTS, LastWord, say_by_purpose

CARDS = {"plants": Card("biology", ("leaves", "roots")), "sums": Card("math", ("+", "-")), "courts": Card("law"),
         "money": Card("finance", ("coins",))}


class Topics(EchoModel):
    """Embeds a text by which of a few words it holds, on top of what all texts share."""

    def __init__(self, outputs=say_by_purpose) -> None:
        super().__init__(outputs)
        self.embedded: list[str] = []

    def embed(self, texts):
        self.embedded += texts
        words = ("biology", "math", "law", "finance")
        raw = torch.tensor([[float(word in text) for word in words] + [9.0] for text in texts])
        return torch.nn.functional.normalize(raw, dim=1)


def make_pool(size: int | None = None, cards=None, model: LanguageModel | None = None) -> Pool:
    model = model or Topics()
    agents = [Agent(name, model, card) for name, card in (CARDS if cards is None else cards).items()]
    pool = Pool(agents, PromptSet(PROMPTS / "default"), Agent("chooser", model, Card("general")),
                Sampling(max_new_tokens=64))
    return pool if size is None else grow_pool(pool, size)


def ask(*texts: str) -> list[Question]:
    return [Question(f"q{i}", text, "", LastWord(), task="t") for i, text in enumerate(texts)]


def lists(pool, size, texts=("the biology of roots, a question of finance",), seed=0, **how):
    asked = ask(*texts)
    return Shortlist(size, **how)(asked, pool, Recorder(asked, seed, pool.sampling))


def names(found):
    return [[agent.name for agent in some] for some in found]


def domains(found):
    return [{agent.card.domain for agent in some} for some in found]


@pytest.mark.parametrize("by", ["words", "embedding"])
def test_the_cards_that_speak_of_the_question_are_found(by):
    texts = ("biology of roots", "a question of finance and law")
    assert domains(lists(make_pool(), 1, texts, by=by))[0] == {"biology"}
    assert domains(lists(make_pool(), 2, texts, by=by))[1] == {"finance", "law"}


def test_signs_are_words_too():
    assert domains(lists(make_pool(), 1, ("(4+7)",))) == [{"math"}]


@pytest.mark.parametrize("by", ["words", "embedding"])
def test_copies_of_one_card_do_not_fill_the_list(by):
    pool = make_pool(400)
    assert domains(lists(pool, 4, by=by)) == [set(card.domain for card in CARDS.values())]
    assert len(domains(lists(pool, 4, by=by, variety=0.0))[0]) == 1
    assert len(set(names(lists(pool, 9, by=by))[0])) == 9


def test_questions_spread_over_the_copies_and_seeds_draw_others():
    pool, texts = make_pool(400), [f"law {i}" for i in range(30)]
    chosen = [some[0] for some in names(lists(pool, 1, texts))]
    assert len(set(chosen)) > 20
    assert chosen != [some[0] for some in names(lists(pool, 1, texts, seed=1))]


@given(st.permutations(list(CARDS)), st.integers(1, 6), st.booleans())
@settings(max_examples=30, deadline=None)
def test_neither_listing_nor_batch_matters(order, size, embeds):
    by, texts = "embedding" if embeds else "words", ("roots and coins", "law", "1 + 1")
    listed = make_pool(cards={name: CARDS[name] for name in order})
    together = names(lists(listed, size, texts, by=by))
    assert together == names(lists(make_pool(), size, texts, by=by))
    asked = ask(*texts)[2:]
    alone = Shortlist(size, by)(asked, listed, Recorder(asked, 0, listed.sampling))
    assert names(alone) == together[2:]


def test_a_pool_that_is_small_enough_is_shown_whole_and_searched_by_nobody():
    pool = make_pool()
    assert names(lists(pool, 4, by="embedding")) == [sorted(CARDS)]
    assert pool.meta.model.embedded == []


def test_cards_are_embedded_once_for_a_pool_and_questions_are_recorded():
    pool, asked = make_pool(100), ask("law", "coins")
    search = Shortlist(3, "embedding")
    for seed in (0, 1):
        recorder = Recorder(asked, seed, pool.sampling)
        search(asked, pool, recorder)
        [call] = recorder.calls[1]
        assert (call.purpose, call.depth, call.usage.calls, call.usage.completion_tokens) == ("select", 1, 1, 0)
        assert call.usage.prompt_tokens > 0
    cards = [text for text in pool.meta.model.embedded if text.startswith("domain")]
    assert len(cards) == len(CARDS)  # copies share a card
    assert Shortlist(3, "embedding")(asked, pool.with_sampling(temperature=0), recorder)
    assert len([text for text in pool.meta.model.embedded if text.startswith("domain")]) == len(CARDS)


def test_questions_about_nothing_on_the_cards_get_a_list_too():
    assert len(lists(make_pool(50), 6, ("zzz",))[0]) == 6


def test_selecting_from_a_thousand_agents_is_one_call_of_the_meta_llm():
    pool = make_pool(1000)
    for by, calls in (("words", 1), ("embedding", 2)):  # the second generates nothing
        [result] = build_method("goa", pool, k=3, shortlist=6, shortlist_by=by)(ask("roots and coins"))
        chosen = [call for call in result.calls if call.purpose == "select"]
        assert len(chosen) == calls and len(result.calls) == 10 + calls
        assert sum(call.usage.completion_tokens > 0 for call in chosen) == 1
        stage = result.trace["stages"][0]
        assert len(stage["shortlist"]) == 6 and set(result.trace["agents"]) <= set(stage["shortlist"])
        assert pool.meta.model.chats[-1].text  # asked at all
    shown = next(chat.text for chat in pool.meta.model.chats if "Reply with exactly" in chat.text)
    assert shown.count("domain:") == 6


def test_without_a_shortlist_the_meta_llm_reads_every_card():
    pool = make_pool(50)
    [result] = build_method("goa", pool, k=3)(ask("roots"))
    assert pool.meta.model.chats[0].text.count("domain:") == 50 and "shortlist" not in result.trace["stages"][0]


def test_choices_by_likelihood_weigh_the_shortlist_only():
    pool = make_pool(100)
    [result] = build_method("goa", pool, k=2, shortlist=5, judging="likelihood")(ask("law and order"))
    stage = result.trace["stages"][0]
    assert sorted(stage["probabilities"]) == stage["shortlist"] and len(stage["shortlist"]) == 5


def test_an_unreadable_choice_is_drawn_from_the_shortlist():
    pool = make_pool(100, model=Topics(lambda chat: "hm"))
    [result] = build_method("routed_single", pool, shortlist=2)(ask("law"))
    stage = result.trace["stages"][0]
    assert stage["fallback"] and set(result.trace["agents"]) <= set(stage["shortlist"])


@pytest.mark.parametrize(("settings", "said"), [
    ({"shortlist": 2}, "shortlist = 2 must be"), ({"shortlist": True}, "shortlist = True"),
    ({"shortlist": 6, "shortlist_by": "magic"}, "Available: embedding, words"),
    ({"graph": "complete", "shortlist": 6}, "does not go with"), ({"pairs": 1}, "pairs must be"),
    ({"graph": "complete", "pairs": 2}, "does not go with"),
])
def test_wrong_settings_are_said_before_the_first_call(settings, said):
    with pytest.raises(UserError, match=said):
        build_method("goa", make_pool(10), **settings)


def test_models_that_cannot_embed_are_refused_before_the_first_call():
    class Mute(EchoModel):
        capabilities = frozenset({"generate"})

    with pytest.raises(UserError, match="shortlist_by = 'embedding' needs agents with 'embed'"):
        build_method("goa", make_pool(10, model=Mute()), shortlist=4, shortlist_by="embedding")


def test_lists_are_as_good_as_the_exact_search_says():
    """One step of the search by hand: the second card is the one of largest marginal relevance."""
    pool = make_pool()
    asked = ask("biology leaves roots math")
    search = Shortlist(2, variety=0.5)
    cards, queries = search._vectors(tuple(sorted(map(str, CARDS.values()))), asked, pool,
                                     Recorder(asked, 0, pool.sampling))
    alike, mutual = queries[0] @ cards.T, cards @ cards.T
    first = int(np.argmax(alike))
    rest = [i for i in range(len(cards)) if i != first]
    second = max(rest, key=lambda i: alike[i] - mutual[first, i])
    texts = sorted(map(str, CARDS.values()))
    assert {str(agent.card) for agent in search(asked, pool, Recorder(asked, 0, pool.sampling))[0]} == {
        texts[first], texts[second]}
