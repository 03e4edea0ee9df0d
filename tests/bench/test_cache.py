from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goa_torch.agents.calls import Exchange, reply_key
from goa_torch.agents.echo import EchoModel
from goa_torch.bench.cache import DiskCache, key_hash, reply_from_json, reply_to_json
from goa_torch.types import Chat, Message, Reply, Sampling, Usage

REPO = Path(__file__).parents[2]
REPLY = Reply("Paris", "stop", reasoning="hm", log_prob=-1.5, usage=Usage(1, 10, 2, 3, 0.25, 1))

usages = st.builds(Usage, st.integers(0, 9), st.integers(0, 99), st.integers(0, 99), st.integers(0, 99),
                   st.floats(0, 9), st.integers(0, 3))
replies = st.builds(Reply, st.text(st.characters(), max_size=30), st.sampled_from(["stop", "length"]), st.none(),
                    st.text(max_size=9), st.none(), st.none() | st.floats(-99, 0), usages)


@given(replies)
def test_a_reply_survives_the_way_to_json_and_back(reply):
    assert reply_from_json(reply_to_json(reply)) == reply


@pytest.mark.parametrize("value", ["", "null", "[]", "{", '{"text": "a"}', '{"text": "a", "usage": {"cost": 1}}'])
def test_a_value_that_is_no_reply_is_a_miss(value):
    assert reply_from_json(value) is None


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), replies), max_size=12))
def test_it_remembers_like_a_dict(tmp_path_factory, items):
    folder = tmp_path_factory.mktemp("cache")
    with DiskCache(folder) as cache:
        for number, reply in items:
            cache.put([(("model", number), reply)])
    with DiskCache(folder) as cache:
        known = {number: reply for number, reply in items}
        assert cache.get([("model", n) for n in range(7)]) == [known.get(n) for n in range(7)]
        assert len(cache) == len(known)


def test_thousands_of_keys_are_asked_for_at_once(tmp_path):
    with DiskCache(tmp_path) as cache:
        cache.put((n, REPLY) for n in range(0, 3000, 2))
        assert [reply is not None for reply in cache.get(range(3000))] == [n % 2 == 0 for n in range(3000)]
        assert cache.size > 100_000


@pytest.mark.parametrize("damage", [b"this is no database, not at all" * 50, None])
def test_a_damaged_file_is_moved_aside_with_one_line(tmp_path, damage):
    with DiskCache(tmp_path) as cache:
        cache.put((n, REPLY) for n in range(2000))
    path = tmp_path / "replies.sqlite"
    path.write_bytes(damage or path.read_bytes()[:100] + b"\xff" * 4000 + path.read_bytes()[4100:])
    lines: list[str] = []
    with DiskCache(tmp_path, lines.append) as cache:
        assert cache.get([1]) in ([None], [REPLY])
        cache.put([("new", REPLY)])
        assert cache.get(["new"]) == [REPLY]
    assert len(lines) == 1 and "damaged" in lines[0] and "\n" not in lines[0]
    assert (tmp_path / "replies.damaged-1.sqlite").exists()


def test_damage_found_while_reading_is_survived(tmp_path):
    lines: list[str] = []
    with DiskCache(tmp_path) as cache:
        cache.put((n, REPLY) for n in range(5000))
    path = tmp_path / "replies.sqlite"
    content = bytearray(path.read_bytes())
    content[8192:-8192] = b"\xaa" * (len(content) - 16384)  # the header and the first page are whole
    path.write_bytes(content)
    with DiskCache(tmp_path, lines.append) as cache:
        found = cache.get(range(5000))
        assert all(reply in (None, REPLY) for reply in found) and None in found
        cache.put([("new", REPLY)])
        assert cache.get(["new"]) == [REPLY]
    assert len(lines) == 1


def test_a_foreign_table_is_moved_aside(tmp_path):
    with sqlite3.connect(tmp_path / "replies.sqlite") as connection:
        connection.execute("CREATE TABLE replies (name TEXT)")
    connection.close()
    lines: list[str] = []
    with DiskCache(tmp_path, lines.append) as cache:
        cache.put([("new", REPLY)])
        assert cache.get(["new"]) == [REPLY] and len(lines) == 1


def test_threads_and_processes_share_it(tmp_path):
    program = (
        "import sys; from goa_torch.bench.cache import DiskCache; from goa_torch.types import Reply\n"
        "with DiskCache(sys.argv[1]) as cache:\n"
        "    for i in range(50):\n"
        "        cache.put([((sys.argv[2], i), Reply(sys.argv[2])), (('both', i), Reply('same'))])\n"
        "        assert cache.get([('both', i)])[0].text == 'same'\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path), name], cwd=REPO) for name in "ab"]
    with DiskCache(tmp_path) as cache:
        threads = [threading.Thread(target=lambda t=t: [cache.put([((t, i), REPLY)]) for i in range(50)])
                   for t in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [process.wait(60) for process in running] == [0, 0]
        assert len(cache) == 3 * 50 + 3 * 50


def test_the_key_changes_with_everything_that_changes_a_reply():
    chat = Chat((Message.of("user", "Hello"),), stream=1)
    base = key_hash(reply_key(EchoModel(name="a"), chat, Sampling()))
    assert base == key_hash(reply_key(EchoModel(name="a"), Chat((Message.of("user", "Hello"),), stream=1), Sampling()))
    others = [
        (EchoModel(name="b"), chat, Sampling()),
        (EchoModel(name="a"), Chat((Message.of("user", "Hello!"),), stream=1), Sampling()),
        (EchoModel(name="a"), Chat((Message.of("system", "Hello"),), stream=1), Sampling()),
        (EchoModel(name="a"), Chat((Message.of("user", "Hello"),), stream=2), Sampling()),
        (EchoModel(name="a"), chat, Sampling(temperature=0.6)),
        (EchoModel(name="a"), chat, Sampling(max_new_tokens=9)),
        (EchoModel(name="a"), chat, Sampling(stop=("x",))),
    ]
    assert len({base, *(key_hash(reply_key(*other)) for other in others)}) == len(others) + 1


def test_an_exchange_finds_in_it_what_an_earlier_one_asked(tmp_path):
    chat, model = Chat((Message.of("user", "Hello"),)), EchoModel(["Hi"])
    with DiskCache(tmp_path) as cache:
        assert Exchange(cache).serve([(model, chat, Sampling())])[0][1] is False
    with DiskCache(tmp_path) as cache:
        (reply, shared), = Exchange(cache).serve([(model, chat, Sampling())])
    assert (reply.text, shared, len(model.chats)) == ("Hi", True, 1)


def test_failures_are_not_remembered(tmp_path):
    chat, model = Chat((Message.of("user", "Hello"),)), EchoModel([None, "Hi"])
    with DiskCache(tmp_path) as cache:
        assert Exchange(cache).serve([(model, chat, Sampling())])[0][0].failed
        assert Exchange(cache).serve([(model, chat, Sampling())])[0][0].text == "Hi"
