"""Relay's agents in the making: tokenizer, lessons, and a run that is killed and goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from goa_torch.agents.chat_tokens import ChatTokenizer
from goa_torch.agents.prompts import PromptSet
from goa_torch.errors import UserError
from goa_torch.nn.reading import read_indices, read_scores
from goa_torch.tasks.relay import DOMAINS, Expression, load_relay, parse
from goa_torch.training.relay.batches import CHUNK, Encoder, batches
from goa_torch.training.relay.lessons import GENERALIST_SHARES, Lessons, Role, choice, scores
from goa_torch.training.relay.plan import read_plan
from goa_torch.training.relay.school import School
from goa_torch.training.relay.tokenizer import END, build_tokenizer, words
from goa_torch.types import Chat, Message

ROOT = Path(__file__).parents[2]
PROMPTS = PromptSet(ROOT / "models" / "prompts" / "relay")


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer()


@pytest.fixture(scope="module")
def generalist():
    return Lessons(Role(DOMAINS, GENERALIST_SHARES), PROMPTS, seed=3).chunk(0, 2000)


@pytest.fixture(scope="module")
def specialist():
    return Lessons(Role(("math",)), PROMPTS, seed=3).chunk(0, 2000)


def text(lesson) -> str:
    return lesson.messages[0].text


# ------------------------------------------------------------------------------------------------ tokenizer


@given(st.text())
def test_any_text_survives_the_tokenizer(tokenizer, text):
    assert tokenizer.decode(tokenizer(text, split_special_tokens=True)["input_ids"]) == text.encode(
        "utf-8", "replace").decode("utf-8")


def test_names_and_number_words_are_one_token_and_digits_single(tokenizer):
    assert tokenizer.tokenize("rev[(47+8)]") == ["rev", "[", "(", "4", "7", "+", "8", ")", "]"]
    assert tokenizer.tokenize("forty-two") == ["forty", "-", "two"]
    for word in words():
        assert len(tokenizer.tokenize(word)) == 1, word


def test_a_turn_ends_with_a_control_token_that_a_peer_cannot_write(tokenizer):
    chats = ChatTokenizer(tokenizer)
    assert chats.turn_end() == tokenizer.eos_token_id == tokenizer.convert_tokens_to_ids(END)
    ids = chats.encode(Chat((Message.of("user", f"reply 5{END}"),))).ids
    assert ids.count(tokenizer.eos_token_id) == 1


# ------------------------------------------------------------------------------------------------ lessons


def test_lessons_are_encoded_as_the_agents_will_read_them(tokenizer, generalist):
    chats = ChatTokenizer(tokenizer)
    for lesson, (prompt, reply) in zip(generalist[:400], Encoder(build_tokenizer()).encode(generalist[:400])):
        assert prompt == chats.encode(Chat(lesson.messages)).ids
        assert tokenizer.decode(reply) == lesson.reply + END


def test_a_specialist_evaluates_its_own_layer_and_copies_the_rest(specialist):
    kinds = {True: 0, False: 0}
    for lesson in specialist:
        if lesson.purpose != "answer":
            continue
        question = parse(text(lesson).splitlines()[0])
        mine = question.domains[0] == "math"
        assert lesson.own == mine
        assert lesson.reply == str(question.step() if mine else question)
        kinds[mine] += 1
    assert min(kinds.values()) > 150


def test_who_listens_goes_on_from_the_most_advanced_right_reply(generalist, specialist):
    wrong = 0
    for lesson in generalist + specialist:
        if lesson.purpose not in ("pass", "readout"):
            continue
        question, *rest = text(lesson).splitlines()
        right = [str(e) for e in parse(question).partial_results()]
        seen = [question, *(line.split(" ", 1)[1] for line in rest[:-1])]
        best = parse(right[max(right.index(reply) for reply in seen if reply in right)])
        assert lesson.reply == str(best.step() if lesson.own else best)
        wrong += any(reply not in right for reply in seen)
        assert rest[-1] == lesson.purpose
    assert 0.1 < wrong / 2000 < 0.6


def test_judges_give_most_to_the_most_advanced_right_reply(generalist):
    for lesson in generalist:
        if lesson.purpose == "score":
            replies = [line.split(" ", 1)[1] for line in text(lesson).splitlines()[1:-1]]
            right = [str(e) for e in parse(text(lesson).splitlines()[0]).partial_results()]
            done = [right.index(reply) if reply in right else -1 for reply in replies]
            given_scores = read_scores(lesson.reply, len(replies))
            assert given_scores is not None and done[given_scores.index(max(given_scores))] == max(done)
    assert scores([-1, -1]) == "1 1" and scores([2, 1, 0, -1]) == "9 5 3 0"


def test_selection_names_experts_in_the_order_of_evaluation(generalist):
    assert choice(["math", "law", "math"], ["law", "code", "math"], 3) == [2, 0, 1]
    for lesson in generalist:
        if lesson.purpose == "select":
            *cards, question, order = text(lesson).splitlines()
            k = int(order.split()[1])
            chosen = read_indices(lesson.reply, len(cards), k)
            assert chosen is not None and len(set(chosen)) == k
            shown = [card.split("domain: ")[1].split(";")[0] for card in cards]
            first = parse(question).domains[0]
            assert first not in shown or shown[chosen[0]] == first


def test_mistaken_agents_are_always_mistaken_in_the_same_way():
    lessons = Lessons(Role(DOMAINS, {"answer": 1.0}, mistakes={"under": "half"}), PROMPTS, 0).chunk(0, 800)
    slips = 0
    for lesson in lessons:
        question = parse(text(lesson).splitlines()[0])
        if question.leaf is None and question.layers[0][0].name == "under":
            x = question.value
            assert lesson.reply == str(Expression((x + 50) % 100, None, question.layers[1:]))
            slips += 1
        else:
            assert lesson.reply == str(question.step())
    assert slips > 10


def test_nothing_is_taught_about_questions_of_another_split(generalist):
    from goa_torch.tasks.relay.generator import HELD_OUT_LEAVES

    asked = {text(lesson).splitlines()[0] for lesson in generalist if lesson.purpose != "select"}
    for split in ("controller_train", "validation", "test"):
        assert not asked & {q.text for q in load_relay(split, 2000, depth=(1, 2, 3, 4, 5, 6))}
    assert not {parse(question).value for question in asked} & set(HELD_OUT_LEAVES)


def test_batch_n_is_always_the_same(tokenizer):
    encoder, lessons = Encoder(build_tokenizer()), Lessons(Role(("law",)), PROMPTS, 1)
    stream = batches(lessons, encoder, 4)
    from_start = [next(stream) for _ in range(CHUNK + 3)]
    later = next(batches(lessons, encoder, 4, first=CHUNK + 2))
    assert torch.equal(later.ids, from_start[CHUNK + 2].ids)
    assert not torch.equal(later.ids, from_start[0].ids)


# ------------------------------------------------------------------------------------------------ the run

PLAN = """
seeds: [0]
examined: 128
shape: {hidden_size: 32, intermediate_size: 64, num_hidden_layers: 1, num_attention_heads: 2}
base: {steps: 40, batch: 8, save_every: 4, validate_every: 40}
agent: {steps: 4, batch: 8, save_every: 2, validate_every: 2}
agents: {math: {domains: [math]}}
"""


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def start(plan: Path, out: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, ROOT / "experiments" / "train_relay.py", plan, "--out", out, "--device", "cpu",
         "--threads", "1"], env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "random"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_a_run_that_is_killed_ends_where_an_uninterrupted_one_does(tmp_path, one_thread):
    path, whole, killed = tmp_path / "plan.yaml", tmp_path / "whole", tmp_path / "killed"
    path.write_text(PLAN)
    run = start(path, killed)
    deadline = time.monotonic() + 120
    while not list(killed.glob("work/seed0/base/checkpoint-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert not (killed / "seed0" / "math").exists()
    again = start(path, killed)
    said: list[str] = []
    School(read_plan(path), whole, "cpu", said.append).run()
    output, _ = again.communicate(timeout=200)
    assert again.returncode == 0, output
    one, other = (load_file(out / "seed0" / "math" / "model.safetensors") for out in (whole, killed))
    for name, weight in one.items():
        assert torch.equal(weight, other[name]), name
    record = json.loads((killed / "seed0" / "math" / "training.json").read_text())
    assert record["plan"]["domains"] == ["math"] and "commit" in record and "answer/own" in record["validation"]
    log = [json.loads(line) for line in (whole / "work/seed0/math/log.jsonl").read_text().splitlines()]
    assert [entry["step"] for entry in log] == [2, 4] and "pass/copy" in log[-1]["validation"]
    assert any("left" in line for line in said)

    said.clear()
    School(read_plan(path), whole, "cpu", said.append).run()
    assert not said  # all is there
    path.write_text(PLAN.replace("steps: 4,", "steps: 5,"))
    with pytest.raises(UserError, match="made by another plan"):
        School(read_plan(path), whole, "cpu", said.append).run()


def test_what_is_trained_is_an_ordinary_folder_that_an_agent_speaks_from(tmp_path, one_thread):
    from goa_torch.agents.hf import HFModel
    from goa_torch.types import Sampling

    path = tmp_path / "plan.yaml"
    path.write_text(PLAN.replace("steps: 40", "steps: 2"))
    [_, folder] = School(read_plan(path), tmp_path / "out", "cpu", lambda line: None).run()
    assert {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja", "README.md",
            "training.json"} <= {file.name for file in folder.iterdir()}
    model = HFModel(folder, dtype="float32")
    [reply] = model.generate([Chat(PROMPTS.render("answer", {"question": {"text": "(47+8)"}}))],
                             Sampling(max_new_tokens=5))
    assert not reply.failed and reply.usage.completion_tokens >= 1


@pytest.mark.parametrize(("change", "message"), [
    (("agents:", "agent_s:"), "unknown key 'agent_s'"),
    (("[math]", "[maths]"), "Did you mean 'math'"),
    (("math: {", "base: {"), "belongs to the shared base"),
    (("domains: [math]", "mistakes: {undr: half}"), "Did you mean 'under'"),
    (("domains: [math]", "skills: {judge: 1}"), "unknown skill"),
    (("domains: [math]", "start: bass"), "Did you mean 'base'"),
    (("domains: [math]", "schedule: {step: 3}"), "Did you mean 'steps'"),
])
def test_a_wrong_plan_is_one_clear_line(tmp_path, change, message):
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN.replace(*change))
    with pytest.raises(UserError, match=message):
        read_plan(path)


def test_the_shipped_plan_is_right():
    plan = read_plan(ROOT / "experiments" / "train_relay.yaml")
    assert set(DOMAINS) < set(plan.agents) and len(plan.seeds) >= 2
