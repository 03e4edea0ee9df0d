"""Pools of many agents from few."""

from __future__ import annotations

import pytest
import yaml

from goa_torch.agents.many import grow_pool
from goa_torch.agents.pool import Pool
from goa_torch.agents.pools import load_pool
from goa_torch.errors import UserError
from tests.worlds import DOMAINS, echo_pool


def names(pool):
    return [agent.name for agent in pool.agents]


def test_copies_are_made_in_turn_and_share_weights_and_cards():
    pool = grow_pool(echo_pool(n=3), 8)
    few = list(DOMAINS[:3])
    assert names(pool) == few + [f"{name}_001" for name in few] + [f"{name}_002" for name in few[:2]]
    assert len(pool.models) == 1 and pool["code_002"].card == pool["code"].card and pool.name == "pool x 8"


def test_a_smaller_pool_is_the_first_agents_and_never_without_its_meta_llm():
    assert names(grow_pool(echo_pool(), 2)) == list(DOMAINS[:2])
    pool = echo_pool()
    with pytest.raises(UserError, match="leave out 'law', which is its meta-LLM"):
        grow_pool(Pool(pool.agents, pool.prompts, "law", pool.sampling), 2)


@pytest.mark.parametrize("size", [0, -1, True, 2.5])
def test_a_size_that_is_none_is_said(size):
    with pytest.raises(UserError, match="size: must be a whole number of at least 1"):
        grow_pool(echo_pool(), size)


def test_a_pool_file_says_how_many(tmp_path):
    file = tmp_path / "many.yaml"
    config = {"models": {"m": {"backend": "echo"}}, "size": 1000,
              "agents": [{"name": name, "model": "m", "card": {"domain": name}} for name in DOMAINS]}
    file.write_text(yaml.safe_dump(config))
    pool = load_pool(file)
    assert len(pool) == 1000 and len(set(names(pool))) == 1000 and len(pool.models) == 1
    assert len(load_pool(file, ["size=4"])) == 4
    with pytest.raises(UserError, match=r"many.yaml, line \d+, size: must be a whole number of at least 1, not 0"):
        load_pool(file, ["size=0"])
    file.write_text(yaml.safe_dump(config | {"meta": "law", "size": 2}))
    with pytest.raises(UserError, match="unknown agent 'law'"):
        load_pool(file)
