"""YAML files as dataclasses: where an error is, and what is rejected."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from goa_torch.config import Place, read_yaml, typed
from goa_torch.errors import UserError


@dataclass
class Shelf:
    name: str
    width: float = 1.0
    books: list[str] = field(default_factory=list)


def test_a_place_knows_the_line_of_the_innermost_key_there_is(tmp_path):
    path = tmp_path / "shelves.yaml"
    path.write_text("shelves:\n  - name: a\n  - name: b\n    width: 2\n", encoding="utf-8")
    place = Place(path) / "shelves" / 1
    assert str(place / "width") == f"{path}, line 4, shelves[1].width"
    assert str(place / "depth") == f"{path}, line 3, shelves[1].depth"
    assert str(Place(path) / "floor") == f"{path}, floor"
    assert str(Place(tmp_path / "gone.yaml") / "a") == f"{tmp_path / 'gone.yaml'}, a"


def test_values_take_the_types_of_the_fields(tmp_path):
    shelf = typed(Shelf, {"name": "a", "width": "2", "books": ["x"]}, Place(tmp_path))
    assert shelf == Shelf("a", 2.0, ["x"])


@pytest.mark.parametrize(("data", "message"), [
    ({"name": "a", "widht": 1}, r"unknown key 'widht'. Did you mean 'width'\?"), ({"width": 1}, "'name' is missing"),
    ({"name": "a", "width": "wide"}, "Value 'wide'"), ({"name": None}, "None"), ([1], "must be a mapping"),
    ({"name": "a", "books": "x"}, "books"), ({"name": "a", "books": {}}, "x.yaml, books: dict does not fit"),
    ({"name": "a", "width": 10**400}, "x.yaml, width: int does not fit"),
])
def test_what_does_not_fit_is_one_line(tmp_path, data, message):
    with pytest.raises(UserError, match=message) as caught:
        typed(Shelf, data, Place(tmp_path / "x.yaml"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"a: [", b"- a", b"1: 2", b"a: ${b}"])
def test_what_is_no_mapping_is_one_line(tmp_path, raw):
    path = tmp_path / "bad.yaml"
    path.write_bytes(raw)
    with pytest.raises(UserError) as caught:
        read_yaml(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_byte_order_mark_is_no_key(tmp_path):
    path = tmp_path / "bom.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_yaml(path) == {"a": 1}
