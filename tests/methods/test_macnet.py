"""MacNet and ColMAD: actors, critics, partners and a judge."""

from __future__ import annotations

from collections import Counter

import pytest

from goa_torch.errors import UserError
from goa_torch.methods import build_method
from tests.worlds import DOMAINS, Spy, echo_pool, questions


def speak(chat):
    """Says whether it was asked as a critic, as an actor or for a first answer, and of whom."""
    actor = "actor" if "Instruction about" in chat.text else "source"
    kind = "critic" if "Write a short instruction" in chat.text else actor
    return f"{kind}<{','.join(map(str, chat.senders))}> x"


class DrawSpy(Spy):
    """Tells an agent's calls of one round apart."""

    @staticmethod
    def tag(request, question=""):
        return Spy.tag(request, question).replace("@", f"+{request.draw}@")


EDGES = {"chain": 5, "star": 5, "tree": 5, "mesh": 15, "layered": 9, "random": 6}


@pytest.mark.parametrize("graph", EDGES)
def test_every_edge_costs_a_critic_and_every_node_an_artefact(graph):
    pool = echo_pool(speak)
    [result] = build_method("macnet", pool, graph=graph)(questions(1))
    kinds = Counter(chat_kind.split("<")[0] for chat_kind in
                    (speak(chat) for chat in pool.meta.model.chats if "Weigh the replies" not in chat.text))
    assert kinds["critic"] == EDGES[graph] and kinds["source"] + kinds["actor"] == 6
    readout = [call for call in result.calls if call.purpose == "readout"]
    assert len(result.calls) == 6 + EDGES[graph] + len(readout)
    if graph != "random":  # which has one sink or several
        assert len(readout) == (graph in ("star", "tree", "layered"))


@pytest.mark.parametrize("graph", EDGES)
def test_a_prompt_holds_the_replies_of_its_predecessors_and_the_instructions_about_them(graph):
    spy = DrawSpy()
    method = build_method("macnet", echo_pool(spy.reply), graph=graph)
    with spy.watching():
        [result] = method(questions(1))
    stages = result.trace["stages"]
    artefact = {r["node"]: r["text"] for s in stages if s["stage"] in ("answer", "pass") for r in s["replies"]}
    instruction = {tuple(s["edge"]): s["text"] for s in stages if s["stage"] == "critic"}
    edges = {(s, r) for stage in stages if stage["stage"] == "pass" for s, r, _ in stage["edges"]}
    assert set(instruction) == edges and len(edges) == EDGES[graph]
    for request, said in spy.asked:
        text = "".join(message.text for message in request.messages)
        node = request.instance
        before = {s for s, r in edges if r == node}
        if request.purpose == "readout":
            assert all(artefact[v] in text for v in set(range(6)) - {s for s, _ in edges})
        elif request.draw:  # a critic, told apart by the node it reads
            sender = request.draw - 1
            assert instruction[sender, node] == said
            assert [v for v in range(6) if artefact[v] in text] == [sender] and "Instruction" not in text
        elif request.purpose == "pass":
            assert {v for v in range(6) if artefact[v] in text} == before != set()
            assert {e for e, words in instruction.items() if words in text} == {(s, node) for s in before}
        else:
            assert not before and "<q" not in text


def test_generations_speak_in_turn_and_their_depth_is_counted():
    for graph, depth in (("chain", 11), ("star", 4), ("mesh", 11), ("layered", 4)):
        pool = echo_pool(speak)
        [result] = build_method("macnet", pool, graph=graph)(questions(1))
        assert result.depth == depth == len(pool.meta.model.batches)


def test_positions_follow_the_listing():
    order = list(DOMAINS)[::-1]
    [result] = build_method("macnet", echo_pool(speak, names=order), n=None)(questions(1))
    names = result.trace["agents"]
    edges = [(names[s], names[r]) for st in result.trace["stages"] if st["stage"] == "pass" for s, r, _ in st["edges"]]
    assert edges == list(zip(order, order[1:]))


def test_a_critic_that_fails_leaves_its_artefact_without_instruction():
    pool = echo_pool(lambda chat: None if "Write a short instruction" in chat.text else "fine x")
    [result] = build_method("macnet", pool, n=2)(questions(1))
    assert result.answer == "x" and "Instruction" not in pool.meta.model.chats[-1].text
    assert pool.meta.model.chats[-1].senders == [0]


def test_a_source_that_fails_is_a_recorded_failure():
    [result] = build_method("macnet", echo_pool(lambda chat: None), n=3)(questions(1))
    assert result.reply.failed and len(result.calls) == 1


def test_debaters_read_their_partner_and_the_judge_reads_both():
    pool = echo_pool(lambda chat: f"{len(chat.senders)} x")
    [result] = build_method("colmad", pool, agents=["law", "code"], rounds=3)(questions(1))
    chats = pool.meta.model.chats
    assert [sorted(chat.senders) for chat in chats] == [[]] * 2 + [[0, 1]] * 5
    assert [chat.senders[0] for chat in chats[2:6]] == [1, 0, 1, 0]  # the partner first
    assert "You are the judge" in chats[-1].text and "nobody has to win" in chats[2].text
    assert Counter(c.purpose for c in result.calls) == {"answer": 2, "pass": 4, "readout": 1} and result.depth == 4


@pytest.mark.parametrize("name, settings, words", [
    ("macnet", {"graph": "ring"}, "unknown graph"), ("macnet", {"density": 2}, "density"),
    ("macnet", {"k": 0}, "k must"),
    ("colmad", {"agents": ["law"]}, "two different"), ("colmad", {"agents": ["law", "law"]}, "two different"),
    ("colmad", {"agents": ["law", "x"]}, "unknown agent"), ("colmad", {"rounds": 0}, "rounds"),
])
def test_wrong_settings_are_one_line(name, settings, words):
    with pytest.raises(UserError) as error:
        build_method(name, echo_pool(), **settings)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_a_critic_that_cannot_read_the_artefact_is_not_asked():
    pool = echo_pool(lambda chat: "word " * 60, context_length=64 + 300)
    [result] = build_method("macnet", pool, n=2)(questions(1))
    critics = [stage for stage in result.trace["stages"] if stage["stage"] == "critic"]
    assert len(critics) == 1 and not critics[0]["cut"] and "Instruction" in pool.meta.model.chats[-1].text
    pool = echo_pool(lambda chat: "word " * 60, context_length=64 + 50)
    [result] = build_method("macnet", pool, n=2)(questions(1))
    critics = [stage for stage in result.trace["stages"] if stage["stage"] == "critic"]
    assert len(critics) == 1 and critics[0]["cut"] and critics[0]["text"] is None
    assert not [chat for chat in pool.meta.model.chats if "Write a short instruction" in chat.text]
