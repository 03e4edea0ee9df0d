"""Plain data goes through the wire unchanged; nothing else goes through."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goa_torch.sandbox import wire

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
    | st.complex_numbers(allow_nan=False),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner)
    | st.sets(st.integers() | st.text()) | st.frozensets(st.integers()),
    max_leaves=12,
)


@given(plain)
def test_plain_values_arrive_as_they_are(value):
    line = wire.dumps(value)
    assert "\n" not in line and line.isascii()
    arrived = wire.loads(line)
    assert arrived == value and type(arrived) is type(value)


@given(st.text())
def test_what_is_no_line_of_ours_is_a_value_error(text):
    try:
        wire.loads(text)
    except (ValueError, RecursionError):
        pass


@pytest.mark.parametrize("line", ['{"exec": "x"}', "[1]", "1", '{"int": 5}', '{"set": [{"list": []}]}', '{"dict": [1]}',
                                  '{"int": "0x1", "list": []}', '{"complex": ["a"]}', '{"bytes": 3}', ""])
def test_damaged_lines_are_value_errors(line):
    with pytest.raises(ValueError):
        wire.loads(line)


def test_objects_do_not_travel_and_subclasses_come_as_their_base():
    class Yes:
        def __eq__(self, other):
            return True

    class Sly(int):
        def __eq__(self, other):
            return True

    with pytest.raises(TypeError, match="Yes is not plain data"):
        wire.dumps([Yes()])
    assert type(wire.loads(wire.dumps(Sly(3)))) is int
    assert list(wire.loads(wire.dumps(iter([1, (2,)])))) == [1, (2,)]
    with pytest.raises(ValueError, match="at most"):
        wire.dumps("x" * (wire.LONGEST + 1))
