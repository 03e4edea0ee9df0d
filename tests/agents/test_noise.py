"""A bad line disturbs what is heard of others, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goa_torch.agents.echo import EchoModel
from goa_torch.agents.noise import NoisyModel, other_digit
from goa_torch.agents.pools import load_pool
from goa_torch.errors import UserError
from goa_torch.methods import build_method
from goa_torch.paths import models_folder
from goa_torch.types import Chat, Message, Sampling, Span
from tests.worlds import echo_pool, questions


def asked(noise, streams=range(400), text="rev[58]", own="rev[58]"):
    heard = []
    model = NoisyModel(noise, model=EchoModel(lambda chat: heard.append(chat) or "1"))
    spans = ("rev[(47+11)]\n", Span(text, sender=1), "\n", Span(own, sender=0, own=True))
    chats = [Chat((Message.of("user", *spans),), s) for s in streams]
    model.generate(chats, Sampling())
    return heard


@given(st.text(), st.floats(0, 1, exclude_max=True), st.floats(0, 1, exclude_max=True))
def test_one_digit_becomes_another(text, where, which):
    changed = other_digit(text, where, which)
    different = [(a, b) for a, b in zip(text, changed) if a != b]
    assert len(changed) == len(text)
    assert len(different) == any(c in "0123456789" for c in text)
    assert all(a in "0123456789" and b in "0123456789" for a, b in different)


def test_messages_are_disturbed_as_often_as_was_asked_and_nothing_else_is():
    heard = asked(0.3)
    spans = [chat.messages[0].spans for chat in heard]
    assert all(s[0].text == "rev[(47+11)]\n" and s[3].text == "rev[58]" for s in spans)
    disturbed = [s[1].text for s in spans if s[1].text != "rev[58]"]
    assert 90 <= len(disturbed) <= 150 and len(set(disturbed)) > 10
    assert [c.text for c in heard] == [c.text for c in asked(0.3)]
    assert all(c.messages[0].spans[1].text == "rev[58]" for c in asked(0.0))
    assert all(c.messages[0].spans[1].text != "rev[58]" for c in asked(1))
    assert all(c.messages[0].spans[1].text == "no digit" for c in asked(1, text="no digit"))


def test_noise_is_part_of_what_a_model_is():
    model = EchoModel(lambda chat: "1", name="e")
    assert len({NoisyModel(n, model=model).fingerprint for n in (0, 0.1, 1)} | {model.fingerprint}) == 4


@pytest.mark.parametrize("noise", [-0.1, 1.1, True, "0.1"])
def test_a_noise_that_is_no_probability_is_refused(noise):
    with pytest.raises(UserError, match="from 0 to 1"):
        NoisyModel(noise, model=EchoModel(lambda chat: "1"))


def test_in_a_debate_an_agent_hears_its_own_reply_as_it_was_and_others_disturbed():
    heard = []
    pool = echo_pool()
    model = NoisyModel(1, model=EchoModel(lambda chat: heard.append(chat) or "7 and 7"))
    pool.agents[:] = [replace(agent, model=model) for agent in pool.agents]
    build_method("goa", pool, k=3)(questions(1))
    spans = [span for chat in heard for message in chat.messages for span in message.spans if span.sender is not None]
    assert {span.text for span in spans if span.own} == {"7 and 7"}
    assert {span.text for span in spans if not span.own} and "7 and 7" not in {s.text for s in spans if not s.own}


def test_a_pool_file_can_ask_for_it(tmp_path):
    source = models_folder() / "relay" / "seed0" / "math"
    (tmp_path / "noisy.yaml").write_text(f"""
prompts: relay
models:
  math: {{backend: noisy, noise: 0.25, source: {source}}}
agents:
  - {{name: math, model: math, card: {{domain: math}}}}
""")
    model = load_pool(tmp_path / "noisy.yaml").agents[0].model
    assert isinstance(model, NoisyModel) and model.noise == 0.25 and model.model.capabilities >= {"embed"}
