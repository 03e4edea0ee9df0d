"""The tokenizer of Relay's agents: names and number words are one token, everything else is bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...tasks.relay.families import DOMAINS, NUMBER_WORDS, PRIMARY, SECOND

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PAD, END = "<|pad|>", "<|end|>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
#: What templates and cards are written with.
PROMPT_WORDS = ("reply", "own", "answer", "pass", "score", "select", "readout", "difficulty", "domain: ", "tasks: ",
                "size: ", "features: ", "high", "moderate", "low", "generalist")
CHAT_TEMPLATE = ("{% for message in messages %}{{ '<|' + message.role + '|>' + message.content + '<|end|>' }}"
                 "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}")


def words() -> list[str]:
    """Every word that is one token, in a fixed order."""
    names = [family.template.split("{")[0].strip("([<{ ") for family in (*PRIMARY, *SECOND)]
    return list(dict.fromkeys(word for word in (*names, "codon", *DOMAINS, *NUMBER_WORDS, *PROMPT_WORDS) if word))


def build_tokenizer(context_length: int = 1024) -> PreTrainedTokenizerFast:
    """The tokenizer: lossless for any text, digits single, turns ended by ``<|end|>``."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={symbol: number for number, symbol in enumerate(alphabet)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in (PAD, END, *ROLES)])
    core.add_tokens([AddedToken(word, normalized=False) for word in words()])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token=PAD, eos_token=END, additional_special_tokens=list(ROLES),
        model_max_length=context_length, padding_side="left", clean_up_tokenization_spaces=False)
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer
