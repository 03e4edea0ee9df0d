"""Other people's algorithms train on the single form as it is."""

from __future__ import annotations

import numpy as np
import pytest

from goa_torch.rl import DebateEnv
from tests.rl.world import debates, oracle
from tests.worlds import questions

sb3 = pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_stable_baselines3_trains_on_the_single_form():
    from stable_baselines3.common.env_checker import check_env
    from stable_baselines3.common.monitor import Monitor

    env = DebateEnv(questions=questions(4), debates=debates(oracle, rounds=3))
    check_env(env)
    made = sb3.PPO("MlpPolicy", Monitor(env), n_steps=64, batch_size=32, n_epochs=2, seed=0, device="cpu")
    before = np.concatenate([p.detach().numpy().ravel() for p in made.policy.parameters()])
    made.learn(320)
    after = np.concatenate([p.detach().numpy().ravel() for p in made.policy.parameters()])
    assert made.num_timesteps == 320 and np.isfinite(after).all() and not np.array_equal(before, after)
    action, _ = made.predict(env.reset(seed=1)[0], deterministic=True)
    assert env.action_space.contains(action) and np.isfinite(env.step(action)[1])
