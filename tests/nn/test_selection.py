from __future__ import annotations

from goa_torch.agents.calls import Recorder
from goa_torch.nn.selection import Copies, Everyone, TopK
from tests.worlds import DOMAINS, echo_pool, questions, say_by_purpose


def select(module, outputs=say_by_purpose, names=None, n_questions=2, seed=0):
    pool = echo_pool(outputs, names=names)
    asked = questions(n_questions)
    return module(asked, pool, Recorder(asked, seed, pool.sampling))


def members(state, question=0):
    return [state.agent_of(v).name for v in state.nodes_of(question)]


def test_everyone_takes_part_sorted_by_name_whatever_the_listing():
    assert members(select(Everyone())) == sorted(DOMAINS) == members(select(Everyone(), names=list(DOMAINS[::-1])))


def test_copies_are_told_apart():
    state = select(Copies("law", 3))
    assert members(state, 1) == ["law"] * 3 and state.instance.tolist() == [0, 1, 2] * 2


def test_the_meta_llm_reads_cards_in_the_order_of_names():
    state = select(TopK(2))
    text = state.pool.meta.model.chats[0].text
    assert [text.index(f"domain: {name}") for name in sorted(DOMAINS)] == sorted(
        text.index(f"domain: {name}") for name in DOMAINS)
    assert members(state) == sorted(DOMAINS)[:2]


def test_a_second_try_asks_only_for_what_could_not_be_read():
    said = iter(["hm", "0, 1", "1, 2"])
    state = select(TopK(2, tries=2), said)
    assert members(state, 0) == sorted(DOMAINS)[1:3] and members(state, 1) == sorted(DOMAINS)[:2]
    assert [s["unparsed"] for s in (state.traces[0]["stages"][0], state.traces[1]["stages"][0])] == [1, 0]


def test_a_drawn_choice_depends_on_seed_and_question_alone():
    drawn = [members(select(TopK(3), lambda c: "hm", names, seed=seed), q)
             for seed in (0, 1) for q in (0, 1) for names in (None, list(DOMAINS[::-1]))]
    assert all(a == b for a, b in zip(drawn[::2], drawn[1::2])) and len(set(map(tuple, drawn))) > 1


def test_graphs_of_different_sizes_share_a_batch():
    said = iter(["0, 0, 1", "3, 4, 5"])
    state = select(TopK(3), said)
    assert state.ptr.tolist() == [0, 3, 6] and state.instance.tolist() == [0, 1, 0, 0, 0, 0]
