from __future__ import annotations

import builtins
import copy
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from email.utils import formatdate
from pathlib import Path

import pytest
from fault_server import Answer, FaultServer, completion, error
from hypothesis import given
from hypothesis import strategies as st

from goa_torch.agents.base import EMBED, LOG_LIKELIHOOD
from goa_torch.agents.calls import reply_key
from goa_torch.agents.openai import OpenAIModel
from goa_torch.agents.openai_dialect import Dialect, fold
from goa_torch.agents.openai_errors import Refusal, back_off, read_refusal, retry_after
from goa_torch.agents.openai_reply import read_reply
from goa_torch.errors import UserError
from goa_torch.types import Chat, Message, Sampling

openai = pytest.importorskip("openai", reason="the extra `api` is not installed")
KEY = "sk-very-secret-0123456789"
GREEDY = Sampling(temperature=0, max_new_tokens=20)


def chat(text: str = "hello", system: str = "", stream: int = 1) -> Chat:
    turns = [Message.of("system", system)] if system else []
    return Chat((*turns, Message.of("user", text)), stream)


@pytest.fixture
def serve():
    """A factory of (server, model): everything is closed after the test."""
    opened = []

    def start(behave=None, models=None, **options):
        server = FaultServer(behave, models)
        model = OpenAIModel("tiny", server.url, **{"backoff": 0.01, "timeout": 20, **options})
        opened.append((server, model))
        return server, model

    yield start
    for server, model in opened:
        model.close()
        server.close()


def ask(model: OpenAIModel, *texts: str, sampling: Sampling = GREEDY):
    return model.generate([chat(text) for text in texts or ("hello",)], sampling)


# --------------------------------------------------------------------------- what goes right


def test_replies_come_in_order_and_no_more_are_in_flight_than_allowed(serve):
    def behave(request):
        reply = completion(f"re: {request.asked}")
        reply.hang = 0.02 * (3 - request.number % 3)
        return reply

    server, model = serve(behave, concurrency=3)
    replies = ask(model, *(str(i) for i in range(12)))
    assert [reply.text for reply in replies] == [f"re: {i}" for i in range(12)]
    assert server.most == 3
    assert all(reply.usage.calls == 1 and reply.usage.retries == 0 for reply in replies)


def test_the_bound_on_requests_in_flight_holds_over_threads(serve):
    def behave(request):
        reply = completion()
        reply.hang = 0.03
        return reply

    server, model = serve(behave, concurrency=2)
    threads = [threading.Thread(target=ask, args=(model, "a", "b", "c")) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server.requests) == 9
    assert server.most == 2


def test_seconds_of_replies_add_up_to_the_wall_time(serve):
    def behave(request):
        reply = completion()
        reply.hang = 0.1
        return reply

    _, model = serve(behave)
    ask(model)
    start = time.perf_counter()
    replies = ask(model, *"abcdefgh")
    wall = time.perf_counter() - start
    assert 0.1 <= sum(reply.usage.seconds for reply in replies) <= wall


def test_the_seed_is_the_chats_stream_in_31_bits_and_greedy_decoding_names_none(serve):
    server, model = serve()
    stream = (5 << 40) + 123
    model.generate([chat(stream=stream)], Sampling(temperature=0.7, top_p=0.9, max_new_tokens=5, stop=("\n\n",)))
    model.generate([chat(stream=stream)], GREEDY)
    sampled, greedy = (request.body for request in server.requests)
    assert sampled["seed"] == stream % 2**31
    assert (sampled["temperature"], sampled["top_p"], sampled["max_tokens"], sampled["stop"]) == (0.7, 0.9, 5, ["\n\n"])
    assert "seed" not in greedy and "top_p" not in greedy and "stop" not in greedy


def test_no_chats_make_no_request(serve):
    server, model = serve()
    assert model.generate([], GREEDY) == []
    assert not server.requests


def test_cached_tokens_and_usage_are_read(serve):
    usage = {"prompt_tokens": 90, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 64}}
    _, model = serve([completion(usage=usage)])
    (reply,) = ask(model)
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.usage.cached_tokens) == (90, 4, 64)


def test_extra_body_reaches_the_server_and_tells_fingerprints_apart(serve):
    server, model = serve(extra_body={"chat_template_kwargs": {"enable_thinking": False}})
    ask(model)
    assert server.requests[0].body["chat_template_kwargs"] == {"enable_thinking": False}
    plain = OpenAIModel("tiny", server.url)
    assert model.fingerprint != plain.fingerprint
    assert plain.fingerprint == f"server:{server.url.split('/')[2]}:tiny"
    assert "chat_template_kwargs" not in repr(model) + model.fingerprint


def test_a_model_can_be_used_again_after_it_was_closed(serve):
    _, model = serve()
    assert ask(model)[0].text == "re: hello"
    model.close()
    assert ask(model)[0].text == "re: hello"


def test_generate_works_where_a_loop_runs_already(serve):
    import asyncio

    _, model = serve()

    async def notebook():
        return ask(model)

    assert asyncio.run(notebook())[0].text == "re: hello"


# --------------------------------------------------------------------------- what passes: retries, counted


@pytest.mark.parametrize("fault, times", [
    (error(500), 2), (error(502), 1), (error(503), 1), (error(429), 3), (error(408), 1), (error(409), 1),
    (Answer(b'{"choices": [', content_type="application/json"), 1), (Answer(b"<html>oops</html>"), 1),
    (Answer(b"not json at all", content_type="text/plain"), 1), (Answer(b"\xff\xfe\x00garbage"), 1), (Answer(b""), 1),
    (Answer([1, 2]), 1), (Answer({"choices": []}), 1), (Answer({"choices": None}), 1), (Answer({}), 1),
    (Answer({"choices": [{"finish_reason": "stop"}]}), 1), (Answer({"error": {"message": "upstream died"}}), 1),
    (Answer(drop=True), 2),
])
def test_a_passing_fault_is_retried_and_counted(serve, fault, times):
    server, model = serve([fault] * times + [completion("fine")])
    (reply,) = ask(model)
    assert (reply.text, reply.usage.retries, reply.usage.calls) == ("fine", times, 1)
    assert len(server.requests) == times + 1


def test_a_server_that_hangs_is_left_after_the_timeout_and_asked_again(serve):
    server, model = serve([Answer({}, hang=30), completion("fine")], timeout=0.3)
    (reply,) = ask(model)
    assert (reply.text, reply.usage.retries) == ("fine", 1)


def test_a_server_that_keeps_failing_is_a_failure_of_that_chat_alone(serve):
    def behave(request):
        return error(500, "out of order") if request.asked == "bad" else completion("fine")

    server, model = serve(behave, max_retries=2)
    good, bad, other = ask(model, "good", "bad", "other")
    assert (good.text, other.text) == ("fine", "fine")
    assert bad.failed and bad.text is None and bad.usage.retries == 2 and bad.usage.calls == 1
    assert "gave up after 3 attempts" in bad.error and "500 out of order" in bad.error and "\n" not in bad.error


def test_a_server_that_hangs_for_ever_is_a_failure(serve):
    _, model = serve([Answer({}, hang=30)], timeout=0.2, max_retries=1)
    (reply,) = ask(model)
    assert reply.failed and "no answer within 0.2 s" in reply.error


def test_a_server_that_dies_in_the_middle_is_a_failure(serve):
    server, model = serve(max_retries=1)
    assert ask(model)[0].text == "re: hello"
    server.close()
    (reply,) = ask(model)
    assert reply.failed and "connection failed" in reply.error


@pytest.mark.parametrize("header", ["0.4", "date"])
def test_retry_after_is_honoured(serve, header):
    def behave(request):
        if request.number:
            return completion("fine")
        wait = formatdate(time.time() + 2, usegmt=True) if header == "date" else header
        return error(429, headers={"Retry-After": wait})

    server, model = serve(behave)
    start = time.perf_counter()
    (reply,) = ask(model)
    assert (reply.text, reply.usage.retries) == ("fine", 1)
    assert time.perf_counter() - start >= (0.4 if header == "0.4" else 0.9)


def test_a_server_that_asks_to_wait_for_an_hour_is_not_waited_for(serve):
    server, model = serve([error(429, "quota", {"Retry-After": "3600"})], max_wait=5)
    (reply,) = ask(model)
    assert reply.failed and "3600 s" in reply.error
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_what_asking_again_cannot_mend_is_not_asked_again(serve, status):
    server, model = serve([error(status, "you may not")])
    (reply,) = ask(model)
    assert reply.failed and f"{status} you may not" in reply.error and reply.usage.retries == 0
    assert len(server.requests) == 1


def test_a_spent_quota_is_not_asked_again(serve):
    server, model = serve([error(429, "You exceeded your current quota", code="insufficient_quota")])
    assert ask(model)[0].failed
    assert len(server.requests) == 1


@pytest.mark.parametrize("answer", [
    error(400, "This model's maximum context length is 2048 tokens. However, you requested 3000 tokens", code=400),
    error(400, "the request exceeds the available context size (512 tokens), try increasing it"),
    error(400, "The input (4000 tokens) is longer than the model's context length (2048 tokens)."),
    error(400, "'max_tokens' or 'max_completion_tokens' is too large: 8000. The model's maximum context length is 4k"),
    error(400, "too big", code="context_length_exceeded"),
    Answer({"object": "error", "message": "Input is too long: prompt too long", "code": 40303}, 400),
    Answer(b"payload too large", 413, content_type="text/plain"),
])
def test_a_prompt_that_does_not_fit_is_a_failure_that_says_so(serve, answer):
    server, model = serve([answer])
    (reply,) = ask(model)
    assert reply.failed and "do not fit the context" in reply.error
    assert len(server.requests) == 1


# --------------------------------------------------------------------------- strict servers


@pytest.mark.parametrize("answer", [
    error(400, "Unrecognized request argument supplied: seed"),
    error(400, "Unsupported parameter", param="seed", code="unsupported_parameter"),
    Answer({"detail": "Unexpected fields in the request: {'seed'}"}, 422),
    Answer({"detail": [{"type": "extra", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}, 422),
    Answer({"error": "property 'seed' is unsupported"}, 400),
])
def test_a_field_that_a_strict_server_rejects_is_left_out_from_then_on(serve, answer):
    server, model = serve(lambda request: answer if "seed" in request.body else completion("fine"), concurrency=1)
    replies = ask(model, "a", "b", "c", sampling=Sampling())
    assert [reply.text for reply in replies] == ["fine"] * 3
    assert [reply.usage.retries for reply in replies] == [1, 0, 0]
    assert ["seed" in request.body for request in server.requests] == [True, False, False, False]


def test_several_rejected_fields_are_left_out_one_after_the_other(serve, caplog):
    def behave(request):
        for name in ("seed", "top_p", "stop"):
            if name in request.body:
                return error(400, f"unknown field '{name}'")
        return completion("one STOP two")

    _, model = serve(behave)
    with caplog.at_level(logging.WARNING):
        replies = ask(model, "a", "b", sampling=Sampling(top_p=0.5, stop=("STOP",)))
    assert [reply.text for reply in replies] == ["one", "one"]
    assert "top_p" in caplog.text


def test_a_server_that_wants_max_completion_tokens_gets_them(serve):
    message = ("Unsupported parameter: 'max_tokens' is not supported with this model. "
               "Use 'max_completion_tokens' instead.")
    server, model = serve(lambda request: completion("fine") if "max_completion_tokens" in request.body else
                          error(400, message, param="max_tokens", code="unsupported_parameter"), concurrency=1)
    replies = ask(model, "a", "b")
    assert [(reply.text, reply.usage.retries) for reply in replies] == [("fine", 1), ("fine", 0)]
    assert server.requests[-1].body["max_completion_tokens"] == 20 and "max_tokens" not in server.requests[-1].body


@pytest.mark.parametrize("message", [
    "System role not supported", "Only user and assistant roles are supported!",
    "Conversation roles must alternate user/assistant/user/assistant/...",
    "After the optional system message, conversation roles must alternate user/assistant/user/assistant/...",
])
@pytest.mark.parametrize("status", [400, 500])
def test_a_server_without_a_system_role_gets_its_text_with_the_users_turn(serve, message, status):
    def behave(request):
        return error(status, message) if request.body["messages"][0]["role"] == "system" else completion("fine")

    server, model = serve(behave, concurrency=1)
    replies = model.generate([chat("q1", "be brief"), chat("q2", "be brief")], GREEDY)
    assert [(reply.text, reply.usage.retries) for reply in replies] == [("fine", 1), ("fine", 0)]
    assert server.requests[-1].body["messages"] == [{"role": "user", "content": "be brief\n\nq2"}]


def test_system_role_false_never_sends_one(serve):
    server, model = serve(system_role=False)
    model.generate([chat("q", "be brief")], GREEDY)
    assert [turn["role"] for turn in server.requests[0].body["messages"]] == ["user"]


def test_a_rejection_that_nothing_mends_ends(serve):
    message = "unknown fields seed, top_p, stop, temperature and max_tokens; roles must alternate"
    server, model = serve([error(400, message)])
    (reply,) = model.generate([chat("q", "be brief")], Sampling(top_p=0.5, stop=("x",)))
    assert reply.failed and len(server.requests) <= 5


def test_what_two_calls_learnt_at_once_is_kept_together():
    learnt = Dialect(without=frozenset({"seed"})) | Dialect("max_completion_tokens", folded=True)
    assert learnt == Dialect("max_completion_tokens", frozenset({"seed"}), True)


@given(st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), st.text("x\n")), min_size=1))
def test_folded_turns_alternate_without_a_system_and_lose_no_text(turns):
    folded = fold([Message.of(role, text) for role, text in turns])
    roles = [role for role, _ in folded]
    assert "system" not in roles
    assert all(a != b for a, b in zip(roles, roles[1:], strict=False))
    assert sum(text.count("x") for _, text in folded) == sum(text.count("x") for _, text in turns)


# --------------------------------------------------------------------------- what replies hold


@pytest.mark.parametrize("answer, text, reasoning, finish", [
    (completion("<think>so</think>four"), "four", "so", "stop"),
    (completion("four", reasoning_content="so"), "four", "so", "stop"),
    (completion("four", reasoning="so"), "four", "so", "stop"),
    (completion("four", reasoning="so", reasoning_content="so"), "four", "so", "stop"),
    (completion(None, "length", reasoning="so"), "", "so", "length"),
    (completion("<think>so", "length"), "", "so", "length"),
    (completion("fou", "length"), "fou", "", "length"),
    (completion("four", None), "four", "", "stop"),
    (completion("four", None, {"completion_tokens": 20}), "four", "", "length"),
    (completion("four", "eos_token"), "four", "", "stop"),
    (completion(""), "", "", "stop"),
    (completion([{"type": "text", "text": "fo"}, {"type": "text", "text": "ur"}]), "four", "", "stop"),
    (completion([{"type": "thinking", "thinking": [{"type": "text", "text": "so"}]}, {"type": "text", "text": "four"}]),
     "four", "so", "stop"),
])
def test_text_reasoning_and_finish_reason_are_told_apart(answer, text, reasoning, finish):
    reply = read_reply(answer.body, GREEDY)
    assert (reply.text, reply.reasoning, reply.finish_reason) == (text, reasoning, finish)


@pytest.mark.parametrize("answer, says", [
    (completion(None), "no content"), (completion(None, refusal="I cannot"), "I cannot"),
    (completion(None, "tool_calls", tool_calls=[{"id": "1"}]), "tool"),
    (completion("bad words", "content_filter"), "content_filter"), (completion("half", "abort"), "abort"),
])
def test_a_reply_without_words_is_a_failure_with_its_cost(serve, answer, says):
    server, model = serve([answer])
    (reply,) = ask(model)
    assert reply.failed and reply.finish_reason == "error" and says in reply.error
    assert reply.usage.prompt_tokens == 7 and len(server.requests) == 1


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None}, "none", [1], {"prompt_tokens_details": None}])
def test_missing_usage_counts_nothing(usage):
    reply = read_reply(completion(usage=usage).body, GREEDY)
    assert reply.text == "fine"
    assert (reply.usage.calls, reply.usage.tokens, reply.usage.cached_tokens) == (1, 0, 0)


@pytest.mark.parametrize("usage", [
    None, {}, "none", {"prompt_tokens": 7}, {"prompt_tokens": -7, "completion_tokens": 3},
    {"prompt_tokens": 7, "completion_tokens": "3"}, {"prompt_tokens": True, "completion_tokens": 3},
])
def test_a_server_that_does_not_count_tokens_is_warned_of_once(serve, caplog, usage):
    server, model = serve([completion(usage=usage)])
    with caplog.at_level(logging.WARNING):
        replies = ask(model, "a", "b") + ask(model, "c")
    assert [reply.text for reply in replies] == ["fine"] * 3
    (record,) = caplog.records
    assert server.url.split("/")[2] in record.getMessage() and "no token counts" in record.getMessage()


def test_a_server_that_counts_tokens_is_not_warned_of(serve, caplog):
    _, model = serve([completion("", usage={"prompt_tokens": 7, "completion_tokens": 0})])
    with caplog.at_level(logging.WARNING):
        ask(model)
    assert not caplog.records


@pytest.mark.parametrize("text, clean", [
    ("half \ud83d smile", "half \ufffd smile"), ("\udc00", "\ufffd"), ("whole \U0001f600", "whole \U0001f600"),
    (r"spelt \ud83d out", r"spelt \ud83d out"),
])
def test_half_characters_in_a_reply_do_not_poison_later_calls(serve, text, clean):
    server, model = serve([completion(text), completion("heard")])
    (first,) = ask(model)
    (second,) = ask(model, first.text)
    assert first.text == clean and second.text == "heard"
    assert server.requests[1].asked == clean and second.usage.retries == 0


def test_half_characters_in_an_error_are_cleaned_too(serve):
    _, model = serve([error(400, "no \ud83d here")])
    assert "no \ufffd here" in ask(model)[0].error


def test_a_prompt_that_cannot_be_sent_is_not_tried_again(serve):
    server, model = serve()
    replies = ask(model, "half \ud83d smile", "fine")
    assert replies[0].failed and "UTF-8 cannot encode" in replies[0].error and replies[0].usage.retries == 0
    replies[0].error.encode()
    assert replies[1].text == "re: fine" and len(server.requests) == 1


def test_stop_strings_are_cut_off_whatever_the_server_does():
    reply = read_reply(completion("four\nQuestion: next", "length").body, Sampling(stop=("\nQuestion:",)))
    assert (reply.text, reply.finish_reason) == ("four", "stop")


def test_a_template_that_opens_reasoning_can_be_declared():
    assert read_reply(completion("never closed", "length").body, GREEDY, opened=True).text == ""


FIELDS = st.sampled_from(["choices", "message", "content", "usage", "error", "text", "finish_reason", "reasoning"])


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(),
                    lambda inner: st.lists(inner) | st.dictionaries(FIELDS, inner)))
def test_any_json_is_a_reply_or_a_refusal(answer):
    from goa_torch.agents.openai_errors import Refused

    try:
        reply = read_reply(answer, GREEDY)
    except Refused as refused:
        assert str(refused)
    else:
        assert reply.text is not None or reply.error


# --------------------------------------------------------------------------- refusals and waiting


@pytest.mark.parametrize("value, seconds", [
    ("3", 3), ("0.5", 0.5), ("0", 0), ("-4", 0), ("nan", None), ("soon", None), ("", None),
    (formatdate(1_000_000_010, usegmt=True), 10), (formatdate(1_000_000_010, usegmt=True).replace("GMT", "-0000"), 10),
    (formatdate(999_999_000, usegmt=True), 0),
])
def test_retry_after_reads_seconds_and_dates(value, seconds):
    assert retry_after({"retry-after": value}, now=1_000_000_000) == seconds


def test_retry_after_in_milliseconds_goes_first():
    assert retry_after({"retry-after": "9", "retry-after-ms": "250"}) == 0.25


@given(st.text())
def test_any_retry_after_is_seconds_or_nothing(value):
    seconds = retry_after({"retry-after": value})
    assert seconds is None or seconds >= 0


def test_back_off_doubles_up_to_its_bound_and_has_its_own_jitter_for_each_call():
    waits = [back_off(attempt, 7, 0.5) for attempt in range(12)]
    assert all(0.25 * 2**n <= wait <= 0.5 * 2**n for n, wait in enumerate(waits[:6]))
    assert max(waits) <= 30
    assert len({back_off(3, stream, 0.5) for stream in range(50)}) == 50
    assert waits == [back_off(attempt, 7, 0.5) for attempt in range(12)]
    assert all(10 <= back_off(0, stream, 0.5, asked=10) <= 11 for stream in range(50))


@given(st.integers(400, 599), st.text())
def test_any_error_page_is_one_line(status, body):
    refusal = read_refusal(status, {}, body)
    assert refusal.message and "\n" not in refusal.message and len(refusal.message) <= 300


def test_a_page_of_html_is_read_as_text():
    page = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
    assert str(read_refusal(502, {}, page)) == "502 502 Bad Gateway 502 Bad Gateway"


def test_an_overloaded_server_is_not_mistaken_for_a_long_prompt():
    assert not Refusal("too many tokens per minute: context length", 429).too_long


# --------------------------------------------------------------------------- the key


@pytest.fixture
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return KEY


def test_the_key_is_sent_and_shown_nowhere_even_if_the_server_echoes_it(serve, key, caplog):
    echo = error(401, f"Incorrect API key provided: {KEY}", param=KEY, code=KEY)
    server, model = serve([echo], models=echo)
    with caplog.at_level(logging.DEBUG):
        (reply,) = ask(model)
        with pytest.raises(UserError) as raised:
            model.check()
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    shown = "".join(traceback.format_exception(raised.value)) + repr(model) + repr(vars(model)) + repr(reply)
    shown += repr(reply_key(model, chat(), GREEDY)) + model.fingerprint + model.lane
    assert KEY not in shown and KEY not in caplog.text
    assert "401" in str(raised.value) and "OPENAI_API_KEY" in str(raised.value) and server.url in str(raised.value)


@pytest.mark.parametrize("answer", [completion(f"the key is {KEY}"), completion(None, refusal=KEY),
                                    completion("x", reasoning=KEY), Answer(KEY.encode()), error(400, f"bad {KEY}")])
def test_a_key_in_a_reply_is_blotted_out(serve, key, answer):
    _, model = serve([answer], max_retries=0)
    assert KEY not in repr(ask(model))


def test_another_variable_can_hold_the_key(serve, key, monkeypatch):
    monkeypatch.setenv("MY_KEY", "my-own-key-42")
    server, model = serve(api_key_env="MY_KEY")
    ask(model)
    assert server.requests[0].headers["authorization"] == "Bearer my-own-key-42"


def test_a_local_server_needs_no_key(serve, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    server, model = serve()
    assert ask(model)[0].text == "re: hello"
    assert server.requests[0].headers["authorization"] == "Bearer EMPTY"


def test_a_key_is_never_sent_to_a_server_without_keys(serve, key):
    server, model = serve(api_key_env=None)
    ask(model)
    assert KEY not in repr(server.requests)


def test_a_remote_server_without_a_key_is_refused_before_any_call(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    model = OpenAIModel("tiny", "https://api.example.com/v1")
    with pytest.raises(UserError, match="OPENAI_API_KEY"):
        model.check()
    with pytest.raises(UserError, match="OPENAI_API_KEY"):
        ask(model)


def test_a_key_with_a_line_break_is_refused_without_showing_it(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\r\nx")
    model = OpenAIModel("tiny", "https://api.example.com/v1")
    with pytest.raises(UserError, match="OPENAI_API_KEY") as raised:
        model.check()
    assert KEY not in str(raised.value)


# --------------------------------------------------------------------------- wrong before any call


def test_check_passes_and_learns_the_context_length(serve):
    _, model = serve(models=Answer({"data": [{"id": "tiny", "max_model_len": 4096}]}))
    model.check()
    assert model.context_length == 4096


def test_a_context_length_that_was_given_stays(serve):
    _, model = serve(models=Answer({"data": [{"id": "tiny", "max_model_len": 4096}]}), context_length=512)
    model.check()
    assert model.context_length == 512


def test_a_wrong_model_name_is_answered_with_the_right_ones(serve):
    server, _ = serve()
    model = OpenAIModel("tiyn", server.url)
    with pytest.raises(UserError, match="Did you mean 'tiny'") as raised:
        model.check()
    assert server.url in str(raised.value)


def test_a_dead_server_is_noticed_at_once():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    model = OpenAIModel("tiny", url)
    start = time.perf_counter()
    with pytest.raises(UserError, match="not reachable") as raised:
        model.check()
    assert time.perf_counter() - start < 5
    assert url in str(raised.value) and "\n" not in str(raised.value)
    assert "During handling" not in "".join(traceback.format_exception(raised.value))
    model.close()


def test_a_server_that_does_not_answer_is_noticed_in_time(serve, monkeypatch):
    from goa_torch.agents import openai as module

    monkeypatch.setattr(module, "CHECK_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        model = OpenAIModel("tiny", f"http://127.0.0.1:{mute.getsockname()[1]}/v1")
        with pytest.raises(UserError, match="no answer within 0.3 s"):
            model.check()
        model.close()


@pytest.mark.parametrize("models, says", [
    (error(404, "Not Found"), "usually ends in /v1"), (error(500, "boom"), "500 boom"),
    (error(403, "forbidden"), "key"), (Answer(b"<html>hi</html>", content_type="text/html"), "JSON"),
    (Answer({"hello": "world"}), "OpenAI API"), (Answer([1]), "OpenAI API"),
])
def test_a_server_that_is_no_model_server_is_told_from_one(serve, models, says):
    _, model = serve(models=models)
    with pytest.raises(UserError, match=says) as raised:
        model.check()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("models", [error(404, "Not Found"), Answer({"data": []})])
def test_a_server_without_a_list_can_be_declared(serve, models):
    _, model = serve(models=models, listed=False)
    model.check()


@pytest.mark.parametrize("url, says", [
    ("localhost:8000/v1", "must look like"), ("", "must look like"), ("ftp://host/v1", "must look like"),
    (f"http://user:{KEY}@host/v1", "credentials"), (f"https://host/v1?key={KEY}", "credentials"),
])
def test_a_wrong_address_is_refused_and_secrets_in_it_are_not_repeated(url, says):
    with pytest.raises(UserError, match=says) as raised:
        OpenAIModel("tiny", url)
    assert KEY not in str(raised.value)


@pytest.mark.parametrize("options", [{"concurrency": 0}, {"timeout": 0}, {"connect_timeout": 11}, {"max_retries": -1},
                                     {"backoff": -1}, {"max_wait": -1}])
def test_settings_that_make_no_sense_are_refused(options):
    with pytest.raises(UserError, match=next(iter(options))):
        OpenAIModel("tiny", "http://localhost:1/v1", **options)


def test_a_missing_sdk_is_said_in_one_line(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "openai":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match=r"pip install 'goa_torch\[api\]'"):
        OpenAIModel("tiny", "http://localhost:1/v1").check()


def test_loading_the_module_loads_no_sdk_and_no_torch():
    code = "import goa_torch.agents.openai, sys; assert not {'openai', 'torch', 'transformers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


# --------------------------------------------------------------------------- ending


def test_closing_cancels_calls_of_other_threads_promptly(serve):
    server, model = serve([Answer({}, hang=30)])
    raised = []

    def call():
        try:
            ask(model)
        except InterruptedError as error:
            raised.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    while not server.requests:
        time.sleep(0.01)
    start = time.perf_counter()
    model.close()
    thread.join(5)
    assert raised and time.perf_counter() - start < 3


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_ends_pending_calls_promptly(serve):
    server, _ = serve([Answer({}, hang=30)])
    code = ("import sys; from goa_torch.agents.openai import OpenAIModel; from goa_torch.types import *\n"
            "model = OpenAIModel('tiny', sys.argv[1])\n"
            "try: model.generate([Chat((Message.of('user', 'q'),))] * 4, Sampling())\n"
            "except KeyboardInterrupt: print('interrupted')")
    process = subprocess.Popen([sys.executable, "-c", code, server.url], cwd=Path(__file__).parents[2], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        while not server.requests and process.poll() is None:
            time.sleep(0.02)
        start = time.perf_counter()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        assert out.strip() == "interrupted", err
        assert time.perf_counter() - start < 5
    finally:
        process.kill()


def test_a_model_nobody_holds_leaves_no_thread_behind(serve):
    server, _ = serve()
    model = OpenAIModel("tiny", server.url)
    ask(model)
    (thread,) = [thread for thread in threading.enumerate() if thread.name == model._loop.name]
    del model
    import gc

    gc.collect()
    thread.join(5)
    assert not thread.is_alive()


# --------------------------------------------------------------------------- log-likelihoods and embeddings


def scoring_server(request):
    """vLLM's way: words are tokens; the score of a token is minus its id."""
    if request.path == "/tokenize":
        turns = request.body.get("messages")
        text = " ".join(turn["content"] for turn in turns) + " <turn>" if turns else request.body["prompt"]
        return Answer({"tokens": [len(word) for word in text.split()], "count": 0, "max_model_len": 9})
    ids = request.body["prompt"]
    assert request.body["echo"] and request.path == "/v1/completions"
    scores = [None, *(-float(i) for i in ids[1:]), -99.0]
    return Answer({"choices": [{"text": "", "logprobs": {"token_logprobs": scores}}]})


def test_log_likelihoods_sum_over_the_continuation_alone(serve):
    server, model = serve(scoring_server, log_likelihood=True)
    assert LOG_LIKELIHOOD in model.capabilities
    assert model.log_likelihood([chat("a bb"), chat("c")], ["ddd eeee", ""]) == [-7.0, 0.0]


def test_a_server_that_does_not_echo_is_an_error_and_no_number(serve):
    def behave(request):
        if request.path == "/tokenize":
            return scoring_server(request)
        return Answer({"choices": [{"text": "x", "logprobs": {"token_logprobs": [-0.5]}}]})

    _, model = serve(behave, log_likelihood=True)
    with pytest.raises(RuntimeError, match="does not echo"):
        model.log_likelihood([chat("a")], ["b"])


def test_without_being_told_a_server_has_neither_log_likelihoods_nor_embeddings(serve):
    _, model = serve()
    assert model.capabilities == {"generate"}
    with pytest.raises(UserError):
        model.log_likelihood([chat()], ["x"])
    with pytest.raises(UserError):
        model.embed(["x"])
    assert model.count_tokens(chat()) is None


def test_embeddings_come_in_order_with_unit_length(serve):
    import torch

    def behave(request):
        assert request.path == "/v1/embeddings" and request.body["model"] == "embedder"
        rows = [{"index": i, "embedding": [float(len(text)), 0.0, 1.0]} for i, text in enumerate(request.body["input"])]
        return Answer({"data": rows[::-1]})

    server, model = serve(behave, embed_model="embedder")
    assert EMBED in model.capabilities
    vectors = model.embed(["x" * n for n in range(150)])
    assert vectors.shape == (150, 3) and vectors.dtype == torch.float32
    assert torch.allclose(vectors.norm(dim=1), torch.ones(150))
    assert (vectors[1:, 0] > vectors[:-1, 0]).all()
    assert len(server.requests) == 3
    assert model.embed([]).shape[0] == 0


def test_answers_of_the_fault_server_are_not_changed_by_reading_them():
    answer = completion("a STOP b")
    before = copy.deepcopy(answer.body)
    read_reply(answer.body, Sampling(stop=("STOP",)))
    assert answer.body == before


def test_check_asks_for_one_log_likelihood_and_one_embedding_where_they_are_claimed(serve):
    def behave(request):
        if request.path == "/v1/embeddings":
            return Answer({"data": [{"index": 0, "embedding": [3.0, 4.0]}]})
        return scoring_server(request)

    server, model = serve(behave, log_likelihood=True, embed_model="embedder")
    model.check()
    assert [request.path for request in server.requests] == [
        "/tokenize", "/tokenize", "/v1/completions", "/v1/embeddings"]


@pytest.mark.parametrize("options, says", [({"log_likelihood": True}, "leave log_likelihood off"),
                                           ({"embed_model": "x"}, "leave embed_model off")])
def test_a_claim_that_does_not_hold_is_found_before_the_first_call(serve, options, says):
    _, model = serve([error(404, "no such page")], **options)
    with pytest.raises(UserError, match=says):
        model.check()
