"""Debates as Gymnasium environments: the contract of the interface, and what episodes mean."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

from goa_torch.errors import UserError
from goa_torch.rl import ENV_ID, DebateEnv, DebateVectorEnv
from goa_torch.rl.rewards import RewardConfig
from tests.rl.world import cut_off, debates, hashed, oracle
from tests.worlds import echo_pool, questions

LOUD, SILENT = np.full((6, 6), 0.5, dtype=np.float32), np.eye(6, dtype=np.float32)


def env(outputs=hashed, n: int = 6, **config) -> DebateEnv:
    return DebateEnv(questions=questions(4), debates=debates(outputs, n, **config))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_it_passes_gymnasium_s_own_check():
    made = gymnasium.make(ENV_ID, pool=lambda: echo_pool(hashed), questions=questions(4))
    check_env(made.unwrapped, skip_render_check=True)


def test_the_registered_name_makes_both_forms():
    config = {"rounds": 3, "gate": {"background": 0.05}, "observation": {"features": ["round"]}}
    single = gymnasium.make(ENV_ID, pool=echo_pool(hashed), questions=questions(2), config=config)
    many = gymnasium.make_vec(ENV_ID, num_envs=3, pool=echo_pool(hashed), questions=questions(2), config=config)
    assert single.observation_space.shape == (6, 7) and many.observation_space.shape == (3, 6, 7)
    assert isinstance(many.unwrapped, DebateVectorEnv)


def test_the_last_round_ends_the_debate_by_termination():
    made = env(rounds=3)
    made.reset(seed=0)
    first, second = made.step(LOUD), made.step(LOUD)
    assert first[2:4] == (False, False) and second[2:4] == (True, False)
    assert "final_accuracy" in second[4]["terms"] and "final_accuracy" not in first[4]["terms"]
    with pytest.raises(RuntimeError, match="reset"):
        made.step(LOUD)


def test_a_cutoff_truncates_without_the_end_reward():
    made = env(rounds=6, cutoff=1)
    made.reset(seed=0)
    _, _, terminated, truncated, info = made.step(LOUD)
    assert (terminated, truncated) == (False, True) and "final_accuracy" not in info["terms"]


def test_gymnasium_s_time_limit_truncates_too():
    made = gymnasium.make(ENV_ID, max_episode_steps=1, pool=echo_pool(hashed), questions=questions(2))
    made.reset(seed=0)
    assert made.step(LOUD)[2:4] == (False, True)


def test_a_round_in_which_nobody_is_called_ends_the_episode_and_costs_nothing():
    made = env()
    made.reset(seed=0)
    calls = len(made.episode.calls)
    _, _, terminated, truncated, info = made.step(SILENT)
    assert (terminated, truncated, info["silent"]) == (True, False, True)
    assert len(made.episode.calls) == calls == 6 and info["tokens"] == 0


@pytest.mark.parametrize("loud", [0, 1, 3])
def test_silence_is_worth_what_silent_rounds_to_the_end_would_be(loud):
    gamma = RewardConfig().discount

    def total(absorb: bool) -> float:
        reward = RewardConfig(absorb=absorb)
        made = env(rounds=6, reward=reward)
        made.reset(seed=1)
        rewards = [made.step(LOUD)[1] for _ in range(loud)]
        if absorb:
            rewards.append(made.step(SILENT)[1])
        else:  # the same episode, in which one agent after another would have been asked in vain
            episode, standing = made.episode, made.episode.standing
            share = episode.asked / (6 * 5)
            silent = reward.accuracy * standing.right + reward.consensus * standing.consensus + reward.efficiency
            rewards += [silent] * (5 - loud)
            rewards[-1] += (reward.final_accuracy * standing.right + reward.final_consensus * standing.consensus
                            + reward.final_efficiency * (1 - share)
                            + reward.final_improvement * (standing.right - episode.first.right))
        return sum(gamma**k * value for k, value in enumerate(rewards))

    assert total(absorb=True) == pytest.approx(total(absorb=False))


def test_terms_sum_to_the_reward():
    made = env(rounds=4, reward=RewardConfig(tokens=0.5))
    made.reset(seed=2)
    for _ in range(3):
        _, reward, _, _, info = made.step(LOUD)
        assert sum(info["terms"].values()) == pytest.approx(reward)
        assert info["terms"]["tokens"] == pytest.approx(-0.5 * info["tokens"] / 1000)


def test_rewards_say_what_happened():
    made = env(oracle, rounds=3, reward=RewardConfig(measure="agents"))
    made.reset(seed=0, options={"question": 2})
    weights = np.zeros((6, 6), dtype=np.float32)
    weights[0, 2] = 0.9  # one agent (of six, by name) hears finance, which knows
    _, _, _, _, info = made.step(weights)
    assert made.questions[2].id == info["question"] and info["called"] == 1
    assert (info["accuracy"], info["consensus"]) == pytest.approx((2 / 6, 4 / 6))
    assert info["terms"]["improvement"] == pytest.approx(1 / 6) and info["terms"]["progress"] == pytest.approx(-0.1 / 6)
    assert info["terms"]["efficiency"] == pytest.approx(0.2 * 5 / 6)
    assert info["terms"]["sparsity"] == pytest.approx(-0.1 / 30) and not info["right"]
    weights[3:, 2] = 0.9
    _, _, terminated, _, info = made.step(weights)
    assert terminated and info["right"] and info["terms"]["final_improvement"] == pytest.approx(0.2)
    assert info["terms"]["final_efficiency"] == pytest.approx(0.3 * (1 - 5 / 12))


@pytest.mark.parametrize(("measure", "worth"), [("majority", 1.0), ("agents", 4 / 6)])
def test_accuracy_is_the_majority_s_or_that_of_the_agents(measure, worth):
    made = env(oracle, rounds=3, reward=RewardConfig(measure=measure))
    made.reset(seed=0, options={"question": 2})
    weights = np.zeros((6, 6), dtype=np.float32)
    weights[3:, 2] = 0.9
    terms = made.step(weights)[4]["terms"]
    assert terms["accuracy"] == pytest.approx(worth)
    assert terms["improvement"] == pytest.approx(1.0 if measure == "majority" else 3 / 6)


def test_unfinished_replies_abstain():
    made = env(cut_off)
    _, info = made.reset(seed=0)
    assert info["answers"] == [None] * 6 and info["accuracy"] == info["consensus"] == 0 and not info["right"]


def test_equal_seeds_give_equal_debates_and_options_name_a_question():
    one, other = env(seeds=3), env(seeds=3)
    ids = []
    for made in (one, other):
        ids.append([made.reset(seed=5 if k == 0 else None)[1]["question"] for k in range(8)])
    assert ids[0] == ids[1] and len(set(ids[0])) > 1
    assert one.reset(options={"question": np.int64(3)})[1]["question"] == "q3"
    for wrong in (99, -1, "q3", None, True):
        with pytest.raises(UserError, match=r"options\['question'\] must be a number from 0 to"):
            one.reset(options={"question": wrong})


def test_the_vectorised_form_plays_the_debates_of_single_ones():
    draw = np.random.default_rng(0)
    actions = draw.uniform(size=(12, 3, 6, 6)).astype(np.float32)
    actions[3, 1] = np.eye(6)  # the second debate falls silent early, and begins anew while the others go on
    many = DebateVectorEnv(3, questions=questions(4), debates=debates(rounds=5))
    singles = [env(rounds=5) for _ in range(3)]
    seen, _ = many.reset(seed=7)
    alone = [single.reset(seed=7 + row)[0] for row, single in enumerate(singles)]
    assert np.array_equal(seen, np.stack(alone))
    over = [False] * 3
    for action in actions:
        seen, rewards, terminated, truncated, infos = many.step(action)
        for row, single in enumerate(singles):
            if over[row]:
                observation, info = single.reset()
                expected = (observation, 0.0, False, False)
            else:
                *expected, info = single.step(action[row])
            assert np.array_equal(seen[row], expected[0])
            assert (rewards[row], terminated[row], truncated[row]) == pytest.approx(tuple(expected[1:]))
            assert infos["question"][row] == info["question"]
            over[row] = bool(expected[2] or expected[3])


def test_a_step_of_many_debates_is_one_batch_of_calls():
    pool = echo_pool(hashed)
    many = DebateVectorEnv(8, pool=pool, questions=questions(4))
    model = pool.agents[0].model
    many.reset(seed=0)
    many.episodes[0].round = 2  # debates in different rounds, too
    model.batches.clear()
    many.step(np.full((8, 6, 6), 0.5, dtype=np.float32))
    assert len(model.batches) == 1


def test_without_autoreset_debates_wait_to_be_begun_anew():
    many = DebateVectorEnv(2, pool=echo_pool(hashed), questions=questions(4), autoreset="disabled")
    many.reset(seed=0)
    many.step(np.stack([SILENT, LOUD]))
    _, rewards, terminated, _, _ = many.step(np.stack([LOUD, LOUD]))
    assert rewards[0] == 0 and not terminated[0] and many.episodes[0].over
    many.reset(options={"reset_mask": np.array([True, False])})
    assert [episode.round for episode in many.episodes] == [0, 2]


def test_repeated_states_are_free_and_give_the_same_replies():
    engine = debates(rounds=4)
    made = DebateEnv(questions=questions(1), debates=engine)
    model = engine.pool.agents[0].model

    def play() -> list:
        made.reset(seed=0)
        steps = [made.step(LOUD) for _ in range(3)]
        return [[s[0].tolist(), *s[1:]] for s in steps] + [made.episode.usage.tokens, made.episode.usage.calls]

    first, asked = play(), len(model.chats)
    assert play() == first and len(model.chats) == asked
    assert made.episode.paid.calls == 0 and len(made.episode.calls) == 24


def test_the_cache_is_off_on_demand_and_changes_no_reply():
    with_cache, without = debates(), debates(cache=0)
    for engine in (with_cache, without):
        for _ in range(2):
            episodes = engine.begin(questions(3))
            engine.step(episodes, torch.full((3, 6, 6), 0.5))
        engine.replies = [reply.text for episode in episodes for reply in episode.replies]
    assert with_cache.replies == without.replies and len(without.cache) == 0
    assert without.pool.agents[0].model is not with_cache.pool.agents[0].model
    assert len(without.pool.agents[0].model.chats) == 2 * len(with_cache.pool.agents[0].model.chats)


def test_a_small_cache_forgets_what_was_used_longest_ago():
    engine = debates(cache=6)
    engine.begin(questions(1))
    engine.begin(questions(3)[2:])
    assert len(engine.cache) == 6
    engine.begin(questions(1))
    assert engine.cache.hits == 0


@pytest.mark.parametrize(("config", "match"), [
    ({"rounds": 1}, "rounds"), ({"gates": {}}, "Did you mean 'gate'"), ({"gate": {"critical": 2}}, "gate"),
    ({"reward": {"acuracy": 1}}, "Did you mean 'accuracy'"), ({"reward": {"measure": "x"}}, "measure"),
    ({"observation": {"features": ["x"]}}, "feature"),
])
def test_configurations_that_make_no_sense_are_one_line(config, match):
    with pytest.raises(UserError, match=match) as error:
        DebateEnv(pool=echo_pool(), questions=questions(1), config=config)
    assert "\n" not in str(error.value)


def test_wrong_actions_are_refused():
    engine = debates()
    episodes = engine.begin(questions(1))
    with pytest.raises(ValueError, match=r"\[receiver, sender\]"):
        engine.step(episodes, torch.zeros(1, 5, 6))
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        engine.step(episodes, torch.full((1, 6, 6), 1.5))


def test_an_environment_without_pool_or_questions_says_so():
    with pytest.raises(UserError, match="pool"):
        DebateEnv(questions=questions(1))
    with pytest.raises(UserError, match="questions"):
        DebateEnv(pool=echo_pool())
    with pytest.raises(UserError, match="no questions"):
        DebateEnv(pool=echo_pool(), questions=[])
