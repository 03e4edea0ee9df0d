"""What readers have in common, and the reader of plain text."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from goa_torch.tasks import ChoiceReader, MathReader, NumberReader, TextReader
from goa_torch.tasks.text import own_words, spoken
from goa_torch.types import Reply

READERS = [ChoiceReader(4), NumberReader(), MathReader(), TextReader()]


@pytest.mark.parametrize("reader", READERS, ids=lambda r: type(r).__name__)
def test_every_reader_asks_in_one_sentence_and_travels(reader):
    assert reader.instruction.startswith("End with") and len(reader.instruction) < 80
    assert pickle.loads(pickle.dumps(reader)) == reader and hash(reader) == hash(pickle.loads(pickle.dumps(reader)))


@pytest.mark.parametrize("reader", READERS, ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("said", ["B", "4", "The answer is 4", "Answer: B", "\\boxed{4}"])
def test_no_reader_reads_thoughts(reader, said):
    assert reader.read(f"<think>{said}") is None
    assert reader.read(f"<think>{said}</think>") is None
    assert reader.read(f"</think>{said}") == reader.read(said)


def test_what_is_said_follows_the_thoughts():
    assert spoken("a</think>b</thinking>c") == "c" and spoken("<think>a</think>b<think>c") == "b"
    assert own_words("4\n\nQuestion: 5?\nAnswer: 6") == "4"
    assert own_words("Question: 5?\nAnswer: 6") == "Question: 5?\nAnswer: 6", (
        "a question repeated first is not the next one"
    )


def test_an_unfinished_reply_has_no_answer():
    assert Reply("The answer is (B)", "length").with_answer(ChoiceReader(4)).answer is None
    assert Reply("The answer is (B)").with_answer(ChoiceReader(4)).answer == "B"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Paris", "paris"),
        ("The answer is Paris.", "paris"),
        ("**Answer:** Paris", "paris"),
        ("one line\nand another", None),
        ("Answer: **Paris, France**", "paris, france"),
        ("Answer is\nParis", "paris"),
        ("", None),
        ("Answer: A\nAnswer: B", "b"),
        ("I do not think the answer is Rome.\nAnswer: Paris", "paris"),
    ],
)
def test_plain_text_is_read_after_its_marker_or_alone(text, answer):
    assert TextReader().read(text) == answer


def test_plain_text_is_equal_but_for_case_spaces_and_outer_punctuation():
    assert TextReader().equal("L'\u00e9t\u00e9", "l'e\u0301te\u0301") and TextReader().equal("New  York.", "new york")
    assert not TextReader().equal("New York", "York")


def test_tasks_load_without_torch_or_algebra():
    code = """
import sys
import goa_torch.nn.reading, goa_torch.tasks as tasks
tasks.read_choice("B", 4), tasks.read_number("4"), tasks.math_equal("2", "1+1"), tasks.describe("mmlu")
sys.exit(bool({"torch", "sympy", "transformers", "datasets"} & set(sys.modules)))
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
