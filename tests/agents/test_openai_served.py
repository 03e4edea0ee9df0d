"""OpenAIModel against a real server: `transformers serve` with a tiny random model."""

from __future__ import annotations

import pytest

from goa_torch.agents.calls import Exchange
from goa_torch.agents.openai import OpenAIModel
from goa_torch.errors import UserError
from goa_torch.types import Chat, Message, Sampling


def chat(text: str, stream: int = 1) -> Chat:
    return Chat((Message.of("system", "Be brief."), Message.of("user", text)), stream)


@pytest.fixture(scope="module")
def model(transformers_server):
    # One request at a time: the seed is a global of that server, so requests side by side would share it.
    served = OpenAIModel(transformers_server.model, transformers_server.url, name="tiny", concurrency=1, timeout=60)
    yield served
    served.close()


def test_a_running_server_passes_the_check_and_a_wrong_name_does_not(model, transformers_server):
    model.check()
    with pytest.raises(UserError, match="unknown model"):
        OpenAIModel("no/such-model", transformers_server.url).check()


def test_a_served_reply_is_the_reply_of_the_same_model_in_process(model, transformers_server):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    (reply,) = model.generate([chat("What is 2 + 2?")], Sampling(temperature=0, max_new_tokens=12))
    tokenizer = AutoTokenizer.from_pretrained(transformers_server.folder)
    local = AutoModelForCausalLM.from_pretrained(transformers_server.folder, dtype=torch.float32)
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 2 + 2?"}]
    prompt = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    tokens = local.generate(**prompt, do_sample=False, max_new_tokens=12)[0, prompt["input_ids"].size(1):]
    assert reply.text == tokenizer.decode(tokens, skip_special_tokens=True).strip()
    assert reply.usage.prompt_tokens == prompt["input_ids"].size(1)
    assert reply.usage.completion_tokens == len(tokens)
    assert reply.finish_reason == ("length" if len(tokens) == 12 else "stop")
    assert reply.usage.seconds > 0 and reply.usage.retries == 0


def test_the_same_stream_gives_the_same_text_and_another_stream_another(model):
    sampling = Sampling(temperature=1.0, max_new_tokens=16)
    first, second, other = model.generate([chat("hello", 11), chat("hello", 11), chat("hello", 12)], sampling)
    assert first.text == second.text != other.text


def test_replies_come_in_order(model):
    sampling = Sampling(temperature=0, max_new_tokens=6)
    texts = [f"question number {number}" for number in range(6)]
    together = model.generate([chat(text) for text in texts], sampling)
    alone = [model.generate([chat(text)], sampling)[0] for text in texts]
    assert [reply.text for reply in together] == [reply.text for reply in alone]


def test_a_stop_string_is_not_part_of_the_reply(model):
    (whole,) = model.generate([chat("hello")], Sampling(temperature=0, max_new_tokens=24))
    stop = next(letter for letter in whole.text[1:] if letter.isascii() and letter.isprintable() and letter != " ")
    (cut,) = model.generate([chat("hello")], Sampling(temperature=0, max_new_tokens=24, stop=(stop,)))
    assert cut.text == whole.text.split(stop)[0].strip()
    assert cut.finish_reason == "stop"
    assert cut.usage.completion_tokens < whole.usage.completion_tokens


def test_a_field_the_server_does_not_know_is_a_failure_of_the_call(transformers_server):
    model = OpenAIModel(transformers_server.model, transformers_server.url, extra_body={"mirostat": 2})
    (reply,) = model.generate([chat("hello")], Sampling(max_new_tokens=4))
    assert reply.failed and "422" in reply.error and "mirostat" in reply.error
    model.close()


def test_a_prompt_beyond_the_given_context_is_a_failure(transformers_server):
    model = OpenAIModel(transformers_server.model, transformers_server.url, context_length=512)
    long, short = model.generate([chat("x" * 600), chat("x")], Sampling(temperature=0, max_new_tokens=4))
    assert long.failed and "do not fit" in long.error
    assert not short.failed
    model.close()


def test_claiming_log_likelihoods_of_a_server_without_them_fails_the_check(transformers_server):
    model = OpenAIModel(transformers_server.model, transformers_server.url, log_likelihood=True)
    with pytest.raises(UserError, match="log_likelihood"):
        model.check()
    model.close()


def test_equal_requests_of_a_batch_are_asked_once(model):
    sampling = Sampling(temperature=0, max_new_tokens=4)
    served = Exchange().serve([(model, chat("same"), sampling)] * 3)
    assert [shared for _, shared in served] == [False, True, True]
    assert len({reply.text for reply, _ in served}) == 1
