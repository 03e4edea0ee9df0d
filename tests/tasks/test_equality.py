"""Equality of answers: right for what people write, bounded for what nobody should."""

from __future__ import annotations

import os
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from goa_torch.tasks import MathReader, math_equal
from goa_torch.tasks.equality import MathJudge, canonical


@pytest.mark.parametrize(
    ("gold", "text"),
    [
        ("\\frac12", "0.5"),
        ("\\frac{1}{2}", "1/2"),
        ("2\\sqrt{3}", "2*sqrt(3)"),
        ("1234", "1{,}234"),
        ("5", "x = 5"),
        ("x^2-1", "(x-1)(x+1)"),
        ("90^\\circ", "90"),
        ("5", "5\\text{ cm}"),
        ("\\text{Evelyn}", "Evelyn"),
        ("2^{10}", "1024"),
        ("1024", "2^10"),
        ("3\\pm\\sqrt2", "3-\\sqrt2, 3+\\sqrt2"),
        ("\\{1,2,3\\}", "\\{3,2,1\\}"),
        ("y=2x+3", "y = 2x + 3"),
        ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}"),
        ("7", "007"),
        ("-3", "\u22123"),
        ("\\frac{\\pi}{2}", "\\boxed{\\dfrac{\\pi}{2}}"),
        ("10", "$10$"),
        ("1234567", "1\\,234\\,567"),
        ("10", "10."),
        ("\\frac12", "2^-1"),
    ],
)
def test_equal_answers_are_equal(gold, text):
    assert math_equal(gold, text)


@pytest.mark.parametrize(
    ("gold", "text"),
    [
        ("(1,2)", "(2,1)"),
        ("(1,2)", "[1,2]"),
        ("2", "x"),
        ("\\frac13", "0.333"),
        ("9", "x is 5 or 9"),
        ("9", "5, 9"),
        ("9", "9^{9^{x"),
        ("5", ""),
        ("", "5"),
        ("4 apples", "5 apples"),
        ("10", "\\frac{10"),
        ("Evelyn", "Eve"),
        ("5", "5+"),
    ],
)
def test_unequal_answers_are_not(gold, text):
    assert not math_equal(gold, text)


def test_bombs_are_not_equal_within_seconds_from_any_thread():
    bombs = ["9^9^9^9", "9^{9^{9^9}}", "1000000!", "10^{10^{10}}", "(" * 900, "\\binom{100000000}{50000000}"]
    verdicts: dict[str, bool] = {}
    threads = [threading.Thread(target=lambda b=bomb: verdicts.update({b: math_equal("9", b)})) for bomb in bombs]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert verdicts == dict.fromkeys(bombs, False)
    assert time.monotonic() - start < 10 * len(bombs) / 2
    assert math_equal("\\frac12", "0.50"), "and the next comparison is served"


def test_a_worker_that_is_stuck_is_replaced():
    judge = MathJudge(seconds=0.5, workers=1)
    try:
        assert judge.equal("\\frac{1}{2}", "0.5")
        start = time.monotonic()
        assert not judge.equal("9", "9^{9^{9^9}}")
        assert time.monotonic() - start < 5
        assert judge.equal("\\frac{1}{2}", "0.5")
    finally:
        judge.close()


def test_many_threads_get_their_own_verdicts():
    pairs = [(f"\\frac{{{n}}}{{7}}", f"{n}/{7 + n % 2}") for n in range(1, 40)]
    with ThreadPoolExecutor(8) as threads:
        verdicts = list(threads.map(lambda pair: math_equal(*pair), pairs))
    assert verdicts == [n % 2 == 0 for n in range(1, 40)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_process_has_workers_of_its_own():
    assert math_equal("\\frac{3}{2}", "1.5")
    child = os.fork()
    if child == 0:
        os._exit(0 if math_equal("\\frac{5}{2}", "2.5") and not math_equal("\\frac{5}{2}", "2.6") else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize(
    ("written", "spelled"),
    [
        ("\\dfrac12", "\\frac{1}{2}"),
        ("$ x = 5 $.", "5"),
        ("1,234,567", "1234567"),
        ("\\left( 1, 2 \\right)", "( 1, 2 )"),
        ("y = 2x", "y = 2x"),
        ("\\boxed{7}", "7"),
    ],
)
def test_spellings_become_one(written, spelled):
    assert canonical(written) == spelled


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("So \\boxed{\\frac{1}{3}}.", "\\frac{1}{3}"),
        ("The answer is $\\frac{1}{3}$.", "\\frac{1}{3}"),
        ("Answer: 2\\sqrt{3}", "2\\sqrt{3}"),
        ("The final answer is $(3, \\frac{\\pi}{2})$. I hope it is correct.", "(3, \\frac{\\pi}{2})"),
        ("#### 18", "18"),
        ("The answer is 3.5.", "3.5"),
        ("The answer is unknown", None),
        ("So x = 5", None),
        ("The answer is \\boxed{3", None),
        ("The answer is the number of cats", None),
        ("<think>\\boxed{3}", None),
        ("", None),
    ],
)
def test_the_reader_finds_the_expression(text, answer):
    assert MathReader().read(text) == answer


def test_the_reader_travels_between_processes():
    assert pickle.loads(pickle.dumps(MathReader())) == MathReader()
