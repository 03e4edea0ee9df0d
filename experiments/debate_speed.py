"""Steps per second of the debate environment: how fast a controller can be trained.

python experiments/debate_speed.py [--pool relay] [--batches 1 64 512] [--steps 1024]

A step is one round of one debate; beside the clock stands what it comes to by the processor's time, which other work
on the machine does not change. Measured with an untrained policy that explores: on questions that are new
(every reply is generated), and on the same ones once more (every reply comes from the transition cache, so that what
is left is the environment itself).
"""

from __future__ import annotations

import argparse
import time

from goa_torch import load_pool, load_questions
from goa_torch.rl import DebateConfig, Debates, roll_out
from goa_torch.topology.observation import ObservationConfig
from goa_torch.topology.policies import PolicyConfig, WeightPolicy

OBSERVATION = ObservationConfig(planes=("card",), features=("round", "answered", "changed", "length", "card"))


def measure(debates: Debates, policy: WeightPolicy, questions: list, batch: int) -> tuple[float, ...]:
    """Steps, steps by processor's time, calls and new tokens a second over ``questions``, ``batch`` at a time."""
    started, busy, steps, calls, tokens = time.perf_counter(), time.process_time(), 0, 0, 0
    for start in range(0, len(questions), batch):
        asked = questions[start : start + batch]
        played = roll_out(debates, policy, asked, noise=list(range(start, start + len(asked))))
        steps += int(played.rollout.valid.sum())
        calls += sum(len(episode.calls) for episode in played.episodes)
        tokens += sum(episode.usage.completion_tokens for episode in played.episodes)
    seconds = time.perf_counter() - started
    return steps / seconds, steps / (time.process_time() - busy), calls / seconds, tokens / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool", default="relay")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 64, 512])
    parser.add_argument("--steps", type=int, default=1024, help="about so many for each batch size (64 for batch 1)")
    args = parser.parse_args()
    pool = load_pool(args.pool)
    pool.check()
    print(f"{'batch':>6} {'cache':>6} {'steps/s':>9} {'by CPU':>9} {'calls/s':>9} {'new tokens/s':>13}")
    for batch in args.batches:
        count = max(batch, (64 if batch == 1 else args.steps) // (DebateConfig().rounds - 1))
        questions = load_questions("relay", split="train", depth=(1, 2, 3, 4), limit=count)
        debates = Debates(pool, DebateConfig(observation=OBSERVATION))
        policy = WeightPolicy(PolicyConfig("graph", hidden=64, layers=2), OBSERVATION, debates.n)
        for cache in ("empty", "full"):
            figures = measure(debates, policy, questions, batch)
            columns = "".join(f"{x:>{w}.1f} " for x, w in zip(figures, (9, 9, 9, 13)))
            print(f"{batch:>6} {cache:>6} {columns}", flush=True)


if __name__ == "__main__":
    main()
