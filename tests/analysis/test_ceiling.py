"""What topologies could at best do: hand-worked cases, the reference table, and the search for the best graph."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from goa_torch.agents.base import Agent
from goa_torch.agents.echo import EchoModel
from goa_torch.agents.pool import Pool
from goa_torch.agents.prompts import PromptSet
from goa_torch.analysis.oracle import oracle_accuracy, oracle_per_question, oracle_static, travel_ways
from goa_torch.analysis.reach import complete, finished, layer_numbers, random_no_duplicates, reach, ring
from goa_torch.errors import UserError
from goa_torch.methods import build_method
from goa_torch.methods.ceiling import structural_ceiling
from goa_torch.randomness import stream, uniforms
from goa_torch.tasks.relay import DOMAINS, RelayReader, load_relay, parse
from goa_torch.tasks.relay.blind import blind_guess, outermost
from goa_torch.types import Card, Question
from tests.worlds import PROMPTS

EXPERTS = np.eye(6, dtype=bool)


def asked(*texts: str) -> list[Question]:
    expressions = [parse(text) for text in texts]
    return [Question(text, text, str(e.partial_results()[-1]), RelayReader(), "relay",
                     metadata={"domains": list(e.domains), "depth": e.depth}) for text, e in zip(texts, expressions)]


def six_experts(*more: str) -> Pool:
    model = EchoModel()
    agents = [Agent(name, model, Card(name)) for name in (*DOMAINS, *more)]
    return Pool(agents, PromptSet(PROMPTS / "default"), Agent("chief", model, Card("generalist")))


def ceiling(name: str, texts: list[str], **settings) -> list[bool]:
    return structural_ceiling(build_method(name, six_experts(), **settings), asked(*texts))


ONE, TWO, THREE, ABA, FOUR = ("rev[47]", "rev[(47+8)]", "half(rev[(47+8)])", "(rev[(47+8)]-5)",
                              "next half(rev[(47+8)])")


def test_goa_with_max_readout_reaches_depth_2_and_never_depth_4():
    assert ceiling("goa", [ONE, TWO, THREE, FOUR], k=3) == [True, True, False, False]


def test_goas_two_steps_bring_the_work_back_to_the_first_expert():
    assert ceiling("goa", [ABA], k=3) == [True]


def test_reversed_goa_stops_at_depth_1():
    assert ceiling("goa", [ONE, TWO, ABA], k=3, flow="reversed") == [True, False, False]


def test_goa_without_target_to_source_leaves_the_top_source_as_it_was():
    assert ceiling("goa", [ONE, TWO], k=3, flow="source_to_target") == [True, False]


def test_goa_with_mean_readout_gains_the_layer_that_the_chief_adds():
    assert ceiling("goa", [TWO, THREE, FOUR], k=3, readout="mean") == [True, True, False]


def test_goa_never_solves_what_its_k_agents_cannot():
    assert ceiling("goa", [TWO], k=1) == [False]


def test_moa_does_a_layer_a_round_and_one_more_in_the_synthesis():
    assert ceiling("moa", [TWO, THREE, FOUR], layers=3) == [True, True, True]
    assert ceiling("moa", [TWO, THREE, FOUR], layers=1) == [True, False, False]


def test_single_vote_and_selfconsistency_see_one_layer():
    for name in ("single", "vote", "self_consistency", "routed_single"):
        assert ceiling(name, [ONE, TWO]) == [True, False], name


def test_a_perfect_generalist_who_rereads_itself_does_a_layer_a_call():
    assert ceiling("iterate", [TWO, FOUR], calls=3) == [True, False]
    assert ceiling("iterate", [TWO], calls=3, agent="code") == [False]


def test_the_released_mode_has_no_ceiling():
    with pytest.raises(UserError, match="JSON"):
        ceiling("goa", [ONE], mode="released")


# ------------------------------------------------------------------------------------------------ topologies


def test_a_full_graph_does_one_layer_a_round():
    for rounds in (1, 2, 3, 4):
        got = structural_ceiling(complete(6), asked(ONE, TWO, THREE, FOUR), rounds=rounds)
        assert got == [depth <= rounds for depth in (1, 2, 3, 4)]


def test_an_empty_graph_never_gets_beyond_the_first_layer():
    assert structural_ceiling(np.zeros((6, 6), dtype=bool), asked(ONE, TWO), rounds=8) == [True, False]


def test_a_hand_made_path():
    layers = layer_numbers([["math", "code"]], DOMAINS)
    path = np.zeros((6, 6), dtype=bool)
    path[DOMAINS.index("law"), DOMAINS.index("math")] = True  # math -> law -> code
    path[DOMAINS.index("code"), DOMAINS.index("law")] = True
    done = reach(np.stack([path, path]), EXPERTS, layers)[0]
    assert done.max(axis=1).tolist() == [1, 1, 2]
    assert finished(reach(np.stack([path, path]), EXPERTS, layers), layers).tolist() == [[False, False, True]]


def test_wrong_shapes_say_what_is_expected():
    with pytest.raises(ValueError, match="does not fit 6 agents"):
        reach(np.zeros((1, 5, 5)), EXPERTS, np.zeros((1, 1), dtype=int))
    with pytest.raises(UserError, match="rounds"):
        structural_ceiling(complete(6), asked(ONE))


#: Share of 400 questions of each depth that some of six perfect experts has finished after 2, 3, 4, 6, 8 rounds.
REFERENCE = {
    "ring": {1: [1, 1, 1, 1, 1], 2: [.40, .80, 1, 1, 1], 3: [0, .17, .49, .97, 1], 4: [0, 0, .08, .56, .96],
             6: [0, 0, 0, .01, .20]},
    "random": {1: [1, 1, 1, 1, 1], 2: [.36, .87, .99, 1, 1], 3: [0, .17, .57, .99, 1], 4: [0, 0, .07, .59, .96],
               6: [0, 0, 0, .01, .20]},
    "full": {1: [1, 1, 1, 1, 1], 2: [1, 1, 1, 1, 1], 3: [0, 1, 1, 1, 1], 4: [0, 0, 1, 1, 1], 6: [0, 0, 0, 1, 1]},
}


@pytest.mark.parametrize("routing", REFERENCE)
def test_the_reference_table(routing):
    for depth, expected in REFERENCE[routing].items():
        questions = load_relay(limit=400, depth=depth)
        layers = layer_numbers([q.metadata["domains"] for q in questions], DOMAINS)
        if routing == "random":
            names = [stream("test", q.id) for q in questions]
            u = uniforms(np.array(names)[:, None], np.arange(7 * 36)[None]).reshape(400, 7, 6, 6)
            hears = random_no_duplicates(u, 2)
            assert (hears.sum(axis=-1) == 2).all()
        else:
            hears = np.repeat((ring if routing == "ring" else complete)(6)[None], 7, axis=0)
        share = finished(reach(hears, EXPERTS, layers), layers).mean(axis=0)
        assert share[[1, 2, 3, 5, 7]] == pytest.approx(expected, abs=0.07), depth


# ------------------------------------------------------------------------------------------------ oracles


def drawn_layers(depth: int, n: int = 60) -> np.ndarray:
    return layer_numbers([q.metadata["domains"] for q in load_relay(limit=n, depth=depth)], DOMAINS)


def test_the_oracle_per_question_is_what_the_complete_graph_reaches():
    for depth, rounds in itertools.product((1, 2, 3, 4), (1, 2, 3, 4)):
        layers = drawn_layers(depth)
        best = finished(reach(np.repeat(complete(6)[None], rounds - 1, 0), EXPERTS, layers), layers)[:, -1]
        assert (oracle_per_question(EXPERTS, layers, rounds) == best).all()


def test_without_an_expert_no_graph_helps():
    lacking = EXPERTS[[d != "law" for d in DOMAINS]]
    layers = layer_numbers([["law"], ["math", "code"]], DOMAINS)
    assert oracle_per_question(lacking, layers, 4).tolist() == [False, True]


def test_the_oracles_accuracy_takes_the_best_agent_for_each_layer():
    competence = np.full((2, 6), 0.5)
    competence[0, DOMAINS.index("math")] = 0.9
    competence[1, DOMAINS.index("code")] = 0.8
    layers = layer_numbers([["math", "code"], ["law"], ["math", "code", "math"]], DOMAINS)
    assert oracle_accuracy(competence, layers, 2) == pytest.approx([0.72, 0.5, 0])


@pytest.mark.parametrize(("n", "k", "rounds", "depth"), [(4, 1, 2, 2), (4, 1, 3, 2), (4, 1, 3, 3), (4, 2, 3, 3)])
@pytest.mark.parametrize("few", [0, 10_000], ids=["program", "one by one"])
def test_the_static_oracle_is_the_best_of_all_graphs(n, k, rounds, depth, few, monkeypatch):
    monkeypatch.setattr("goa_torch.analysis.oracle.FEW", few)
    skills = np.zeros((n, 6), dtype=bool)
    skills[np.arange(6) % n, np.arange(6)] = True  # some agents have two domains
    layers = drawn_layers(depth)
    found = oracle_static(skills, layers, rounds, k)
    choices = [[c for size in range(k + 1) for c in itertools.combinations([s for s in range(n) if s != r], size)]
               for r in range(n)]
    best = 0
    for chosen in itertools.product(*choices):
        hears = np.zeros((n, n), dtype=bool)
        for receiver, senders in enumerate(chosen):
            hears[receiver, list(senders)] = True
        best = max(best, finished(reach(np.repeat(hears[None], rounds - 1, 0), skills, layers), layers)[:, -1].sum())
    assert found.exact and found.solved.sum() == best and found.bound == pytest.approx(best / len(layers))
    assert (found.hears.sum(axis=1) <= k).all()


def test_the_static_oracle_of_eight_agents_beats_the_ring():
    skills = np.vstack([EXPERTS, EXPERTS[:2]])
    layers = drawn_layers(2, 200)
    found = oracle_static(skills, layers, 2, 2)
    on_ring = finished(reach(ring(8)[None], skills, layers), layers)[:, -1]
    assert found.exact and found.solved.mean() > on_ring.mean()


def test_without_a_limit_the_complete_graph_is_the_best():
    assert (oracle_static(EXPERTS, drawn_layers(3), 3).hears == complete(6)).all()


@pytest.mark.timeout(120)
def test_the_static_oracle_of_many_rounds_does_not_follow_every_detour():
    skills = np.vstack([EXPERTS, np.ones((2, 6), dtype=bool)])
    found = oracle_static(skills, drawn_layers(4, 40), 14, 2)
    assert found.exact and found.solved.all() and (found.hears.sum(axis=1) <= 2).all()
    lonely = oracle_static(EXPERTS, drawn_layers(4, 8), 9, 1, seconds=1)
    assert found.bound >= lonely.bound >= lonely.solved.mean()


def test_ways_of_travelling_are_minimal():
    math, code = DOMAINS.index("math"), DOMAINS.index("code")
    ways = list(travel_ways(EXPERTS, (math, code), 3))
    assert frozenset({(math, code)}) in ways
    assert len(ways) == 5  # straight on, or through one of the four others


# ------------------------------------------------------------------------------------------------ blind guess


def test_a_blind_guess_is_nearly_always_wrong():
    seen, test = load_relay("agent_train", 4000), load_relay("test", 1200)
    guesses = blind_guess(seen, test)
    assert np.mean([q.is_correct(guess) for q, guess in zip(test, guesses)]) <= 0.03


def test_the_outermost_layer_keeps_its_parameter_and_loses_what_is_inside():
    assert {outermost(q) for q in load_relay(limit=200, depth=2, domains=("math", "code"))} >= {"rev[#]", "inc[#]"}
