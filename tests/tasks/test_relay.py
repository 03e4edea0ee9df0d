"""Relay questions: what the generator promises, measured."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from goa_torch.errors import UserError
from goa_torch.tasks import describe, load_questions, task_names
from goa_torch.tasks.relay import DOMAINS, VARIANTS, RelayReader, RelaySpec, load_relay, parse
from goa_torch.tasks.relay.expression import Expression
from goa_torch.tasks.relay.families import HIDDEN, LEAVES, PRIMARY, SECOND, family_set
from goa_torch.tasks.relay.generator import HELD_OUT_LEAVES, SPLITS, held_out_orders

DEPTHS = (1, 2, 3, 4, 5, 6)


@pytest.fixture(scope="module", params=["primary", "second", "hidden"])
def many(request):
    """2000 questions of each depth 2..6 and as many of depth 1."""
    return load_relay("agent_train", limit=12000, depth=DEPTHS, families=request.param)


def with_leaf(expression: Expression, value: int) -> Expression:
    return Expression(value, expression.leaf, expression.layers)


def test_every_function_is_a_bijection_of_0_to_99():
    for name in ("primary", "second", "hidden"):
        families = family_set(name)
        _, counts = families.parameters
        for number, family in enumerate(families.families):
            for place in range(counts[number]):
                assert sorted(families.table[number, place]) == list(range(100)), family.name


@pytest.mark.parametrize(("text", "value"), [
    ("(47+8)", 55), ("(47+80)", 27), ("(8-47)", 61), ("(47-8)", 39), ("rev[47]", 74), ("rev[7]", 70), ("inc[49]", 50),
    ("neg[47]", 52), ("cents(7*47)", 29), ("change(47)", 53), ("change(0)", 0), ("half(47)", 97), ("half(50)", 0),
    ("odd(47)", 46), ("odd(46)", 47), ("under(63,47)", 15), ("under(20,47)", 47), ("pair<47>", 92), ("flip<47>", 56),
    ("next 99", 0), ("dozen 47", 59), ("forty-seven", 47), ("thirteen", 13), ("codon<ACG>", 6), ("codon<TTT>", 63),
    ("(47*3)", 41), ("(5+5-47)", 63), ("dec[40]", 39), ("low[47]", 40), ("high[87]", 17), ("tax(17*3)", 51),
    ("bond(80)", 5), ("even(98)", 0), ("even(97)", 97), ("above(60,70)", 89), ("turn<47>", 21), ("strand<47>", 29),
    ("before 0", 99), ("gross 60", 4),
])
def test_one_layer_by_hand(text, value):
    assert str(parse(text).step()) == str(value)
    assert str(parse(text)) == text


def test_a_question_by_hand():
    steps = [str(e) for e in parse("rev[cents(7*(47+8))]").partial_results()]
    assert steps == ["rev[cents(7*(47+8))]", "rev[cents(7*55)]", "rev[85]", "58"]
    assert parse("rev[cents(7*(47+8))]").domains == ("math", "finance", "code")


@pytest.mark.parametrize("text", ["", "rev[", "rev[]", "47+8", "(47+8", "(47+8))", "147", "-3", "under(5,47)",
                                  "cents(8*5)", "fourty", "rev[47] rev[47]", "I think 47", "(((((" * 50, "codon<ACU>"])
def test_what_is_no_expression_is_none(text):
    assert parse(text) is None


def test_partial_results_agree_with_a_reader_that_never_saw_the_generator(many):
    for question in many[:3000]:
        expression = parse(question.text)
        facts = question.metadata
        assert [str(e) for e in expression.partial_results()] == facts["partial_results"]
        assert list(expression.domains) == facts["domains"] and expression.depth == facts["depth"]
        assert facts["partial_results"][-1] == question.gold
        assert all(a != b for a, b in zip(facts["domains"], facts["domains"][1:]))


def test_redrawing_the_innermost_leaf_changes_nearly_every_answer_at_every_depth(many):
    draw = np.random.default_rng(0)
    changed = defaultdict(list)
    for question in many[:6000]:
        expression = parse(question.text)
        size = expression.leaf.size if expression.leaf else 100
        other = (expression.value + int(draw.integers(1, size))) % size
        changed[expression.depth].append(str(with_leaf(expression, other).partial_results()[-1]) != question.gold)
    for depth in DEPTHS:
        assert np.mean(changed[depth]) >= 0.9, depth


def test_the_most_frequent_answer_and_the_outermost_layer_give_nothing_away(many):
    seen, held = many[:6000], many[6000:]
    for depth in DEPTHS:
        overall = Counter(q.gold for q in seen if q.metadata["depth"] == depth)
        by_layer = defaultdict(Counter)
        for q in seen:
            if q.metadata["depth"] == depth:
                by_layer[outermost(q)][q.gold] += 1
        rest = [q for q in held if q.metadata["depth"] == depth]
        frequent = overall.most_common(1)[0][0]
        assert np.mean([q.gold == frequent for q in rest]) <= 0.03
        guesses = [by_layer[outermost(q)].most_common(1)[0][0] if by_layer[outermost(q)] else frequent for q in rest]
        assert np.mean([q.gold == guess for q, guess in zip(rest, guesses)]) <= 0.03


def outermost(question) -> str:
    *_, last = question.metadata["partial_results"][:-1]
    return last.replace(str(parse(last).value), "#") if parse(last).leaf is None else parse(last).leaf.name


def test_answers_are_as_uncertain_at_every_depth(many):
    for depth in DEPTHS:
        counts = np.array(list(Counter(q.gold for q in many if q.metadata["depth"] == depth).values()))
        share = counts / counts.sum()
        assert -(share * np.log2(share)).sum() >= math.log2(100) - 0.15, depth


def test_domains_are_as_frequent_in_every_layer(many):
    for depth in DEPTHS:
        for layer in range(depth):
            rows = [q for q in many if q.metadata["depth"] == depth]
            # some domains have few different questions of depth 1, so a long list of those runs out of them
            counts = Counter(q.metadata["domains"][layer] for q in (rows[:300] if depth == 1 else rows))
            assert set(counts) == set(DOMAINS)
            assert max(counts.values()) <= 1.8 * min(counts.values())


def test_ten_thousand_questions_take_less_than_two_seconds():
    start = time.perf_counter()
    load_relay("agent_train", limit=10_000)
    assert time.perf_counter() - start < 2


# ------------------------------------------------------------------------------------------------ splits


def test_no_question_is_in_two_splits_whatever_the_seed():
    texts = {(split, seed): {q.text for q in load_relay(split, 1500, seed, depth=(1, 2, 3))}
             for split in SPLITS for seed in (0, 1)}
    for (split, a), (other, b) in [(x, y) for x in texts for y in texts if x[0] < y[0]]:
        assert not texts[split, a] & texts[other, b]
    assert texts["test", 0] != texts["test", 1]


def test_questions_and_ids_are_unique():
    questions = load_relay("test", 3000, depth=(1, 2))
    assert len({q.id for q in questions}) == len({q.text for q in questions}) == 3000


def test_two_readings_of_one_text_are_one_question():
    texts = [q.text for q in load_relay("agent_train", 3000, depth=1, domains=("math",))]
    assert len(set(texts)) == 3000


def test_a_smaller_limit_and_other_depths_leave_questions_where_they_were():
    long = load_relay(limit=60, depth=(1, 2, 3))
    assert [q.id for q in load_relay(limit=30, depth=(1, 2, 3))] == [q.id for q in long[:30]]
    assert [q.id for q in load_relay(limit=20, depth=2)] == [q.id for q in long[1::3]]


def test_the_same_seed_gives_the_same_questions_in_another_process():
    code = "from goa_torch.tasks.relay import load_relay; print([q.text for q in load_relay(limit=20, seed=5)])"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                           cwd=Path(__file__).parents[2], env={"PYTHONHASHSEED": "7", "PYTHONPATH": "."})
    assert other.stdout.strip() == str([q.text for q in load_relay(limit=20, seed=5)])


def test_train_is_the_controllers_split():
    assert [q.id for q in load_relay("train", 9)] == [q.id for q in load_relay("controller_train", 9)]


# ------------------------------------------------------------------------------------------------ held out


def leaf_value(question) -> int:
    return parse(question.text).value


def has_held_order(question) -> bool:
    d = [DOMAINS.index(name) for name in question.metadata["domains"]]
    return any(held_out_orders()[a, b, c] for a, b, c in zip(d, d[1:], d[2:]))


def test_held_out_leaves_and_orders_stay_out_of_every_other_question():
    for question in load_relay("agent_train", 3000, depth=(3, 4)):
        assert leaf_value(question) not in HELD_OUT_LEAVES and not has_held_order(question)
    assert all(leaf_value(q) in HELD_OUT_LEAVES for q in load_relay("test", 300, variant="leaves"))
    assert all(has_held_order(q) for q in load_relay("test", 300, variant="orders"))
    assert 0.05 < held_out_orders().mean() < 0.15


def test_deeper_questions_and_unseen_families():
    assert {q.metadata["depth"] for q in load_relay("test", 20, variant="deeper")} == {7, 8}
    new = {f.name for f in SECOND}
    for question in load_relay("test", 300, variant="families"):
        assert sum(name in new for name in question.metadata["families"]) == 1


def test_held_out_questions_are_never_trained_on():
    for variant in VARIANTS:
        with pytest.raises(UserError, match="held out"):
            load_relay("agent_train", variant=variant)


def test_the_second_generator_shares_no_function_with_the_first():
    assert not {f.name for f in PRIMARY} & {f.name for f in SECOND}
    names = {name for q in load_relay(limit=500, families="second") for name in q.metadata["families"]}
    assert names <= {f.name for f in SECOND} | {leaf.name for leaf in LEAVES}


def test_hidden_questions_are_the_primary_functions_and_show_no_domain():
    assert len({f.name for f in HIDDEN}) == len(PRIMARY) and not {f.name for f in HIDDEN} & {f.name for f in PRIMARY}
    for hidden, plain in zip(HIDDEN, PRIMARY):
        assert (hidden.domain, hidden.rule, hidden.parameters) == (plain.domain, plain.rule, plain.parameters)
    questions = load_relay(limit=600, families="hidden")
    assert all(re.fullmatch(r"[f0-9(),]+", q.text) for q in questions)
    assert {d for q in questions for d in q.metadata["domains"]} == set(DOMAINS)
    assert str(parse("f7(5,47)").step()) == "42"  # "sub"
    with pytest.raises(UserError, match="primary families"):
        load_relay(regime="harm", families="hidden")


# ------------------------------------------------------------------------------------------------ regimes and knobs


def test_in_null_one_agent_suffices():
    assert {q.metadata["depth"] for q in load_relay(limit=100, regime="null")} == {1}


def test_in_harm_the_innermost_layer_is_the_family_that_is_mistaken():
    for question in load_relay(limit=200, regime="harm"):
        assert question.metadata["families"][0] == "under" and "law" not in question.metadata["domains"][1:2]


def test_domains_can_be_restricted():
    seen = {d for q in load_relay(limit=100, domains=("math", "law")) for d in q.metadata["domains"]}
    assert seen == {"math", "law"}


@pytest.mark.parametrize(("settings", "message"), [
    ({"regime": "chian"}, "Did you mean 'chain'"),
    ({"depth": 7}, "depth must be whole numbers from 1 to 6"),
    ({"depth": []}, "depth"),
    ({"depth": 2.5}, "depth"),
    ({"domains": ("maths",)}, "Did you mean 'math'"),
    ({"domains": ("math",), "depth": 2}, "two domains"),
    ({"variant": "leafs"}, "Did you mean 'leaves'"),
    ({"variant": "orders", "depth": 2}, "from 3 to 6"),
    ({"families": "third"}, "unknown set of families"),
    ({"split": "testing"}, "Did you mean 'test'"),
    ({"limit": 0}, "limit"),
    ({"regime": "null", "depth": 2}, "one agent suffices"),
    ({"regime": "harm", "domains": ("math", "code")}, "law"),
    ({"depth": 1, "domains": ("general",), "limit": 1000}, "different questions"),
])
def test_wrong_settings_are_one_clear_line(settings, message):
    with pytest.raises(UserError, match=message) as caught:
        load_relay(**settings)
    assert "\n" not in str(caught.value)


def test_depths_take_turns():
    assert [q.metadata["depth"] for q in load_relay(limit=7, depth=[3, 1])] == [3, 1, 3, 1, 3, 1, 3]
    assert RelaySpec(depth=[3, 1]).depths == (3, 1)


# ------------------------------------------------------------------------------------------------ reader


@pytest.mark.parametrize(("text", "answer"), [
    ("55", "55"), (" 7\n", "7"), ("07", "7"), ("0", "0"), ("rev[55]", None), ("forty-two", None), ("155", None),
    ("-5", None), ("5 5", None), ("the answer is 55", None), ("", None), ("<think>3</think>55", "55"), ("5.0", None),
])
def test_a_literal_is_an_answer_and_an_unfinished_expression_abstains(text, answer):
    assert RelayReader().read(text) == answer


def test_questions_are_graded_by_their_value():
    [question] = load_relay(limit=1)
    assert question.is_correct(question.gold) and not question.is_correct(None)


# ------------------------------------------------------------------------------------------------ registry


def test_relay_is_a_task_like_any_other():
    assert "relay" in task_names() and "generated" in describe("relay")
    questions = load_questions("relay", limit=10, seed=3, depth=2)
    assert [q.id for q in questions] == [q.id for q in load_relay(limit=10, seed=3, depth=2)]
    assert load_questions("relay", split="train", limit=2)[0].split == "controller_train"


@pytest.mark.parametrize(("arguments", "message"), [
    ({"task": "relay", "dept": 2}, "Did you mean 'depth'"),
    ({"task": "relay", "file": "x.jsonl"}, "makes its own questions"),
    ({"task": "relay", "limit": sys.maxsize}, "no end"),
    ({"task": "relay", "split": "dev"}, "no split 'dev'"),
    ({"task": "mmlu", "depth": 2}, "has no settings"),
])
def test_settings_that_a_task_does_not_have_are_one_clear_line(arguments, message):
    with pytest.raises(UserError, match=message):
        load_questions(**arguments)
