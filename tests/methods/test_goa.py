"""Graph-of-Agents: its two modes, its ablations, and what happens when nobody or one agent survives."""

from __future__ import annotations

import json

import pytest

from goa_torch.errors import UserError
from goa_torch.methods import build_method
from goa_torch.methods.goa import confidence
from goa_torch.types import Reply
from tests.worlds import Spy, echo_pool, questions, say_by_purpose


def stages(result, name):
    return [stage for stage in result.trace["stages"] if stage["stage"] == name]


def judged(numbers):
    return lambda chat: numbers if "Write 2 numbers" in chat.text else say_by_purpose(chat)


def test_proposition_1_goa_on_the_complete_graph_is_mixture_of_agents_prompt_for_prompt():
    def prompts(name, **settings):
        spy = Spy()
        method = build_method(name, echo_pool(spy.reply), **settings)
        with spy.watching():
            results = method(questions(2))
        return [(Spy.tag(r), r.messages) for r, _ in spy.asked], [r.reply.text for r in results]

    expected = prompts("moa", layers=3)
    assert prompts("goa", k=6, graph="complete", readout="mean", rounds=2) == expected
    assert len(expected[0]) == 2 * 19


def test_relevance_is_the_sum_of_what_others_gave():
    [result] = build_method("goa", echo_pool(judged("0.7, 0.3")))(questions(1))
    [score] = stages(result, "score")
    assert score["matrix"] == [[None, 0.7, 0.3], [0.7, None, 0.3], [0.7, 0.3, None]]
    assert score["relevance"] == pytest.approx([1.4, 1.0, 0.6])


def test_released_relevance_is_averaged_and_normalised():
    [result] = build_method("goa", echo_pool(judged("0.7, 0.3")), mode="released")(questions(1))
    assert stages(result, "score")[0]["relevance"] == pytest.approx([1.4 / 3, 1.0 / 3, 0.6 / 3])


def test_sources_speak_before_targets_and_back():
    [result] = build_method("goa", echo_pool(judged("0.7, 0.3")))(questions(1))
    down, up = stages(result, "pass")
    assert {(s, r) for s, r, _ in down["edges"]} == {(0, 1), (0, 2), (1, 2)}
    assert {(s, r) for s, r, _ in up["edges"]} == {(1, 0), (2, 0), (2, 1)}
    weight = {(s, r): w for s, r, w in down["edges"]}
    assert weight[0, 1] == 1  # a lone neighbour
    assert weight[0, 2] == pytest.approx(2 * 1.4 / 2.4) and weight[1, 2] == pytest.approx(2 * 1.0 / 2.4)


def test_the_reversed_flow_goes_up_first():
    [result] = build_method("goa", echo_pool(judged("0.7, 0.3")), flow="reversed")(questions(1))
    first, second = stages(result, "pass")
    assert {(s, r) for s, r, _ in first["edges"]} == {(1, 0), (2, 0), (2, 1)}
    assert {(s, r) for s, r, _ in second["edges"]} == {(0, 1), (0, 2), (1, 2)}


def test_weights_of_one_are_plain_concatenation():
    spy = Spy()
    with spy.watching():
        build_method("goa", echo_pool(spy.reply), weights="ones")(questions(1))
    assert not any("relevance:" in m.text for r, _ in spy.asked if r.purpose == "pass" for m in r.messages)


def test_uneven_weights_are_said_in_words():
    spy = Spy()
    with spy.watching():
        build_method("goa", echo_pool(spy.reply))(questions(1))
    texts = ["".join(m.text for m in r.messages) for r, _ in spy.asked if r.purpose == "pass"]
    assert any("relevance: moderate" in t or "relevance: high" in t or "relevance: low" in t for t in texts)


@pytest.mark.parametrize("mode", ["paper", "released"])
@pytest.mark.parametrize("readout", ["max", "mean"])
def test_if_nobody_survives_the_initial_answers_are_synthesised(mode, readout):
    method = build_method("goa", echo_pool(judged("no idea")), mode=mode, readout=readout)
    [result] = method(questions(1))
    [read] = stages(result, "readout")
    assert read["by"] == "mean" and read["initial"] and len(read["edges"]) == 3
    assert stages(result, "score")[0]["kept"] == [False] * 3
    assert stages(result, "score")[0]["unparsed"] == 3
    assert not stages(result, "pass")


@pytest.mark.parametrize("readout", ["max", "mean"])
def test_if_one_survives_its_initial_answer_stands(readout):
    [result] = build_method("goa", echo_pool(judged("1, 0")), tau=1.5, readout=readout)(questions(1))
    assert stages(result, "score")[0]["kept"].count(True) == 1
    assert not stages(result, "pass") and not [c for c in result.calls if c.purpose == "readout"]


def test_tau_drops_below_it_in_the_paper_and_up_to_it_in_the_released_code():
    relevance = {"paper": 0.6, "released": 0.2}
    for mode, kept in (("paper", True), ("released", False)):
        [result] = build_method("goa", echo_pool(judged("0.7, 0.3")), mode=mode)(questions(1))
        exact = stages(result, "score")[0]["relevance"][2]
        assert exact == pytest.approx(relevance[mode])
        [again] = build_method("goa", echo_pool(judged("0.7, 0.3")), mode=mode, tau=exact)(questions(1))
        assert stages(again, "score")[0]["kept"][2] is kept


def test_a_released_judge_is_asked_three_times_and_a_paper_judge_once():
    for mode, tries in (("paper", 1), ("released", 3)):
        [result] = build_method("goa", echo_pool(judged("no idea")), mode=mode)(questions(1))
        assert sum(call.purpose == "score" for call in result.calls) == 3 * tries


def test_an_unsure_agent_is_replaced_by_the_general_model():
    def say(chat):
        if "Reply with one JSON object" in chat.text:
            level = "0.05" if "You are biomedical" in chat.text else "0.9"
            return json.dumps({"reasoning": "", "answer": "x", "confidence_level": level})
        return say_by_purpose(chat)

    [result] = build_method("goa", echo_pool(say), mode="released")(questions(1))
    assert result.trace["agents"] == ["general", "code", "finance"]
    assert len(stages(result, "answer")) == 2


@pytest.mark.parametrize("text, level", [
    ('{"confidence_level": "0.8"}', 0.8), ('{"confidence_level": 0.8}', 0.8), ('{"confidence_level": "80%"}', 0.8),
    ('{"answer": "x"}', None), ("no json", None), ("}{", None), (None, None), ('{"confidence_level": "sure"}', None),
    ("[1]", None), ('{"confidence_level": null}', None), (r'{"reasoning": "\(x\)", "confidence_level": 0.9}', 0.9),
    (r'{"reasoning": "\(x\)", "confidence_level": "90 %", "answer": "\x"}', 0.9), (r'{"reasoning": "\(x\)"}', None),
])
def test_confidence_is_read_or_unknown(text, level):
    assert confidence(text) == level


def test_an_unreadable_choice_is_drawn_and_counted():
    say = lambda chat: "hm" if "Reply with exactly" in chat.text else say_by_purpose(chat)  # noqa: E731
    results = build_method("goa", echo_pool(say))(questions(8))
    chosen = [stages(r, "select")[0] for r in results]
    assert all(c["fallback"] and c["unparsed"] == 1 for c in chosen)
    assert all(len({n["agent"] for n in c["nodes"]}) == 3 for c in chosen)
    assert len({tuple(n["agent"] for n in c["nodes"]) for c in chosen}) > 1


def test_an_agent_chosen_twice_takes_part_twice():
    say = lambda chat: "0, 0, 4" if "Reply with exactly" in chat.text else say_by_purpose(chat)  # noqa: E731
    [result] = build_method("goa", echo_pool(say))(questions(1))
    assert [(n["agent"], n["instance"]) for n in stages(result, "select")[0]["nodes"]] == [
        ("biomedical", 0), ("biomedical", 1), ("law", 0)]


def test_a_failed_agent_is_neither_heard_nor_judged_and_the_run_goes_on():
    def say(chat):
        if "You are code" in chat.text and "Write" not in chat.text:
            return None
        return "1" if "Write one number" in chat.text else say_by_purpose(chat)

    [result] = build_method("goa", echo_pool(say, n=3))(questions(1))
    score = stages(result, "score")[0]
    assert score["relevance"][0] == 0 and score["kept"] == [False, True, True]
    assert result.answer == "x" and sum(call.error is not None for call in result.calls) == 1


def test_everybody_failing_is_a_recorded_failure():
    say = lambda chat: "0, 1, 2" if "Reply with exactly" in chat.text else None  # noqa: E731
    for readout in ("max", "mean"):
        [result] = build_method("goa", echo_pool(say), readout=readout)(questions(1))
        assert result.reply.failed and result.answer is None and not result.correct


@pytest.mark.parametrize("settings, words", [
    ({"k": 7}, "k = 7"), ({"k": "three"}, "whole number"), ({"k": 2.5}, "whole number"), ({"tau": "x"}, "tau"),
    ({"tau": float("nan")}, "tau"), ({"k": 0}, "k = 0"), ({"readout": "median"}, "readout = 'median'"),
    ({"mode": "draft"}, "mode"), ({"flow": "down"}, "flow"), ({"taux": 1}, "Did you mean 'tau'"),
    ({"tries": 0}, "tries"), ({"graph": "complete", "k": 3}, "k with graph"),
])
def test_wrong_settings_are_one_line(settings, words):
    with pytest.raises(UserError) as error:
        build_method("goa", echo_pool(), **settings)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_unfinished_replies_abstain():
    say = lambda chat: Reply("cut off x", "length")  # noqa: E731
    [result] = build_method("vote", echo_pool(say))(questions(1))
    assert result.answer is None and not result.correct


def test_the_released_max_readout_reads_the_agent_that_was_refined_out():
    def tie(chat):
        if "Reply with one JSON object" in chat.text:
            return '{"answer": "x", "confidence_level": 0.9}'
        return "0.5, 0.5" if "Write 2 numbers" in chat.text else say_by_purpose(chat)

    [result] = build_method("goa", echo_pool(tie), mode="released")(questions(1))
    assert result.trace["agents"] == ["biomedical", "code", "finance"]  # by name the first, by domain the second
    up = stages(result, "pass")[-1]
    [[top, _]] = stages(result, "readout")[0]["edges"]
    assert [reply["node"] for reply in up["replies"]] == [top]


def test_a_confidence_that_is_no_number_is_not_sure():
    def say(chat):
        return '{"confidence_level": NaN}' if "Reply with one JSON object" in chat.text else say_by_purpose(chat)

    [result] = build_method("goa", echo_pool(say), mode="released")(questions(1))
    assert result.trace["agents"] == ["general"] * 3


@pytest.mark.parametrize("names", [None, ["first", "second"], ["second", "first"]])
def test_the_general_model_that_replaces_the_unsure_is_the_meta_llm_in_every_listing(names):
    from goa_torch.agents.base import Agent
    from goa_torch.agents.pool import Pool
    from goa_torch.types import Card

    pool = echo_pool(say_by_purpose)
    generals = {name: Agent(name, pool.meta.model, Card("general")) for name in ("first", "second")}
    law = Agent("law", pool.meta.model, Card("law"))
    listed = [generals[name] for name in names or generals]
    for meta, expected in ((generals["second"], "second"), (law, "first")):
        method = build_method("goa", Pool([*listed, law], pool.prompts, meta, pool.sampling), mode="released")
        [result] = method(questions(1))
        assert result.trace["agents"].count(expected) >= 2


def test_weights_of_one_are_plain_concatenation_in_the_synthesis_too():
    for mode in ("paper", "released"):
        spy = Spy()
        with spy.watching():
            build_method("goa", echo_pool(spy.reply), weights="ones", readout="mean", mode=mode)(questions(2))
        assert not any("relevance:" in m.text for r, _ in spy.asked for m in r.messages)
