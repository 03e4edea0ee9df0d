"""Graph-of-Agents."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from torch import nn

from ..errors import UserError
from ..nn.agent_conv import AgentConv
from ..nn.readout import MaxReadout, MeanReadout, domain_rank
from ..nn.scoring import Scoring
from ..nn.selection import Everyone, TopK, check_k, shortlist_of
from ..nn.speaking import WEIGHTINGS, Receiver, speak
from ..topology.fixed import Complete
from ..topology.relevance import Relevance
from ..topology.stopping import FixedRounds
from .base import Method, check_choice, check_count, check_number

if TYPE_CHECKING:
    from ..agents.pool import Pool
    from ..agents.prompts import PromptSet
    from ..state import State
    from ..types import Topology

LEAST_CONFIDENCE = 0.1
_CONFIDENCE = re.compile(r'"confidence_level"\s*:\s*"?\s*(\d*\.?\d+)\s*(%?)')


class GoA(Method):
    """Graph-of-Agents (ICLR 2026, arXiv 2604.17148).

    1. select: the meta-LLM picks the k most relevant agents by their cards;
    2. answer: each answers on its own;
    3. score: each distributes 1 over the others' replies; S_j is what reply j got; S < tau is dropped;
    4. source to target: agents ranked by S, each reads the replies of those above it, weighted by their share of S;
    5. target to source: each reads the new replies of those below it;
    6. read out: the reply of the top source (max), or the meta-LLM's synthesis of all replies with their S (mean).

    Calls for k agents that all survive: 1 + k + k + (k-1) + (k-1), one more for mean: 11 and 12 for k = 3. If nobody
    survives, the initial answers are synthesised; if one does, its answer stands.

    Readings (?) of what is not public: the numerator of a weight is the sender's S; a receiver sees its own latest
    reply; a weight is put into words by its share of what the receiver hears; a judge or meta-LLM that cannot be read
    is not asked again (``tries``); the meta-LLM's unreadable choice is replaced by a drawn one, which is counted.

    Mode ``released`` follows the published code: scores averaged over judges and normalised, kept iff S > tau, strict
    reading of judges with three tries; relevance always in words; on the way back sources are visited one by one,
    start from their initial answer and read what already changed; max readout refines only the top source (10 calls
    for k = 3, 12 with mean), ties go general > code > math > rest; first answers are JSON with a confidence, and an
    agent with none or less than 0.1 is replaced by the general model (one more call). Its slips are not reproduced.

    Args:
        k: agents to choose, 3 by default; -1 lets the meta-LLM rate the difficulty 1..6 (one more call). With
            ``complete`` all agents of the pool.
        tau: pruning threshold.
        readout: ``max`` or ``mean``.
        mode: ``paper`` or ``released``.
        flow: ``both``; ablations: ``reversed`` (targets to sources first), ``source_to_target`` or
            ``target_to_source`` alone.
        weights: ``relevance``; ablation ``ones``.
        weighting: how weights reach the receiver: ``words``, ``numbers``, ``order``, ``none``, or inside its attention:
            ``attention``, ``attention_receiver``, ``attention_parallel``.
        graph: ``relevance``; ``complete`` is the configuration of Proposition 1 (self loops, weights 1, no scoring, no
            selection), which with mean readout is Mixture-of-Agents.
        rounds: with ``complete``, rounds of talking.
        judging: ``text``: judges and the selecting meta-LLM write numbers, as in the paper; ``likelihood``: what counts
            is the probability they give to each number, same calls (?); the pool's way by default, always ``text``
            in mode ``released``.
        tries: calls to a judge or to the selecting meta-LLM at most (paper: 1, released: 3).
        shortlist: for large pools: the meta-LLM reads only so many cards, found by a search
            (:class:`~goa_torch.nn.shortlist.Shortlist`); all by default.
        shortlist_by: ``words`` (no call), or ``embedding``: vectors of the meta-LLM (one more call, which generates
            nothing).
        pairs: for many agents: a judge reads only so many replies, in a balanced draw
            (:func:`~goa_torch.nn.scoring.sampled_pairs`); all others' by default. At least 2: who reads a single reply
            has nothing to compare it with.
    """

    def __init__(self, pool: Pool, k: int | None = None, tau: float = 0.05, readout: str = "max", mode: str = "paper",
                 flow: str = "both", weights: str = "relevance", weighting: str = "words", graph: str = "relevance",
                 rounds: int = 1, tries: int | None = None, judging: str | None = None,
                 shortlist: int | None = None, shortlist_by: str = "words", pairs: int | None = None) -> None:
        check_choice("goa", "readout", readout, ("max", "mean"))
        check_choice("goa", "mode", mode, ("paper", "released"))
        check_choice("goa", "flow", flow, ("both", "reversed", "source_to_target", "target_to_source"))
        check_choice("goa", "weights", weights, ("relevance", "ones"))
        check_choice("goa", "weighting", weighting, WEIGHTINGS)
        check_choice("goa", "graph", graph, ("relevance", "complete"))
        check_count("goa", "rounds", rounds)
        complete = graph == "complete"
        k = (len(pool) if complete else 3) if k is None else k
        check_k(k, pool, "goa")
        check_number("goa", "tau", tau, 0, len(pool))
        released = mode == "released"
        check_choice("goa", "judging", judging, ("text", "likelihood", None))
        if pairs is not None:
            check_count("goa", "pairs", pairs, 2)
        if complete:
            defaults = self.parameters_of()
            for name, value in (("mode", mode), ("tau", tau), ("flow", flow), ("weights", weights), ("tries", tries),
                                ("judging", judging), ("shortlist", shortlist), ("shortlist_by", shortlist_by),
                                ("pairs", pairs)):
                if value != defaults[name]:
                    raise UserError(f"goa: {name} = {value!r} does not go with graph = 'complete', which has all "
                                    "agents, weights 1 and no scores; leave it out")
        elif rounds != 1:
            raise UserError(f"goa: rounds = {rounds} goes with graph = 'complete'; a graph of relevance has one pass "
                            "down and one up; leave it out")
        judging = "text" if released else judging or pool.judging
        if tries is None:
            tries = 3 if released else 1
        check_count("goa", "tries", tries)
        prompts = pool.prompts.sibling("released") if released else None
        passing = AgentConv(weighting, label_ones=released and weights != "ones")
        mean = MeanReadout(weighting, always=complete, ones=weights == "ones",
                           label_by="relevance" if released and weights != "ones" else "share")
        decide: nn.Module = mean if readout == "mean" else MaxReadout(domain_rank if released else None)
        if complete:
            if k != len(pool):
                check_choice("goa", "k with graph='complete'", k, (len(pool),))
            super().__init__(pool, Everyone(), decide, Complete(self_loops=True), passing, FixedRounds(rounds))
        else:
            connect = Relevance(Scoring(tau, mode, tries, judging, pairs), flow, weights == "ones", released,
                                released and readout == "max", domain_rank if released else None)
            select = TopK(k, tries, judging=judging, shortlist=shortlist_of("goa", pool, k, shortlist, shortlist_by))
            super().__init__(pool, select, decide, connect, passing, FixedRounds(None), prompts)
        self.released = released

    def answer(self, state: State) -> None:
        super().answer(state)
        if self.released and self.answer_prompts is not None:
            replace_unsure(state, self.answer_prompts)

    def talk(self, state: State, topology: Topology) -> None:
        back = isinstance(self.connect, Relevance) and self.connect.schedule(state)[state.round - 1][0] == "up"
        self.passing(state, topology, own="initial" if self.released and back else None)


def confidence(text: str | None) -> float | None:
    """The ``confidence_level`` of a JSON reply, ``None`` if there is none. JSON with mistakes elsewhere (backslashes of
    formulas, say) is read too."""
    text = text or ""
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        return None
    try:
        level = str(json.loads(text[start : end + 1], strict=False).get("confidence_level")).strip()
        return float(level.rstrip("%")) / (100 if level.endswith("%") else 1)
    except (ValueError, AttributeError, RecursionError):
        stated = _CONFIDENCE.search(text, start)
    return None if stated is None else float(stated[1]) / (100 if stated[2] else 1)


def replace_unsure(state: State, prompts: PromptSet) -> None:
    """Lets the general model answer in the place of agents whose confidence is unknown or below 0.1."""
    pool = state.pool
    general = pool.meta
    if general.card.domain != "general":
        listed = [pool.agents[i] for i in pool.canonical]
        general = next((a for a in listed if a.card.domain == "general"), general)
    position = state.pool.agents.index(general) if general in state.pool.agents else -1
    unsure = []
    for node, reply in enumerate(state.replies):
        level = confidence(reply.text)
        if state.agent_of(node) is not general and (level is None or not level >= LEAST_CONFIDENCE):
            unsure.append(node)
    if not unsure:
        return
    state.agent, state.instance = state.agent.clone(), state.instance.clone()
    for node in unsure:
        same = (state.batch == state.batch[node]) & (state.agent == position)
        free = 1 + int(state.instance[same].max()) if bool(same.any()) else 0
        state.agent[node], state.instance[node] = position, free
    receivers = [Receiver(general, int(state.batch[v]), node=v, instance=int(state.instance[v])) for v in unsure]
    replies = speak(state, receivers, "answer", prompts=prompts)
    for node, reply in zip(unsure, replies):
        state.replies[node] = state.initial[node] = replace(reply)
    for question in sorted({int(state.batch[v]) for v in unsure}):
        state.traces[question]["agents"] = [state.agent_of(v).name for v in state.nodes_of(question)]
    state.log_replies("answer", unsure, replies)


