"""The examination of a Relay pool: what each agent can do, through the prompts and models that a run uses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from ...agents.base import LOG_LIKELIHOOD, Agent
from ...agents.pool import Pool
from ...methods.ceiling import skills_of
from ...nn.reading import read_indices, read_scores
from ...randomness import stream
from ...tasks.relay.expression import Expression, parse
from ...tasks.relay.task import load_relay
from ...types import Chat, Message, Purpose, Question, Span

#: What a listener hears in the examination of *pass*, beside its own reply.
HEARD = ("right", "wrong", "stale")


@dataclass(slots=True)
class Competence:
    """What was found. All numbers are shares unless they say otherwise.

    Attributes:
        evaluated: agent -> domain -> depth -> layers of domains the agent can do that it evaluated right.
        copied: the same for layers of other domains, which it should leave as they are.
        refined: agent -> what it heard -> what it made of it: ``right`` (the best right reply, carried on if that was
            its business), ``followed`` (what it heard, where that was wrong), ``kept`` (its own reply).
        judged: agent -> AUROC of its scores, of right against wrong replies (``right``) and of more against less
            advanced right ones (``advanced``), the share of judgements that could be read (``read``), and, where
            the model tells likelihoods, the AUROC of log p(reply | answer prompt), of right against wrong replies,
            for layers that are its business (``likelihood``).
        selected: k -> share of the experts that the question needs first whom the meta-LLM chose.
        correlation: pairs of agents -> phi coefficient of their errors on the same questions (first answers).
        questions: how many questions were asked.
    """

    evaluated: dict[str, Any] = field(default_factory=dict)
    copied: dict[str, Any] = field(default_factory=dict)
    refined: dict[str, Any] = field(default_factory=dict)
    judged: dict[str, Any] = field(default_factory=dict)
    selected: dict[int, float] = field(default_factory=dict)
    correlation: dict[str, float] = field(default_factory=dict)
    questions: int = 0


def examine_pool(pool: Pool, per_depth: int = 150, depths: Sequence[int] = (1, 2, 3, 4), seed: int = 0,
                 split: str = "test", temperature: float | None = None) -> Competence:
    """Examines every agent of ``pool`` and its meta-LLM on Relay questions.

    Args:
        per_depth: questions of each depth.
        temperature: instead of the pool's.
    """
    questions = load_relay(split, per_depth * len(depths), seed, depth=tuple(depths))
    pool = pool if temperature is None else pool.with_sampling(temperature=temperature)
    agents = list({agent.name: agent for agent in [*pool.agents, pool.meta]}.values())
    found = Competence(questions=len(questions))
    errors = {}
    for agent in agents:
        found.evaluated[agent.name], found.copied[agent.name], errors[agent.name] = _answers(pool, agent, questions)
        found.refined[agent.name] = _refines(pool, agent, questions, seed)
        found.judged[agent.name] = _judges(pool, agent, questions, seed)
    found.selected = _selects(pool, questions)
    for first, second in combinations(agents, 2):
        phi = _phi(errors[first.name], errors[second.name])
        if phi is not None:
            found.correlation[f"{first.name} {second.name}"] = phi
    return found


def _ask(pool: Pool, agent: Agent, purpose: Purpose, prompts: Sequence[dict[str, Any]]) -> list[str | None]:
    """Replies to prompts (what templates see), ``None`` for those that failed or were cut off."""
    chats = [_chat(pool, agent, purpose, facts, number) for number, facts in enumerate(prompts)]
    return [reply.text if reply.finish_reason == "stop" else None
            for reply in agent.model.generate(chats, pool.sampling[purpose])]


def _chat(pool: Pool, agent: Agent, purpose: Purpose, facts: dict[str, Any], number: int = 0) -> Chat:
    seen = {"agent": {"name": agent.name, "card": str(agent.card), "system": agent.system,
                      "domain": agent.card.domain}, "own": None, "messages": [], "pool": pool.variables, **facts}
    messages: tuple[Message, ...] = pool.prompts.render(purpose, seen)
    return Chat(messages, stream("relay competence", agent.name, purpose, number))


def _question(question: Question) -> dict[str, Any]:
    return {"question": {"text": Span(question.text), "instruction": question.reader.instruction, "choices": [],
                         "category": question.category, "task": question.task}}


def _message(text: str, number: int) -> dict[str, Any]:
    return {"text": Span(text, sender=number), "number": number, "weight": 1.0, "relevance": None, "domain": "",
            "agent": ""}


def _stated(text: str | None) -> str:
    return (text or "").strip()


def _wanted(agent: Agent, expression: Expression) -> str:
    """What the agent should make of the most advanced right reply."""
    mine = expression.depth and expression.domains[0] in skills_of(agent)
    return str(expression.step() if mine else expression)


def _share(rows: dict) -> dict:
    return {key: _share(value) if isinstance(value, dict) else round(float(np.mean(value)), 4)
            for key, value in sorted(rows.items())}


def _answers(pool: Pool, agent: Agent, questions: Sequence[Question]) -> tuple[dict, dict, np.ndarray]:
    evaluated, copied = (defaultdict(lambda: defaultdict(list)) for _ in range(2))
    right = []
    replies = _ask(pool, agent, "answer", [_question(q) for q in questions])
    for question, text in zip(questions, replies):
        expression = parse(question.text)
        right.append(_stated(text) == _wanted(agent, expression))
        rows = evaluated if expression.domains[0] in skills_of(agent) else copied
        rows[expression.domains[0]][expression.depth].append(right[-1])
    return _share(evaluated), _share(copied), ~np.array(right)


def _refines(pool: Pool, agent: Agent, questions: Sequence[Question], seed: int) -> dict[str, dict[str, float]]:
    """With its own reply at the question (for ``stale``: one layer on) and two neighbours, of whom one repeats the
    question and the other is one layer on and right, one layer on and wrong, or behind."""
    rows: dict[str, dict[str, list[bool]]] = {kind: defaultdict(list) for kind in HEARD}
    for kind in HEARD:
        prompts, keys = [], []
        for question in questions:
            expression = parse(question.text)
            ahead = expression.step()
            rng = np.random.default_rng(stream("relay refine", seed, kind, question.id))
            own, best = (ahead, ahead) if kind == "stale" else (expression, ahead if kind == "right" else expression)
            told = slipped(ahead, rng) if kind == "wrong" else best if kind == "right" else expression
            heard = [str(told), str(expression)]
            if rng.random() < 0.5:
                heard.reverse()
            prompts.append({**_question(question), "own": Span(str(own), sender=0),
                            "messages": [_message(text, place) for place, text in enumerate(heard, 1)]})
            keys.append((_wanted(agent, best), str(told), _wanted(agent, told), str(own)))
        for text, (right, told, carried, own) in zip(_ask(pool, agent, "pass", prompts), keys):
            said = _stated(text)
            rows[kind]["right"].append(said == right)
            if kind == "wrong":
                rows[kind]["followed"].append(said in (told, carried))
            if kind != "stale":
                rows[kind]["kept"].append(said == own and own != right)
    return _share(rows)


def slipped(expression: Expression, rng: np.random.Generator) -> Expression:
    """``expression`` with another digit in the number that was just worked out."""
    place = int(rng.choice([1, 10]))
    digit = expression.value // place % 10
    return replace(expression, value=expression.value + place * (int((digit + 1 + rng.integers(9)) % 10) - digit))


def _judges(pool: Pool, agent: Agent, questions: Sequence[Question], seed: int) -> dict[str, float | None]:
    """Scores of three replies: one layer on, one layer on but wrong, and the question as it was."""
    prompts, orders = [], []
    for question in questions:
        expression = parse(question.text)
        rng = np.random.default_rng(stream("relay judge", seed, question.id))
        replies = [str(expression.step()), str(slipped(expression.step(), rng)), question.text]
        order = rng.permutation(3)
        prompts.append({**_question(question), "messages": [_message(replies[i], n) for n, i in enumerate(order, 1)],
                        "n": 3})
        orders.append(order)
    given: dict[int, list[float]] = defaultdict(list)
    read = 0
    for text, order in zip(_ask(pool, agent, "score", prompts), orders):
        numbers = read_scores(text, 3) if text is not None else None
        read += numbers is not None
        for value, kind in zip(numbers or [], order):
            given[int(kind)].append(value)
    return {"right": auroc(given[0], given[1]), "advanced": auroc(given[0], given[2]),
            "read": round(read / len(questions), 4), "likelihood": _likelihood(pool, agent, questions, seed)}


def _likelihood(pool: Pool, agent: Agent, questions: Sequence[Question], seed: int) -> float | None:
    mine = [q for q in questions if q.metadata["domains"][0] in skills_of(agent)]
    if LOG_LIKELIHOOD not in agent.model.capabilities or not mine:
        return None
    chats = [chat for q in mine for chat in [_chat(pool, agent, "answer", _question(q))] * 2]
    replies = []
    for question in mine:
        right = parse(question.text).step()
        replies += [str(right), str(slipped(right, np.random.default_rng(stream("relay judge", seed, question.id))))]
    likely = agent.model.log_likelihood(chats, replies)
    return auroc(likely[::2], likely[1::2])


def _selects(pool: Pool, questions: Sequence[Question]) -> dict[int, float]:
    shown = [pool.agents[i] for i in pool.canonical]
    cards = [str(agent.card) for agent in shown]
    shares = {}
    for k in sorted({1, min(3, len(shown))}):
        facts = [{**_question(question), "cards": cards, "k": k, "n": len(cards)} for question in questions]
        found = []
        for question, text in zip(questions, _ask(pool, pool.meta, "select", facts)):
            chosen = read_indices(text, len(cards), k) if text is not None else None
            able = {domain for i in chosen or [] for domain in skills_of(shown[i])}
            needed = list(dict.fromkeys(question.metadata["domains"]))[:k]
            found.append(np.mean([domain in able for domain in needed]))
        shares[k] = round(float(np.mean(found)), 4)
    return shares


def auroc(higher: Sequence[float], lower: Sequence[float]) -> float | None:
    """Probability that one of ``higher`` exceeds one of ``lower``, ties counting half; ``None`` if either is empty."""
    if not higher or not lower:
        return None
    from scipy.stats import rankdata

    ranks = rankdata([*higher, *lower])[: len(higher)]
    return round(float((ranks.sum() - len(higher) * (len(higher) + 1) / 2) / (len(higher) * len(lower))), 4)


def _phi(first: np.ndarray, second: np.ndarray) -> float | None:
    """Correlation of two 0/1 vectors; ``None`` if one of them does not vary."""
    if first.std() == 0 or second.std() == 0:
        return None
    return round(float(np.corrcoef(first, second)[0, 1]), 4)


def as_markdown(found: Competence) -> str:
    """The competence table."""
    lines = [f"{found.questions} questions. Shares of replies that are right to the last character.", ""]
    for title, rows in (("Layers evaluated (own business)", found.evaluated), ("Layers copied (others' business)",
                                                                             found.copied)):
        depths = sorted({depth for by_domain in rows.values() for cells in by_domain.values() for depth in cells})
        lines += [f"**{title}**", "", f"| agent | domain | {' | '.join(f'depth {d}' for d in depths)} |",
                  f"|---|---|{'---|' * len(depths)}"]
        for agent, by_domain in rows.items():
            for domain, cells in by_domain.items():
                shown = " | ".join(f"{cells[d]:.2f}" if d in cells else "" for d in depths)
                lines.append(f"| {agent} | {domain} | {shown} |")
        lines.append("")
    lines += ["**Refining and judging**", "", "| agent | right neighbour: right | kept | wrong neighbour: right | "
              "followed | stale neighbour: right | AUROC right/wrong | AUROC advanced/stale | read | likelihood |",
              "|---|---|---|---|---|---|---|---|---|---|"]
    for agent, rows in found.refined.items():
        judged = found.judged[agent]
        cells = [rows["right"]["right"], rows["right"]["kept"], rows["wrong"]["right"], rows["wrong"]["followed"],
                 rows["stale"]["right"], judged["right"], judged["advanced"], judged["read"], judged["likelihood"]]
        lines.append(f"| {agent} | {' | '.join('-' if cell is None else f'{cell:.2f}' for cell in cells)} |")
    lines += ["", "**Selection** (needed experts chosen): " + ", ".join(f"k = {k}: {share:.2f}"
                                                                       for k, share in found.selected.items())]
    if found.correlation:
        values = list(found.correlation.values())
        lines += ["", f"**Error correlation** (phi, {len(values)} pairs): mean {np.mean(values):.2f}, "
                  f"largest {max(values):.2f} ({max(found.correlation, key=found.correlation.__getitem__)})"]
    return "\n".join(lines) + "\n"
