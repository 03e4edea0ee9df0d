"""Cards from READMEs."""

from __future__ import annotations

import json
import logging
import struct

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from goa_torch.agents.cards import card_from_file, card_from_readme, card_to_yaml, count_parameters, split_readme
from goa_torch.errors import UserError
from goa_torch.types import Card

LEGAL = """---
library_name: transformers
license: mit
tags: [legal]
language: [en]
pipeline_tag: text-generation
base_model: some/Mistral-7B
datasets:
- court/rulings
- court/contracts
---
# Justinian-7B-Instruct

![logo](https://example.org/logo.png)

**Justinian-7B-Instruct** is a language model for legal text. It follows instructions about contracts and case law.

- Number of Parameters: 7.24B
- Context Length: 32,768 tokens

It was instruction-tuned for legal reasoning and question answering, and for summarization of rulings.

```python
import torch  # code code code code code code code code
```

## Limitations

Financial, medical, medical, medical, medical, medical, medical, medical advice is out of scope.
"""


def test_a_card_is_read_from_front_matter_and_text():
    card = card_from_readme(LEGAL)
    assert card.domain == "law"
    assert card.size == "7.2B"
    assert {"question answering", "reasoning", "summarisation", "instruction following"} == set(card.tasks)
    assert card.features.startswith("Justinian-7B-Instruct is a language model for legal text; ")
    for part in ("derived from some/Mistral-7B", "context of 32,768 tokens", "trained on court/rulings", "licence mit"):
        assert part in card.features


@pytest.mark.parametrize(("name", "domain", "size"), [
    ("Qwen/Qwen2.5-7B-Instruct", "general", "7B"), ("Qwen/Qwen2.5-Coder-7B-Instruct", "code", "7B"),
    ("mistralai/Mathstral-7B-v0.1", "math", "7B"), ("ContactDoctor/Bio-Medical-Llama-3-8B", "biomedical", "8B"),
    ("instruction-pretrain/finance-Llama3-8B", "finance", "8B"), ("Equall/Saul-7B-Instruct-v1", "law", "7B"),
    ("mistralai/Mixtral-8x7B-v0.1", "general", "8x7B"), ("HuggingFaceTB/SmolLM2-135M-Instruct", "general", "135M"),
    ("org/Qwen2.5-0.5b-it", "general", "0.5B"), ("org/lawnmower", "general", ""), ("org/encode-3b", "general", "3B"),
])
def test_names_tell_domain_and_size(name, domain, size):
    card = card_from_readme("", name)
    assert (card.domain, card.size) == (domain, size)


def test_a_word_in_passing_makes_no_expert():
    text = "# Allrounder\n\nBetter at coding and mathematics than the last version, and at finance, law and medicine.\n"
    assert card_from_readme(text).domain == "general"


def test_two_domains_with_equal_points_are_no_domain():
    assert card_from_readme("---\ntags: [legal, law, finance, financial]\n---\n").domain == "general"


@pytest.mark.parametrize(("text", "size"), [
    ("a 1.5 billion parameter model", "1.5B"), ("It has 360M parameters.", "360M"), ("**Parameters**: 70B", "70B"),
    ("trained on 30 billion tokens", ""), ("| Parameters | 8B |", ""),
])
def test_the_text_tells_the_size(text, size):
    assert card_from_readme(text).size == size


def test_the_weights_know_the_size_best(tmp_path):
    header = json.dumps({"__metadata__": {"format": "pt"}, "a": {"dtype": "BF16", "shape": [1000, 2500],
                                                                  "data_offsets": [0, 0]},
                         "b": {"dtype": "F32", "shape": [], "data_offsets": [0, 0]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    (tmp_path / "README.md").write_text("# Model 7B\n", encoding="utf-8")
    assert count_parameters(tmp_path) == 2_500_001
    assert card_from_file(tmp_path).size == "2.5M"
    (tmp_path / "broken.safetensors").write_bytes(b"\x05")
    with pytest.raises(UserError, match="not a safetensors file"):
        card_from_file(tmp_path)


@pytest.mark.parametrize(("text", "front"), [
    ("---\na: 1\n---\nbody", {"a": 1}), ("\ufeff---\r\na: 1\r\n---\r\nbody", {"a": 1}), ("body", {}),
    ("---\n- a\n---\nbody", {}), ("a\n---\nb: 1\n---\n", {}),
])
def test_front_matter_is_what_stands_between_the_first_two_rules(text, front):
    assert split_readme(text)[0] == front


def test_broken_front_matter_and_missing_files_are_one_line(tmp_path):
    with pytest.raises(UserError, match="front matter is not YAML"):
        card_from_readme("---\na: [\n---\n")
    with pytest.raises(UserError, match="no such file"):
        card_from_file(tmp_path)
    (tmp_path / "README.md").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="UTF-8"):
        card_from_file(tmp_path / "README.md")


def test_a_card_survives_the_way_through_yaml():
    card = card_from_readme(LEGAL)
    facts = yaml.safe_load(card_to_yaml(card))
    assert Card(facts["domain"], tuple(facts["tasks"]), facts["size"], facts["features"]) == card


@given(st.text(max_size=400), st.text(max_size=40))
def test_any_text_gives_a_card(text, name):
    try:
        card = card_from_readme(text, name)
    except UserError as error:
        assert "front matter" in str(error)
    else:
        assert card.domain and "\n" not in card.features


@pytest.mark.parametrize("text", ["", " \n", "---\n---\n", "# \n", "```\ncode\n```\n"])
def test_a_readme_with_nothing_in_it_is_said_to_hold_nothing(tmp_path, caplog, text):
    path = tmp_path / "README.md"
    path.write_text(text, encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        assert card_from_file(path) == Card("general")
    (record,) = caplog.records
    assert str(path) in record.getMessage() and "nothing about the model" in record.getMessage()


def test_a_readme_with_something_in_it_is_not_warned_of(caplog):
    with caplog.at_level(logging.WARNING):
        card_from_readme(LEGAL)
        card_from_readme("# Model 7B\n")
    assert not caplog.records
