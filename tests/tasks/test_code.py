"""Programs are found in replies as people would find them, and are right when their tests pass."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goa_torch.errors import UserError
from goa_torch.sandbox import need_sandbox
from goa_torch.tasks import CodeReader, get_task, load_questions, read_code
from goa_torch.tasks import loading as loading_module

SAMPLE = Path(__file__).parents[2] / ".." / "shared" / "data" / "human_eval_dev.json"
PROMPT = 'import math\n\n\ndef area(r: float) -> float:\n    """The area\n    >>> area(0)\n    0\n    """\n'
RIGHT = "def area(r):\n    return math.pi * r * r"
FULL = f"import math\n\n{RIGHT}"
CONTINUED = "import math\n\ndef area(r: float) -> float:\n    return math.pi * r * r"
HELPED = "from math import pi\n\ndef square(x):\n    return x * x\n\n@cache\ndef area(r):\n    return pi * square(r)"
BODY = "    return math.pi * r * r\n"


def _sandbox_missing() -> str:
    try:
        need_sandbox()
    except UserError as error:
        return str(error)
    return ""


needs_sandbox = pytest.mark.skipif(bool(_sandbox_missing()), reason=_sandbox_missing() or "there")


@pytest.mark.parametrize("text, program", [
    (f"Here it is:\n```python\nimport math\n\n{RIGHT}\n```\nIt squares r.", FULL),
    (f"```\n{FULL}\n```", FULL),
    (f"~~~py\n{FULL}\n~~~", FULL),
    (f"```python\nimport math\n\n{RIGHT}", FULL),  # the fence was never closed
    (f"First:\n```python\ndef area(r):\n    return 1\n```\nBetter:\n```python\n{FULL}\n```\nUse it:\n"
     "```python\nprint(area(1))\n```", FULL),
    (f"```python\n{FULL.replace('return', '# squared' + chr(10) + '    return')}\n```", FULL),  # comments
    (f'```python\n{FULL.replace("r):", "r):" + chr(10) + "    " + chr(34) * 3 + "Doc." + chr(34) * 3)}\n```', FULL),
    (f"Sure, here is the function:\n\n{FULL}\n\nThis works because of geometry.", FULL),
    (f"{FULL}\n\nassert area(1) > 3 it is", FULL),
    (BODY, CONTINUED),
    (f"{BODY}\n\nif __name__ == '__main__':\n    import doctest", CONTINUED),
    (f"{BODY}\n# next\ndef other():\n    pass", CONTINUED),
    (f"```python\n{BODY}```", CONTINUED),
    (f"{FULL}\n```\n\nThis takes the area.", FULL),  # the fence was never opened
    (f"```python\n{FULL}\n\nprint(area(2.5)(3))\nassert area(1) == 3\narea_2 = area(2)\n```", FULL),
    (f"```python\ndef area(r):\n    return 1\n```\n```python\n{PROMPT}```", "def area(r):\n    return 1"),
    (f"Sure\n\n{FULL}", FULL),
    (f"```python\nTAU: float = 6.28\nHALF = 0.5\n{FULL}\n```", f"TAU: float = 6.28\nHALF = 0.5\n{FULL}"),
    ("<think>def area(r): return 1</think>\n" + f"```python\n{FULL}\n```", FULL),
    (json.dumps({"reasoning": "r squared", "answer": FULL, "confidence_level": "0.9"}), FULL),
    (json.dumps({"reasoning": "r squared", "answer": f"```python\n{FULL}\n```"}), FULL),
    (f"```python\n{HELPED}\n```", HELPED),
    (f"I think so:\n{HELPED}", HELPED),
])
def test_programs_are_found(text, program):
    assert read_code(text, "area", PROMPT) == program


@pytest.mark.parametrize("text", ["", "I do not know.", "```python\nprint(1)\n```", "def area(r) return", PROMPT,
                                  f"```python\n{PROMPT}```", "def areas(r):\n    return 1", "{", "\x00", "def area(r):",
                                  "<think>\ndef area(r):\n    return 1", "    ", "```python\n```", "4", "(" * 5000])
def test_replies_without_a_program_have_no_answer(text):
    assert read_code(text, "area", PROMPT) is None


LINES = ["def area(r):", "    return r", "```", '"""', "\\", "import math", "(", "x = '", "@", "{", "\x0c", "  "]


@given(st.text() | st.lists(st.sampled_from(LINES)).map("\n".join))
def test_whatever_is_said_is_read_as_a_program_or_nothing(text):
    program = read_code(text, "area", PROMPT)
    if program is not None:
        assert any(isinstance(node, ast.FunctionDef) and node.name == "area" for node in ast.parse(program).body)
        assert read_code(f"```python\n{program}\n```", "area", PROMPT) == program


def test_the_same_program_in_other_words_is_the_same_answer():
    reader = CodeReader(PROMPT, "area", "def check(f): pass")
    one, two = reader.read(f"```python\n{FULL}  # tau\n```"), reader.read(f"Well:\n\n{FULL}")
    assert reader.equal(one, two) and not reader.equal(one, reader.read(BODY.replace("r * r", "r")))


def sample(n):
    if not SAMPLE.is_file():
        pytest.skip("../shared/data is not here")
    return json.loads(SAMPLE.read_text(encoding="utf-8"))[:n]


@needs_sandbox
def test_the_published_solutions_pass_their_tests_in_every_form_and_no_answer_does_not():
    for number, row in enumerate(sample(9)):
        question = get_task("humaneval").question(get_task("humaneval").read(row), "test", "row")
        forms = [row["canonical_solution"], f"```python\n{row['prompt']}{row['canonical_solution']}```",
                 f"Here:\n\n{row['prompt']}{row['canonical_solution']}\nDone."]
        answer = question.reader.read(forms[number % 3])
        assert question.is_correct(answer), row["task_id"]
        assert not question.is_correct(question.reader.read("    return None")), row["task_id"]
        assert not question.is_correct(None)


@needs_sandbox
def test_questions_load_from_the_benchmarks_own_rows(tmp_path):
    rows = [json.dumps({"task_id": f"HumanEval/{n}", "prompt": PROMPT, "entry_point": "area",
                        "test": "def check(candidate):\n    assert candidate(1) > 3"}) for n in range(3)]
    file = tmp_path / "he.jsonl"
    file.write_text("\n".join(rows), encoding="utf-8")
    questions = load_questions("humaneval", file=file)
    assert [q.id for q in questions] == [f"HumanEval/{n}" for n in range(3)] and questions[0].text == PROMPT.strip()
    assert questions[0].is_correct(questions[0].reader.read(BODY))
    file.write_text(json.dumps({"question": "x", "gold_answer": "1"}), encoding="utf-8")
    with pytest.raises(UserError, match="he.jsonl, line 1: task 'humaneval' needs the columns task_id, prompt"):
        load_questions("humaneval", file=file)


def test_without_a_sandbox_the_task_is_refused_before_anything_is_asked(monkeypatch):
    def refuse():
        raise UserError("generated code runs only in a sandbox")

    monkeypatch.setattr("goa_torch.sandbox.need_sandbox", refuse)
    with pytest.raises(UserError, match="only in a sandbox"):
        loading_module.load_questions("humaneval")
