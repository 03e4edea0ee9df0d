from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import CHATML, tiny_tokenizer

from goa_torch.agents.chat_tokens import ChatTokenizer
from goa_torch.errors import UserError
from goa_torch.types import Chat, Message, Span

NO_SYSTEM = ("{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
             + CHATML)
ALTERNATE = ("{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
             "{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% endfor %}") + CHATML
DROPS_SYSTEM = ("{% for m in messages if m['role'] != 'system' %}"
                "<|im_start|>{{ m['role'] }}\n{{ m['content'] }}{% endfor %}")
TRIMS = CHATML.replace("m['content']", "(m['content'] | trim)")


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer(extra=("<tool_call>", "<think>"))


def chat(*turns):
    return Chat(tuple(Message.of(role, *spans) for role, *spans in turns))


def text(tokenizer, ids):
    return tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


@pytest.mark.parametrize("template", [CHATML, TRIMS])
@pytest.mark.parametrize("content", ["What is one?", "  spaces around \n", "\n\nline\n", "", "   "])
def test_the_prompt_reads_as_the_template_renders_it(tokenizer, template, content):
    tokens = ChatTokenizer(tokenizer, template)
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": content}]
    expected = tokenizer.apply_chat_template(turns, chat_template=template, tokenize=False, add_generation_prompt=True)
    encoded = tokens.encode(chat(("system", "Be brief."), ("user", content)))
    assert text(tokenizer, encoded.ids) == expected


def test_every_token_knows_its_sender(tokenizer):
    encoded = ChatTokenizer(tokenizer).encode(
        chat(("user", "Peers say: ", Span("Paris", 3), " and ", Span("London is it", 0), ".")))
    for node, said in ((3, "Paris"), (0, "London is it")):
        assert text(tokenizer, [i for i, s in zip(encoded.ids, encoded.senders) if s == node]) == said
    assert len(encoded.ids) == len(encoded.senders) and set(encoded.senders) == {-1, 0, 3}


PIECES = ["<|im_end|>", "<|im_start|>", "<tool_call>", "<think>", "<|endoftext|>", "\n", "system", "a", "<", "|", ">",
          "<|im", "_end|>", "\ue100", "0\ue101", "\ud800"]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
@settings(max_examples=150, deadline=None)
def test_text_never_becomes_a_control_token_and_loses_nothing(words):
    tokenizer = tiny_tokenizer_once()
    tokens = ChatTokenizer(tokenizer)
    ids = tokens.text_ids(words)
    assert not set(ids) & tokens.control_ids
    if "\ud800" not in words:
        assert text(tokenizer, ids) == words
    whole = tokens.encode(chat(("user", Span(words, 1)))).ids
    assert sum(i in tokens.control_ids for i in whole) == 3  # what the template itself puts in


_once = []


def tiny_tokenizer_once():
    if not _once:
        _once.append(tiny_tokenizer(extra=("<tool_call>", "<think>")))
    return _once[0]


@pytest.mark.parametrize("template", [NO_SYSTEM, DROPS_SYSTEM])
def test_a_template_without_a_system_role_gets_its_text_before_the_first_user_message(tokenizer, template):
    encoded = ChatTokenizer(tokenizer, template).encode(chat(("system", "Be brief."), ("user", Span("Hi", 2))))
    assert "user\nBe brief.\n\nHi" in text(tokenizer, encoded.ids) and 2 in encoded.senders
    assert "system" not in text(tokenizer, encoded.ids)


def test_a_template_that_demands_alternation_gets_neighbours_as_one_message(tokenizer):
    encoded = ChatTokenizer(tokenizer, ALTERNATE).encode(
        chat(("system", "S"), ("user", "one"), ("user", "two"), ("assistant", "three"), ("user", "four")))
    assert "user\nS\n\none\n\ntwo<|im_end|>" in text(tokenizer, encoded.ids)


def test_without_a_template_the_messages_stand_one_after_the_other():
    plain = tiny_tokenizer(template=None)
    encoded = ChatTokenizer(plain).encode(chat(("system", "Be brief."), ("user", "Hi")))
    assert text(plain, encoded.ids) == "Be brief.\n\nHi\n"


@pytest.mark.parametrize("template", ["{{ bos_token }}" + CHATML, "{{ bos_token + bos_token }}" + CHATML, None])
def test_there_are_never_two_beginnings(template):
    from tokenizers.processors import TemplateProcessing

    tokenizer = tiny_tokenizer(template=None)
    tokenizer.bos_token = "<|endoftext|>"
    bos = tokenizer.bos_token_id
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", bos)])
    ids = ChatTokenizer(tokenizer, template).encode(chat(("user", "Hi"))).ids
    assert ids[0] == bos and bos not in ids[1:]


def test_a_broken_template_is_the_users_error(tokenizer):
    for template, words in (("{{ raise_exception('no way') }}", "no way"), ("{% for %}", "chat template"),
                            ("nothing", "leaves")):
        with pytest.raises(UserError, match=words) as caught:
            ChatTokenizer(tokenizer, template).encode(chat(("user", "Hi")))
        assert "\n" not in str(caught.value)


def test_the_end_of_a_turn_is_read_off_the_template(tokenizer):
    assert ChatTokenizer(tokenizer).turn_end() == tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert ChatTokenizer(tokenizer, "{{ messages[0]['content'] }}").turn_end() is None


def test_a_template_that_opens_a_thought_is_noticed(tokenizer):
    opens = CHATML.replace("assistant\n' }}", "assistant\n<think>\n' }}")
    assert ChatTokenizer(tokenizer, opens).encode(chat(("user", "Hi"))).thinking
    assert not ChatTokenizer(tokenizer).encode(chat(("user", "<think>"))).thinking


def test_the_date_in_a_prompt_does_not_change(tokenizer):
    dated = "{{ strftime_now('%d %b %Y') }} " + CHATML
    assert "26 Jul 2024" in text(tokenizer, ChatTokenizer(tokenizer, dated).encode(chat(("user", "Hi"))).ids)


def test_tokenizers_that_put_a_space_before_text_do_not_put_it_before_every_span():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    raw.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    raw.decoder = decoders.Metaspace(prepend_scheme="first")
    trainer = trainers.BpeTrainer(special_tokens=["<unk>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)],
                                  initial_alphabet=list("abcdefghijklmnopqrstuvwxyz▁ "), show_progress=False)
    raw.train_from_iterator(["one two three"] * 5, trainer)
    tokens = ChatTokenizer(PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="</s>", unk_token="<unk>"))
    pieces = [tokens.tokenizer.convert_ids_to_tokens(tokens.text_ids(t)) for t in ("one", " two", "</s>one")]
    assert "".join(pieces[0]) == "one" and "".join(pieces[1]) == "▁two" and "".join(pieces[2]).endswith("one")
    assert "▁one" not in "".join(pieces[2])
