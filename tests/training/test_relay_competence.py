"""The examination of a Relay pool, taken by agents whose marks are known."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from goa_torch.agents.base import Agent
from goa_torch.agents.echo import EchoModel
from goa_torch.agents.pool import Pool
from goa_torch.agents.prompts import PromptSet
from goa_torch.methods import build_method
from goa_torch.methods.ceiling import structural_ceiling
from goa_torch.tasks.relay import DOMAINS, load_relay, parse
from goa_torch.training.relay.competence import as_markdown, auroc, examine_pool, slipped
from goa_torch.training.relay.lessons import card_of, choice, scores
from goa_torch.types import Card, Sampling

PROMPTS = PromptSet(Path(__file__).parents[2] / "models" / "prompts" / "relay")


class Pupil(EchoModel):
    """Reads Relay's prompts and does as taught: ``able`` evaluates, ``gullible`` follows whoever is most advanced."""

    def __init__(self, domains, able: bool = True, gullible: bool = False) -> None:
        super().__init__(self.say, name=f"pupil {domains} {able} {gullible}")
        self.domains, self.able, self.gullible = domains, able, gullible

    def say(self, chat) -> str:
        *lines, order = chat.text.splitlines()
        if order.startswith("select"):
            shown = [re.search(r"domain: (\w+)", line)[1] for line in lines[:-1]]
            return " ".join(map(str, choice(parse(lines[-1]).domains, shown, int(order.split()[1]))))
        question, seen = lines[0], [line.split(" ", 1)[1] for line in lines[1:]]
        right = [str(e) for e in parse(question).partial_results()]
        if order == "score":
            return scores([right.index(text) if text in right else -1 for text in seen])
        best = max([question, *[text for text in seen if text in right]], key=right.index)
        if self.gullible:
            best = min([question, *seen], key=lambda text: parse(text).depth)
        best = parse(best)
        mine = best.depth and best.domains[0] in self.domains and self.able
        return str(best.step() if mine else best)

    def log_likelihood(self, chats, continuations):
        return [0.0 if self.say(chat) == text else -5.0 for chat, text in zip(chats, continuations)]


def pool(**pupil) -> Pool:
    agents = [Agent(d, Pupil((d,), **pupil), card_of(d)) for d in DOMAINS]
    meta = Agent("generalist", Pupil(DOMAINS, **pupil), Card("generalist"))
    return Pool(agents, PROMPTS, meta, Sampling(max_new_tokens=400))


def test_faultless_agents_get_full_marks():
    found = examine_pool(pool(), per_depth=40)
    assert set(found.evaluated) == {*DOMAINS, "generalist"}
    for agent, by_domain in found.evaluated.items():
        assert set(by_domain) == ({agent} if agent in DOMAINS else set(DOMAINS))
        assert all(share == 1 for cells in by_domain.values() for share in cells.values())
    assert all(s == 1 for agent in DOMAINS for cells in found.copied[agent].values() for s in cells.values())
    for agent in found.refined:
        assert found.refined[agent]["right"] == {"kept": 0, "right": 1}
        assert found.refined[agent]["wrong"]["right"] == 1 and found.refined[agent]["stale"]["right"] == 1
        assert found.judged[agent] == {"right": 1, "advanced": 1, "read": 1, "likelihood": 1}
    assert found.selected == {1: 1, 3: 1} and not found.correlation
    assert "| math | math | 1.00 | 1.00 | 1.00 | 1.00 |" in as_markdown(found)


def test_agents_that_only_copy_and_agents_that_believe_everything():
    lazy = examine_pool(pool(able=False), per_depth=20, depths=(2, 3))
    assert all(s == 0 for by_domain in lazy.evaluated.values() for cells in by_domain.values() for s in cells.values())
    assert all(s == 1 for agent in DOMAINS for cells in lazy.copied[agent].values() for s in cells.values())
    gullible = examine_pool(pool(gullible=True), per_depth=20, depths=(2, 3))
    assert all(rows["wrong"]["followed"] == 1 and rows["wrong"]["right"] < 0.1 for rows in gullible.refined.values())


def test_a_slip_changes_one_digit():
    rng = np.random.default_rng(0)
    for _ in range(200):
        other = slipped(parse("rev[47]"), rng).value
        assert 0 <= other <= 99 and (other // 10 != 4) + (other % 10 != 7) == 1


@pytest.mark.parametrize(("higher", "lower", "expected"), [
    ([3, 4], [1, 2], 1), ([1, 2], [3, 4], 0), ([1, 1], [1, 1], 0.5), ([2], [1, 2, 3], 0.5), ([], [1], None),
])
def test_auroc(higher, lower, expected):
    assert auroc(higher, lower) == expected


@pytest.mark.parametrize(("name", "settings"), [
    ("single", {}), ("routed_single", {}), ("iterate", {"calls": 3}), ("vote", {}), ("self_consistency", {}),
    ("moa", {"layers": 2}), ("goa", {}), ("goa", {"readout": "mean"}), ("goa", {"flow": "reversed"}),
    ("goa", {"k": 2}), ("goa", {"k": 5}),
])
def test_faultless_agents_reach_the_ceiling_of_every_method_through_the_pools_own_prompts(name, settings):
    questions = load_relay(limit=40, depth=(1, 2, 3, 4))
    method = build_method(name, pool(), **settings)
    assert [result.correct for result in method(questions)] == structural_ceiling(method, questions)
