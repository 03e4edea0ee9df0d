"""Random peers that stay."""

from __future__ import annotations

from collections import Counter

import pytest
from worlds import DOMAINS, echo_pool, questions

from goa_torch import build_method
from goa_torch.errors import UserError


def rounds(result):
    """The (sender, receiver) pairs of each round of talking, agents by name."""
    names = result.trace["agents"]
    return [{(names[s], names[r]) for s, r, _ in stage["edges"]}
            for stage in result.trace["stages"] if stage["stage"] == "pass"]


def test_the_same_random_peers_are_heard_in_every_round_and_others_for_another_question():
    first, second = build_method("random_fixed", echo_pool(), n=None, rounds=5)(questions(2))
    assert len(rounds(first)) == 4 and len(set(map(frozenset, rounds(first)))) == 1
    assert Counter(receiver for _, receiver in rounds(first)[0]) == dict.fromkeys(DOMAINS, 2)
    assert rounds(first)[0] != rounds(second)[0]


def test_its_first_round_is_that_of_peers_drawn_anew():
    [fixed] = build_method("random_fixed", echo_pool(), n=None, rounds=3)(questions(1))
    [anew] = build_method("random_nodup", echo_pool(), n=None, rounds=3)(questions(1))
    assert rounds(fixed)[0] == rounds(anew)[0] and rounds(fixed)[1] != rounds(anew)[1]


def test_the_draw_does_not_depend_on_the_listing_of_the_agents():
    drawn = [build_method("random_fixed", echo_pool(names=order), n=None, rounds=2)(questions(1))[0]
             for order in (list(DOMAINS), list(reversed(DOMAINS)))]
    assert rounds(drawn[0]) == rounds(drawn[1])


def test_more_peers_than_there_are_others_is_an_error():
    with pytest.raises(UserError, match="random_fixed: k = 8, but 8 agents take part"):
        build_method("random_fixed", echo_pool(), k=8)
