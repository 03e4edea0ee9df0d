"""The exchange merges and shares calls; the recorder counts them."""

from __future__ import annotations

import threading
import time

import pytest

from goa_torch.agents.base import Agent
from goa_torch.agents.calls import Exchange, Recorder, reply_key
from goa_torch.agents.echo import EchoModel
from goa_torch.agents.pool import Pool
from goa_torch.errors import UserError
from goa_torch.methods import build_method
from goa_torch.randomness import stream
from goa_torch.types import Card, Chat, Message, Sampling
from tests.worlds import echo_pool, questions, say_by_purpose


class DictCache(dict):
    def get(self, keys):
        return [dict.get(self, key) for key in keys]

    def put(self, items):
        self.update(items)


def chat(text="hi", stream=0):
    return Chat((Message.of("user", text),), stream)


def test_methods_run_together_share_batches_and_identical_calls():
    pool = echo_pool(say_by_purpose)
    methods = [build_method("vote", pool), build_method("moa", pool), build_method("single", pool)]
    together = Exchange().together([lambda m=m, e=None: None for m in methods])
    assert together == [None] * 3
    exchange = Exchange()
    results = exchange.together([lambda m=m: m(questions(2), exchange=exchange) for m in methods])
    assert pool.meta.model.batches[0] == 12  # the six first answers, once for all three methods
    vote, moa, single = results
    assert [len(r.calls) for r in (vote[0], moa[0], single[0])] == [6, 19, 1]
    assert sum(c.shared for c in vote[0].calls) == 0 and single[0].calls[0].shared
    assert moa[0].paid.calls == 13 and moa[0].usage.calls == 19


def test_running_together_changes_no_result():
    for name, settings in (("goa", {}), ("moa", {}), ("vote", {})):
        pool = echo_pool(say_by_purpose)
        alone = build_method(name, pool, **settings)(questions(3))
        exchange = Exchange()
        method = build_method(name, pool, **settings)
        other = build_method("iterate", pool)
        jobs = [lambda m=m, e=exchange: m(questions(3), exchange=e) for m in (method, other)]
        both = exchange.together(jobs)[0]
        assert [r.trace for r in alone] == [r.trace for r in both]


def test_a_bug_in_one_run_ends_all_and_is_raised():
    exchange = Exchange()
    pool = echo_pool(say_by_purpose)

    def buggy():
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError):
        exchange.together([lambda: build_method("goa", pool)(questions(2), exchange=exchange), buggy])


def test_a_model_that_raises_is_raised_in_every_run():
    exchange = Exchange()

    def broken(chat):
        raise RuntimeError("broken model")

    pool = echo_pool(broken)
    with pytest.raises(RuntimeError, match="broken model"):
        exchange.together([lambda n=n: build_method(n, pool)(questions(1), exchange=exchange)
                           for n in ("single", "vote")])


def test_the_cache_serves_what_was_asked_before_and_never_failures():
    cache, model = DictCache(), EchoModel(lambda c: None if "fail" in c.text else "ok")
    exchange = Exchange(cache)
    items = [(model, chat("fail"), Sampling()), (model, chat("fine"), Sampling())]
    assert [shared for _, shared in exchange.serve(items)] == [False, False]
    assert [shared for _, shared in exchange.serve(items)] == [False, True]
    assert model.batches == [2, 1]


def test_greedy_calls_are_the_same_whatever_their_stream():
    model = EchoModel()
    greedy, drawn = Sampling(temperature=0), Sampling(temperature=0.7)
    assert reply_key(model, chat(stream=1), greedy) == reply_key(model, chat(stream=2), greedy)
    assert reply_key(model, chat(stream=1), drawn) != reply_key(model, chat(stream=2), drawn)
    assert reply_key(model, chat(), drawn) != reply_key(model, chat(), Sampling(temperature=0.7, max_new_tokens=5))


def test_models_in_different_lanes_are_served_side_by_side():
    def slow(c):
        time.sleep(0.2)
        return "ok"

    models = [EchoModel(slow, name=f"m{i}") for i in range(3)]
    for i, model in enumerate(models):
        model.lane = f"gpu:{i}"
    start = time.perf_counter()
    replies = Exchange().serve([(m, chat(), Sampling()) for m in models])
    assert time.perf_counter() - start < 0.5 and [r.text for r, _ in replies] == ["ok"] * 3


def test_two_copies_of_one_agent_have_different_streams():
    pool = echo_pool(say_by_purpose)
    build_method("self_consistency", pool)(questions(1))
    assert len({c.stream for c in pool.meta.model.chats}) == 6


def test_totals_are_sums_of_records():
    [result] = build_method("goa", echo_pool(say_by_purpose))(questions(1))
    assert result.usage.prompt_tokens == sum(c.usage.prompt_tokens for c in result.calls)
    assert result.usage.tokens == sum(c.usage.tokens for c in result.calls)
    assert Recorder(questions(1), 0, {}).calls == [[]]


def test_an_interruption_that_a_model_raises_is_raised():
    def interrupted(chat):
        raise InterruptedError("signal")

    exchange, pool = Exchange(), echo_pool(interrupted)
    with pytest.raises(InterruptedError, match="signal"):
        exchange.together([lambda n=n: build_method(n, pool)(questions(1), exchange=exchange)
                           for n in ("single", "vote")])


def test_a_job_cannot_run_jobs_of_its_own_exchange():
    exchange, model = Exchange(), EchoModel()

    def inner():
        return exchange.together([lambda: exchange.serve([(model, chat(), Sampling())])])

    with pytest.raises(RuntimeError, match="one of its own jobs"):
        exchange.together([inner, inner])
    assert exchange.together([lambda: 1]) == [1]


def test_a_lane_that_fails_does_not_wait_for_the_others():
    release = threading.Event()

    def slow(c):
        release.wait(5)
        return "ok"

    def broken(c):
        raise RuntimeError("broken lane")

    models = [EchoModel(slow), EchoModel(broken)]
    for number, model in enumerate(models):
        model.lane = f"gpu:{number}"
    start = time.perf_counter()
    with pytest.raises(RuntimeError, match="broken lane"):
        Exchange().serve([(m, chat(), Sampling()) for m in models])
    release.set()
    assert time.perf_counter() - start < 2


def test_nameless_echoes_are_not_taken_for_each_other():
    models = [EchoModel(["one"]), EchoModel(["two"])]
    assert [reply.text for reply, _ in Exchange().serve([(m, chat(), Sampling()) for m in models])] == ["one", "two"]
    assert EchoModel(name="a").fingerprint == EchoModel(name="a").fingerprint


@pytest.mark.parametrize("settings, words", [
    ({"max_new_tokens": 1.5}, "whole"), ({"max_new_tokens": True}, "whole"),
    ({"temperature": float("inf")}, "temperature"),
    ({"temperature": float("nan")}, "temperature"), ({"temperature": "0"}, "temperature"), ({"top_p": 0}, "top_p"),
    ({"stop": (1,)}, "stop"), ({"stop": ""}, "stop"),
])
def test_wrong_sampling_is_one_line(settings, words):
    with pytest.raises(UserError) as error:
        Sampling(**settings)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_a_lone_stop_string_is_one_stop_string():
    assert Sampling(stop="###").stop == ("###",)


def test_a_pool_with_wrong_sampling_or_a_second_agent_of_the_meta_llms_name_is_one_line():
    pool = echo_pool()
    with pytest.raises(UserError, match="says nothing about select, score"):
        Pool(pool.agents, pool.prompts, sampling={"answer": Sampling(), "pass": Sampling(), "readout": Sampling()})
    with pytest.raises(UserError, match="unknown purpose 'answers'"):
        Pool(pool.agents, pool.prompts, sampling={"answers": Sampling()})
    with pytest.raises(UserError, match="Did you mean 'temperature'"):
        pool.with_sampling(temprature=0)
    with pytest.raises(UserError, match="name of another agent, 'law'"):
        Pool(pool.agents, pool.prompts, meta=Agent("law", EchoModel(), Card("law")))


def test_a_separator_inside_a_name_makes_no_two_streams_one():
    assert stream("a\x1fsb") != stream("a", "b") and stream("a\x1f", "b") != stream("a", "\x1fsb")
