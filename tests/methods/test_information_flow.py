"""Who hears whom: every prompt of every method holds exactly what its topology says, in every listing of the agents."""

from __future__ import annotations

import itertools
import re

import pytest

from goa_torch.methods import build_method, method_names
from tests.worlds import DOMAINS, Spy, echo_pool, questions

TAG = re.compile(r"<q\d+/[a-z]+\.\d+@\d+/[a-z]+>")
#: Of a chat that is kept, the first round of talking alone holds no older messages.
KEPT = {"debunc": {"rounds": 2}}
VARIANTS = [(name, KEPT.get(name, {})) for name in method_names()] + [
    ("goa", {"readout": "mean"}), ("goa", {"mode": "released"}), ("goa", {"mode": "released", "readout": "mean"}),
    ("goa", {"flow": "reversed"}), ("goa", {"flow": "source_to_target"}), ("goa", {"flow": "target_to_source"}),
    ("goa", {"weights": "ones"}), ("goa", {"k": 2, "tau": 0.2}), ("goa", {"weighting": "none", "k": 4}),
    ("vote", {"k": 2, "samples": 3}), ("goa", {"k": -1}), ("goa", {"k": -1, "readout": "mean"}),
    ("goa", {"k": -1, "mode": "released", "readout": "mean"}), ("goa", {"k": 4, "tau": 0.9, "readout": "mean"}),
    ("macnet", {"graph": "random"}), ("sparse_mad", {"graph": "erdos_renyi"}), ("vote", {"k": -1}),
]
#: Debates that end where agents agree: here nobody does, so that they must talk.
SELECTIVE = ("dylan", "reconcile", "armor_mad", "s2_mad")
#: Calls between the five slots (critics, feedback, summaries, orchestrators): tests of their own say who hears whom.
BETWEEN_SLOTS = {"handoff", "macnet", "refine", "groupdebate"}
PLAIN = [(name, settings) for name, settings in VARIANTS if name not in BETWEEN_SLOTS]


def run(name, settings, order=DOMAINS, n_questions=2):
    spy = Spy()
    pool = echo_pool(spy.reply, names=list(order))
    method = build_method(name, pool, **settings)
    topologies = []
    if method.connect is not None:
        method.connect.register_forward_hook(lambda module, args, topology: topologies.append((args, topology)))
    states = []
    method.readout.register_forward_hook(lambda module, args, replies: states.append(args[0]))
    with spy.watching():
        results = method(questions(n_questions))
    return spy, topologies, results, states[0]


def tags_in(request):
    return TAG.findall("".join(message.text for message in request.messages))


@pytest.mark.parametrize("name, settings", PLAIN)
def test_every_prompt_holds_exactly_its_declared_senders(name, settings):
    spy, topologies, _, state = run(name, settings)
    node_of, latest, first = {}, {}, {}
    for node in range(state.num_nodes):
        node_of[int(state.batch[node]), state.agent_of(node).name, int(state.instance[node])] = node
    stages = [(purpose, list(items)) for purpose, items in
              itertools.groupby(spy.asked, key=lambda item: (item[0].purpose, item[0].round))]
    for purpose, stage in stages:
        said = dict(latest)
        for request, text in stage:
            node = node_of.get((request.question, request.agent.name, request.instance))
            heard = tags_in(request)
            if purpose[0] == "select" and name == "dylan":  # the meta-LLM ranks what was said
                assert sorted(heard) == sorted(latest[v] for v in latest if state.batch[v] == request.question)
            elif purpose[0] in ("select", "answer"):
                assert heard == []
            elif purpose[0] == "score":
                others = {v for v in first if state.batch[v] == request.question and v != node}
                assert sorted(heard) == sorted(first[v] for v in others)
            elif purpose[0] == "pass":
                edge_index = topologies[request.round - 1][1].edge_index
                senders = set(edge_index[0][edge_index[1] == node].tolist())
                assert senders, "who hears nothing is not called"
                own = first if released_back(settings, request.round) else latest  # none if it has not spoken
                mine = [own[node]] if node in own else []
                assert sorted(heard) == sorted([latest[v] for v in senders - {node}] + mine)
            else:
                assert purpose[0] == "readout"
                kept = [v for v in latest if state.batch[v] == request.question and state.kept[v]]
                assert sorted(heard) == sorted(latest[v] for v in kept)
            if node is not None and purpose[0] in ("answer", "pass"):
                said[node] = TAG.findall(text)[0]
                first.setdefault(node, said[node])
                if purpose[0] == "answer":
                    first[node] = said[node]
        latest = said  # a round is synchronous: what is written in it is read after it


@pytest.mark.parametrize("name", SELECTIVE)
def test_debates_that_end_at_agreement_talk_where_nobody_agrees(name):
    spy, topologies, results, _ = run(name, {})
    assert topologies and sum(request.purpose == "pass" for request, _ in spy.asked) >= 2 * 6
    ratings = [stage for result in results for stage in result.trace["stages"] if stage["stage"] in ("rating", "rank")]
    assert not any(stage["unparsed"] for stage in ratings) and bool(ratings) == (name == "dylan")


def released_back(settings, round):
    return settings.get("mode") == "released" and round > 1


@pytest.mark.parametrize("name, settings", VARIANTS)
def test_transcripts_do_not_depend_on_the_order_of_the_listing(name, settings):
    def transcript(order):
        spy, _, results, _ = run(name, settings, order, n_questions=1)
        prompts = sorted((Spy.tag(r), "".join(m.text for m in r.messages)) for r, _ in spy.asked)
        return prompts, [(r.answer, r.usage.tokens, r.trace) for r in results]

    expected = transcript(DOMAINS)
    for order in list(itertools.permutations(DOMAINS))[1::120] + [DOMAINS[::-1]]:
        assert transcript(order) == expected


@pytest.mark.parametrize("name, settings", VARIANTS)
def test_a_batch_of_questions_gives_each_what_it_gets_alone(name, settings):
    n = 12 if settings.get("graph") == "random" else 3
    spy, _, together, _ = run(name, settings, n_questions=n)
    for number, question in enumerate(questions(n)):
        alone_spy = Spy()
        method = build_method(name, echo_pool(alone_spy.reply), **settings)
        with alone_spy.watching():
            [alone] = method([question])
        assert alone.reply.text == together[number].reply.text and alone.trace == together[number].trace
        places = [[(c.purpose, c.agent, c.round, c.depth) for c in r.calls] for r in (alone, together[number])]
        assert places[0] == places[1]
        assert alone_spy.tags.items() <= spy.tags.items()  # stream for stream


@pytest.mark.parametrize("name, settings", VARIANTS)
def test_each_stage_is_one_batched_request(name, settings):
    spy = Spy()
    pool = echo_pool(spy.reply)
    method = build_method(name, pool, **settings)
    with spy.watching():
        results = method(questions(4))
    assert len(pool.meta.model.batches) == max(result.depth for result in results)
