"""Pool files: what they give, and what is said about a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from goa_torch.agents import pools
from goa_torch.agents.pools import BACKENDS, load_pool, pool_names, read_pool
from goa_torch.errors import UserError
from goa_torch.types import Card, Chat, Message, Sampling

POOL = {
    "models": {"m": {"backend": "echo"}},
    "agents": [{"name": "a", "model": "m", "card": {"domain": "code"}},
               {"name": "b", "model": "m", "card": {"domain": "law", "tasks": ["contracts"]}, "system": "You are b."}],
}

SERVER = {"backend": "openai", "model": "x", "base_url": "http://localhost:1/v1"}


def write(folder: Path, **changes) -> Path:
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in (POOL | changes).items() if value is not None}),
                    encoding="utf-8")
    return path


def said(message: str, pool) -> str | None:
    return pool.models[0].generate([Chat((Message.of("user", message),))], Sampling())[0].text


@pytest.mark.parametrize("name", pool_names())
def test_every_shipped_pool_is_well_formed(name):
    config = read_pool(name)
    assert config.name == name and config.about
    assert all(agent.card["domain"] and agent.model in config.models for agent in config.agents)
    assert all(entry["backend"] in BACKENDS for entry in config.models.values())


def test_the_papers_pool_and_the_small_one_have_the_six_domains():
    for name in ("paper", "smollm2", "echo"):
        domains = [agent.card["domain"] for agent in read_pool(name).agents]
        assert sorted(domains) == ["biomedical", "code", "finance", "general", "law", "math"]


def test_a_pool_has_its_agents_in_order_and_builds_each_model_once():
    pool = load_pool("echo")
    assert [agent.name for agent in pool.agents] == ["general", "code", "math", "biomedical", "finance", "law"]
    assert len(pool.models) == 1 and pool.meta is pool["general"]
    assert pool["law"].card == Card("law", ("legal reasoning",))


def test_what_the_file_leaves_out_has_defaults(tmp_path):
    pool = load_pool(write(tmp_path))
    assert pool.name == "mine" and pool.meta.name == "a" and pool.prompts.folder.name == "default"
    assert pool["b"].system == "You are b." and pool["a"].card == Card("code")
    assert set(pool.sampling.values()) == {Sampling()}


def test_sampling_can_differ_by_purpose(tmp_path):
    pool = load_pool(write(tmp_path, sampling={"temperature": 0.5, "max_new_tokens": 90, "stop": ["END"],
                                               "by_purpose": {"score": {"max_new_tokens": 9, "temperature": 0}}}))
    assert pool.sampling["answer"] == Sampling(0.5, 1.0, 90, ("END",))
    assert pool.sampling["score"] == Sampling(0.0, 1.0, 9, ("END",))


def test_the_meta_llm_can_be_an_agent_of_its_own(tmp_path):
    pool = load_pool(write(tmp_path, meta={"name": "chief", "model": "m", "card": {"domain": "general"}}))
    assert pool.meta.name == "chief" and len(pool) == 2 and len(pool.models) == 1


def test_cards_and_prompts_may_lie_beside_the_pool(tmp_path):
    (tmp_path / "card.yaml").write_text("domain: math\ntasks: [sums]\n", encoding="utf-8")
    (tmp_path / "README.md").write_text("---\ntags: [legal, law]\n---\n# Model 7B\n", encoding="utf-8")
    folder = tmp_path / "words"
    folder.mkdir()
    for purpose in ("select", "answer", "score", "pass", "readout"):
        (folder / f"{purpose}.jinja").write_text(purpose, encoding="utf-8")
    agents = [POOL["agents"][0] | {"card": "card.yaml"}, POOL["agents"][1] | {"card": "README.md"}]
    pool = load_pool(write(tmp_path, agents=agents, prompts="words"))
    assert pool["a"].card == Card("math", ("sums",)) and pool["b"].card.domain == "law"
    assert pool.prompts.folder == folder


def test_values_may_come_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("GOA_TEST_NAME", "from outside")
    assert load_pool(write(tmp_path, name="${oc.env:GOA_TEST_NAME}")).name == "from outside"


def test_rules_make_echo_agents_say_things(tmp_path):
    rules = [{"when": r"I am (\w+)", "say": r"Hello \1"}, {"when": "bye", "say": "Bye"}]
    pool = load_pool(write(tmp_path, models={"m": {"backend": "echo", "rules": rules}}))
    assert said("I am Ann", pool) == "Hello Ann" and said("good bye", pool) == "Bye"
    assert said("nothing fits", pool) is None
    other = load_pool(write(tmp_path, models={"m": {"backend": "echo", "rules": rules[1:]}}))
    assert other.models[0].fingerprint != pool.models[0].fingerprint


def test_a_path_that_begins_with_a_dot_is_relative_to_the_pool_file(tmp_path, monkeypatch):
    seen = []

    def build(source: str, name: str = "x"):
        seen.append(Path(source))
        return pools.echo_model(name=name)

    monkeypatch.setattr(pools, "build_for_test", build, raising=False)
    monkeypatch.setitem(pools.BACKENDS, "fake", "goa_torch.agents.pools:build_for_test")
    load_pool(write(tmp_path, models={"m": {"backend": "fake", "source": "./weights"}}))
    assert seen == [tmp_path / "weights"]


@pytest.mark.parametrize(("changes", "message"), [
    ({"agents": [{"name": "a", "modell": "m", "card": {"domain": "x"}}]},
     r"line 4, agents\[0\].modell: unknown key 'modell'. Did you mean 'model'\?"),
    ({"agents": [{"name": "a", "model": "mm", "card": {"domain": "x"}}]}, r"unknown model 'mm'. Did you mean 'm'\?"),
    ({"agents": [{"name": "a", "card": {"domain": "x"}}]}, r"agents\[0\]: 'model' is missing"),
    ({"agents": [{"name": "a", "model": "m"}]}, r"agents\[0\]: 'card' is missing"),
    ({"agents": [{"name": "a", "model": "m", "card": {"tasks": ["x"]}}]}, r"card: 'domain' is missing"),
    ({"agents": [{"name": "a", "model": "m", "card": {"domain": "x", "job": 1}}]}, r"unknown key 'job'"),
    ({"agents": [{"name": " ", "model": "m", "card": {"domain": "x"}}]}, r"name: must not be empty"),
    ({"agents": ["a"]}, r"agents\[0\]: must be a mapping"),
    ({"agents": []}, "at least one agent"),
    ({"agents": None}, "'agents' is missing"),
    ({"agents": POOL["agents"][:1] * 2}, "lists agent 'a' twice"),
    ({"models": {"m": {"backend": "hff"}}}, r"unknown backend 'hff'. Did you mean 'hf'\?"),
    ({"models": {"m": {"source": "x"}}}, "with 'backend'"),
    ({"models": {"m": {"backend": "echo", "rulez": []}}}, r"unknown argument of backend 'echo' 'rulez'"),
    ({"models": {"m": {"backend": "echo", "rules": [{"when": "("}]}}}, "models.m: rules"),
    ({"meta": "c"}, "meta: unknown agent 'c'"),
    ({"prompts": "defualt"}, r"Did you mean 'default'\?"),
    ({"prompts": "released"}, r"lacks select\.jinja"),
    ({"sampling": {"temprature": 1}}, r"Did you mean 'temperature'\?"),
    ({"sampling": {"temperature": "hot"}}, r"sampling.temperature: Value 'hot'"),
    ({"sampling": {"temperature": -1}}, "temperature must be >= 0"),
    ({"sampling": {"by_purpose": {"vote": {}}}}, "unknown purpose 'vote'"),
    ({"sampling": {"by_purpose": {"score": {"top_p": 3}}}}, r"by_purpose.score: sampling: top_p"),
    ({"name": "${oc.env:GOA_NOT_SET}"}, "GOA_NOT_SET"),
    ({"colour": "red"}, "unknown key 'colour'"),
    ({"models": {"m": SERVER | {"base_url": 5}}}, r"models\.m\.base_url: must be text, not 5"),
    ({"models": {"m": SERVER | {"base_url": "http://here:99999/v1"}}}, r"models\.m: server: base_url must look like"),
    ({"models": {"m": SERVER | {"timeout": "x"}}}, r"models\.m\.timeout: must be a number, not 'x'"),
    ({"models": {"m": SERVER | {"concurrency": True}}}, r"models\.m\.concurrency: must be a whole number, not True"),
    ({"models": {"m": SERVER | {"extra_body": [1]}}}, r"models\.m\.extra_body: must be a mapping or null"),
    ({"models": {"m": SERVER | {"context_length": -5}}}, "context_length must be at least 1, not -5"),
    ({"models": {"m": {"backend": "hf", "source": "x", "on_tokens": "f"}}}, r"models\.m\.on_tokens: must be null"),
    ({"models": {"m": {"backend": ["echo"]}}}, "unknown backend"),
    ({"models": {"m": {"backend": "echo", "context_length": "x"}}}, r"context_length: must be a whole number or null"),
    ({"models": {"m": {"backend": "echo", "context_length": 0}}}, "context_length must be at least 1, not 0"),
    ({"models": {"m": {"backend": "echo", "rules": 5}}}, r"models\.m\.rules: must be a list or null, not 5"),
    ({"models": {"m": {"backend": "echo", "rules": [{"when": "x", "say": r"\9"}]}}}, r"rules\[0\]\.say names no group"),
    ({"models": {"m": {"backend": "echo", "rules": [{"when": "x", "say": r"\g<y>"}]}}}, r"rules\[0\]\.say names"),
    ({"models": {"m": {"backend": "echo", "rules": [{"when": "x", "say": True}]}}}, r"rules\[0\]\.say must be text"),
    ({"models": [1]}, r"models: must be a mapping, not \[1\]"),
    ({"variables": [1]}, r"variables: must be a mapping, not \[1\]"),
    ({"agents": {"a": 1}}, r"agents: must be a list, not"),
    ({"agents": [{"name": "a", "model": "m", "card": {"domain": "x", "tasks": {"a": 1}}}]}, r"tasks: must be a list"),
    ({"agents": [{"name": "a", "model": "m", "card": {"domain": " "}}]}, r"card\.domain: must not be empty"),
    ({"agents": [{"name": "a", "model": "m", "card": "none.md"}]}, r"agents\[0\]\.card: no file 'none\.md'"),
    ({"agents": [{"name": "a\x1b[31m", "model": "m", "card": {"domain": "x"}}]}, "printable"),
    ({"agents": [{"name": "a\nb", "model": "m", "card": {"domain": "x"}}]}, "printable"),
    ({"meta": {"name": "a\tb", "model": "m", "card": {"domain": "x"}}}, r"meta\.name: .*printable"),
    ({"models": POOL["models"] | {"m\a": {"backend": "echo"}}}, "models: .*printable"),
    ({"name": "p\u202eq"}, "printable"),
    ({"sampling": [1]}, r"sampling: must be a mapping, not \[1\]"),
    ({"sampling": {"stop": "END"}}, r"sampling\.stop: must be a list, not 'END'"),
    ({"sampling": {"by_purpose": [1]}}, r"sampling\.by_purpose: must be a mapping, not \[1\]"),
    ({"prompts": ""}, "unknown set of prompts"),
])
def test_a_wrong_pool_file_is_one_line_that_says_what_and_where(tmp_path, changes, message):
    path = write(tmp_path, **changes)
    with pytest.raises(UserError, match=message) as caught:
        load_pool(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(("text", "message"), [
    ("agents: [", "line 2"), ("- a\n", "must be a mapping"), ("", "'agents' is missing"),
    ("name: a\nname: b\n", "duplicate key name"), ("a: !!python/object/apply:os.getcwd []\n", "could not determine"),
])
def test_a_file_that_is_no_pool_at_all_is_one_line(tmp_path, text, message):
    path = tmp_path / "bad.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message) as caught:
        load_pool(path)
    assert str(path) in str(caught.value)


def test_a_pool_that_does_not_exist_is_one_line(tmp_path):
    with pytest.raises(UserError, match=r"unknown pool 'smolm2'. Did you mean 'smollm2'\?"):
        load_pool("smolm2")
    with pytest.raises(UserError, match="no file"):
        load_pool(tmp_path / "none.yaml")


@pytest.mark.parametrize(("name", "message"), [
    ("", "the name is empty"), ("./f", r"no file \./f;"), ("./none/", r"no file \./none/;"), (".", "is a folder"),
])
def test_a_name_that_is_empty_or_a_path_to_nothing_is_answered_as_such(name, message):
    with pytest.raises(UserError, match=message + ".* one of echo, paper, relay, .*smollm2"):
        load_pool(name)


def test_numbers_may_stand_in_rules_and_where_fractions_are_asked_for(tmp_path):
    rules = [{"when": 5, "say": 42}]
    models = {"m": {"backend": "echo", "rules": rules}, "s": SERVER | {"timeout": 5, "api_key_env": None}}
    pool = load_pool(write(tmp_path, models=models))
    assert said("5?", pool) == "42"


def test_a_change_of_a_model_that_nobody_speaks_with_is_a_slip():
    with pytest.raises(UserError, match="maths.*math"):
        read_pool("relay", ['models.maths={"backend": "echo"}'])
    assert "more" in read_pool("relay", ['models.more={"backend": "echo"}', "agents.0.model=more"]).models
