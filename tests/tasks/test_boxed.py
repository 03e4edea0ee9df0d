"""A box is read whatever is in it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goa_torch.tasks import read_boxed

QUICK = settings(derandomize=True, deadline=None, max_examples=200)
# text in which braces are balanced or escaped, as LaTeX is
leaves = st.text(alphabet="x1+-= ,()^_", min_size=1, max_size=6)
latex = st.recursive(
    st.one_of(leaves, st.sampled_from(["\\{", "\\}", "\\pi", "\\,"])),
    lambda inner: st.one_of(
        inner.map("{{{}}}".format),
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("\\frac{{{0[0]}}}{{{0[1]}}}".format),
    ),
    max_leaves=8,
).filter(str.strip)


@QUICK
@given(
    latex,
    st.sampled_from(["\\boxed{{{}}}", "\\fbox{{{}}}", "\\boxed {{{}}}", "$\\boxed{{{}}}$", "\\[\\boxed{{{}}}\\]"]),
    st.sampled_from(["", "We get \\boxed{1}, then ", "<think>\\boxed{2}</think>"]),
    st.sampled_from(["", ".", " and 5 more"]),
)
def test_the_last_box_is_read_whole(content, box, before, after):
    assert read_boxed(before + box.format(content) + after) == content.strip()


@QUICK
@given(latex)
def test_a_box_never_closed_is_not_read(content):
    assert read_boxed("so \\boxed{1} and \\boxed{" + content) is None


@QUICK
@given(latex)
def test_a_box_in_a_box_is_read_from_outside_in(content):
    # the last one that begins is the inner one, which is what the answer is
    assert read_boxed("\\boxed{\\boxed{" + content + "}}") == content.strip()


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("\\boxed 5", "5"),
        ("\\boxed 3.5.", "3.5"),
        ("$\\boxed 12$", "12"),
        ("\\boxed{}", None),
        ("\\boxed{ }", None),
        ("\\boxed", None),
        ("\\boxedsize{3}", None),
        ("\\boxed{a\\\\{b}}", "a\\\\{b}"),
        ("<think>\\boxed{3}", None),
    ],
)
def test_odd_boxes(text, content):
    assert read_boxed(text) == content
