"""Is random routing good, and why? Theory beside simulation, then what agents make of it (see why_random.yaml).

    python experiments/why_random.py --quick           one seed, 60 questions a depth: about 20 minutes on two cores
    python experiments/why_random.py                   five seeds, 200 questions a depth: hours; resumable
    python experiments/why_random.py --theory          no agents at all: two minutes
    python experiments/why_random.py --also runs/main_table/chain    how fast news travels over recorded graphs

Of the folder, `theory.json` and `theory.png` hold hops, reach and mixing of each rule from 8 to 100,000 agents; `chain`
(six specialists), `mixed` (with two generalists) and `redundant` (eight of them) are runs of `goa bench`, `size_N` runs
of N agents of whom three are needed; `answer.json` and `measured.png` are what they come to: accuracy after every round
beside the share of questions whose work could arrive.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import why_random_plots as plots

from goa_torch import load_pool, load_questions
from goa_torch.agents.base import Agent
from goa_torch.agents.pool import Pool
from goa_torch.analysis import reached, theory
from goa_torch.analysis.graph import AgentGraph, as_graph, mean_graph, rounds_of
from goa_torch.analysis.hypothetical import random_peers_graph, ring_graph, small_world_peers_graph
from goa_torch.analysis.mixing import disagreement
from goa_torch.analysis.paths import Estimate
from goa_torch.analysis.reach import complete
from goa_torch.analysis.spectra import spectral_gap
from goa_torch.analysis.temporal import temporal_reach
from goa_torch.analysis.travel import chain_rounds, in_time
from goa_torch.bench import run_experiment
from goa_torch.bench.statistics import percentile_interval, resampled_means
from goa_torch.bench.store import Item, RunFolder
from goa_torch.errors import UserError
from goa_torch.methods.ceiling import skills_of
from goa_torch.methods.trajectory import Trajectory

HERE = Path(__file__).parent
SIZES = (8, 16, 32, 64, 128, 512, 2048, 8192, 32768, 100_000)
RULES = ("random anew", "random fixed", "small world", "ring", "full")
NEEDED = ("code", "finance", "math")
#: Pool and depths of each regime.
REGIMES = {"chain": ("relay", (2, 3, 4)), "mixed": ("pools/relay_chain8.yaml", (1, 2, 3, 4)),
           "redundant": ("relay_redundant", (1, 2))}
#: Where the three experts stand among N: their mean distance on the ring is that of agents drawn at random, N / 4.
PLACES = {8: (0, 1, 3), 16: (0, 2, 6), 32: (0, 4, 12)}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Runs what is missing; returns what `answer.json` says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs") / "why_random")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--theory", action="store_true", help="nothing but theory and simulation")
    parser.add_argument("--read", action="store_true", help="no calls: what the runs that are there come to")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of agents to simulate")
    parser.add_argument("--limit", type=int, default=None, help="questions a depth (200; 60 with --quick)")
    parser.add_argument("--seeds", type=int, default=None, help="seeds (5; 1 with --quick)")
    parser.add_argument("--also", type=Path, nargs="*", default=[], help="run folders whose graphs are looked at")
    asked = parser.parse_args(arguments)
    limit, seeds = asked.limit or (60 if asked.quick else 200), asked.seeds or (1 if asked.quick else 5)
    asked.out.mkdir(parents=True, exist_ok=True)
    known = asked.out / "theory.json"
    rows = json.loads(known.read_text()) if known.is_file() else []
    if {row["n"] for row in rows} != set(asked.sizes):
        rows = simulated(asked.sizes)
        known.write_text(json.dumps(rows, indent=1) + "\n")
    (asked.out / "theory.png").write_bytes(plots.draw_theory(rows))
    show_theory(rows)
    answer: dict[str, Any] = {}
    if not asked.theory:
        answer |= measured(asked.out, limit, list(range(seeds)), asked.read)
        (asked.out / "measured.png").write_bytes(plots.draw_measured(answer))
        show(answer)
    answer["recorded"] = [line for folder in asked.also for line in recorded(folder)]
    for line in answer["recorded"]:
        print("  ".join(f"{key} {x:.3g}" if isinstance(x, float) else f"{x}" for key, x in line.items()))
    (asked.out / "answer.json").write_text(json.dumps(answer, indent=1) + "\n")
    return answer


def graphs_of(rule: str, n: int, seed: int) -> Iterator[AgentGraph]:
    """The graphs of a rule of in-degree 2, round after round."""
    if rule in ("random anew", "small world"):
        draw = random_peers_graph if rule == "random anew" else small_world_peers_graph
        return (draw(n, 2, seed, t) for t in itertools.count(1))
    static = {"ring": lambda: ring_graph(n), "random fixed": lambda: random_peers_graph(n, 2, seed),
              "full": lambda: as_graph(complete(n).astype(float))}
    return itertools.repeat(static[rule]())


def simulated(sizes: Sequence[int], seeds: int = 8, chains: int = 32) -> list[dict[str, Any]]:
    """For each rule and number of agents: rounds of a hop (news of one agent to another one), rounds until all have
    heard from all, and the factor by which disagreement shrinks, each beside theory. Long rings and large complete
    graphs are not simulated: there theory is exact."""
    rows = []
    for n, rule in itertools.product(sizes, RULES):
        said = in_theory(rule, n)
        exact = (rule == "ring" and n > 512) or (rule == "full" and n > 512)
        values: dict[str, list[float]] = {"hop": [], "everyone": [], "factor": [], "never": []}
        for seed in range(0 if exact else seeds if n <= 2048 else max(2, seeds // 2)):
            rng = np.random.default_rng([n, seed])
            pairs = np.stack([rng.permutation(n)[:2] for _ in range(chains)])
            rounds = chain_rounds(graphs_of(rule, n, seed), pairs, max_rounds=n if rule == "ring" else 60)
            values["never"].append(float(np.isinf(rounds).mean()))
            values["hop"].append(float(rounds[np.isfinite(rounds)].mean()))
            if n <= 2048 and rule != "random fixed":
                values["everyone"].append(temporal_reach(graphs_of(rule, n, seed), n, exact=n).everyone)
            if rule != "ring":
                left = disagreement(itertools.islice(graphs_of(rule, n, seed), 20), rng.normal(size=(n, 4)))
                values["factor"].append(float((left[-1] / left[-11]) ** 0.1) if left[-11] > 1e-9 else 0.0)
        for measure, found in values.items():
            estimate = Estimate.mean_of(np.array(found), 10**9) if found else None
            rows.append({"rule": rule, "n": n, "measure": measure, "theory": said.get(measure),
                         **({} if estimate is None else {"value": estimate.value, "low": estimate.low,
                                                         "high": estimate.high})})
    return rows


def in_theory(rule: str, n: int) -> dict[str, float]:
    """What :mod:`goa_torch.analysis.theory` says of a rule."""
    if rule == "ring":
        return {"hop": theory.ring_hop(n), "everyone": theory.ring_reach(n), "factor": theory.ring_factor(n)}
    if rule == "random anew":
        return {"hop": theory.random_hop(n), "everyone": theory.random_reach(n), "factor": theory.random_factor(n)}
    large = n >= 64  # what holds for many agents alone
    if rule == "small world":
        factor = {"factor": theory.small_world_factor()} if large else {}
        return {"everyone": theory.small_world_reach(n), **factor}
    if rule == "random fixed":
        return {"factor": theory.fixed_random_factor()} if large else {}
    return {"hop": 1.0, "everyone": 1.0, "factor": 0.0}


def show_theory(rows: Sequence[dict[str, Any]]) -> None:
    """The simulation as a table."""
    found = {(row["rule"], row["n"], row["measure"]): row for row in rows}
    print(f"{'agents':>8} {'rule':13} rounds a hop (theory)   all heard from all (theory)   factor a round (theory)   "
          "never arrives")
    for rule, n in dict.fromkeys((row["rule"], row["n"]) for row in rows):
        cells = []
        for measure in ("hop", "everyone", "factor"):
            row = found[rule, n, measure]
            value, said = ("-" if x is None else f"{x:.4g}" for x in (row.get("value"), row["theory"]))
            cells.append(f"{value:>10} ({said})")
        never = found[rule, n, "never"].get("value")
        print(f"{n:8,} {rule:13} {cells[0]:23} {cells[1]:28} {cells[2]:24} {'' if never is None else f'{never:8.0%}'}")


def measured(out: Path, limit: int, seeds: list[int], read: bool = False) -> dict[str, Any]:
    """Runs the agents (or not, if ``read``) and reads what came out."""
    file = HERE / "why_random.yaml"
    answer: dict[str, Any] = {"explained": {}}
    for regime, (name, depths) in REGIMES.items():
        pool = load_pool(HERE / name if name.endswith(".yaml") else name)
        tasks = [{"name": "relay", "label": f"depth {d}", "limit": limit, "settings": {"depth": d}} for d in depths]
        if not read:
            run_experiment(file, [f"pool={name}", f"tasks={json.dumps(tasks)}"], limit, seeds, out / regime)
        if not (out / regime).is_dir():
            continue
        outcomes = outcomes_of(out / regime, pool)
        answer[regime] = horizons_of(outcomes)
        if regime != "redundant":
            answer["explained"][regime] = explained(outcomes)
    answer["size"] = run_sizes(out, limit, seeds, read)
    return answer


def run_sizes(out: Path, limit: int, seeds: list[int], read: bool = False) -> dict[int, list[dict[str, Any]]]:
    """Runs pools of N agents of whom three are needed."""
    file, found = HERE / "why_random.yaml", {}
    task = [{"name": "relay", "label": "depths 2 and 3", "limit": limit // 2,  # large pools make many calls
             "settings": {"depth": [2, 3], "domains": list(NEEDED)}}]
    rules = [{"name": name, "n": None, "rounds": 12, "label": label} for name, label in (
        ("random_nodup", "random anew"), ("ring_mad", "ring"), ("small_world", "small world"))]
    for n in PLACES:
        pool, folder = planted(load_pool("relay"), n), out / f"size_{n}"
        if not read:
            run_experiment(file, [f"pool=planted{n}", f"tasks={json.dumps(task)}", f"methods={json.dumps(rules)}"],
                           limit // 2, seeds, folder, pools={f"planted{n}": pool})
        if not folder.is_dir():
            continue
        found[n] = horizons_of(outcomes_of(folder, pool))
    return found


def planted(base: Pool, n: int) -> Pool:
    """A pool of n agents of whom three are needed, one for each domain of NEEDED; the others copy."""
    others = itertools.cycle([agent for agent in base.agents if agent.card.domain not in NEEDED])
    experts = dict(zip(PLACES[n], (base[name] for name in NEEDED), strict=True))
    agents = []
    for place in range(n):
        agent = experts.get(place) or next(others)
        name = agent.name if place in experts else f"{agent.name}{place}"
        agents.append(Agent(name, agent.model, agent.card, agent.system))
    return Pool(agents, base.prompts, base.meta, base.sampling, f"planted{n}", base.variables, base.judging)


def lines_of(folder: Path) -> Iterator[tuple[dict[str, Any], Any]]:
    """The latest line of each item of a run, and its question."""
    run = RunFolder(folder)
    config = run.read_config()
    if config is None:
        raise UserError(f"{folder} is not a run folder of goa bench")
    asked = {task["label"]: {q.id: q for q in load_questions(
        task["name"], split=task["split"], limit=task["limit"], seed=task["seed"], **task["settings"])}
        for task in config["tasks"] if task["name"] == "relay"}
    last = {Item.of(line): number for number, line in enumerate(run.results)}
    for number, line in enumerate(run.results):
        if line["part"] == "test" and line["task"] in asked and last[Item.of(line)] == number:
            yield line, asked[line["task"]][line["question"]]


def experts_of(pool: Pool) -> dict[str, tuple[str, ...]]:
    """Domains of each agent, by name. Where there are specialists, generalists count as passing on alone: they do a
    layer less often than specialists, and reach is to say whether the work could go the right way."""
    skills = {agent.name: skills_of(agent) for agent in pool.agents}
    if any(len(mine) == 1 for mine in skills.values()):
        skills = {name: mine if len(mine) == 1 else () for name, mine in skills.items()}
    return skills


def outcomes_of(folder: Path, pool: Pool) -> list[dict[str, Any]]:
    """One row for each line and each round at which it could have ended."""
    skills, rows = experts_of(pool), []
    for line, question in lines_of(folder):
        told = Trajectory.recorded(question, line["trace"], line["calls"], line["seed"])
        there = in_time(line["trace"], question.metadata["domains"], skills)
        for t, replies in enumerate(told.history):
            answers = [reply.answer for reply in replies]
            given = [answer for answer in answers if answer is not None]
            commonest = max(map(given.count, given), default=0)
            rows.append({"method": line["method"], "depth": question.metadata["depth"], "rounds": t + 1,
                         "question": line["question"], "seed": line["seed"], "right": told.at(t).correct,
                         "reached": bool(there[min(t, len(there) - 1)]), "agree": commonest / len(answers),
                         "somebody": any(question.is_correct(answer) for answer in answers)})
    return rows


def horizons_of(outcomes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Accuracy, reach and agreement of each rule at each depth after each round, with the difference to random peers
    drawn anew (paired, 95% intervals)."""
    table: dict[tuple[str, int, int], dict[tuple[str, int], dict[str, Any]]] = {}
    for row in outcomes:
        table.setdefault((row["method"], row["depth"], row["rounds"]), {})[row["question"], row["seed"]] = row
    found = []
    for (method, depth, rounds), cell in table.items():
        base = table["random anew", depth, rounds]
        keys = sorted(set(cell) & set(base))
        seeds = sorted({seed for _, seed in keys})
        shape = (len(keys) // len(seeds), len(seeds))
        right, other = (np.array([side[key]["right"] for key in keys], float).reshape(shape) for side in (cell, base))
        means = resampled_means([right, right - other], 2000, name=f"depth {depth}")
        found.append({
            "method": method, "depth": depth, "rounds": rounds, "accuracy": float(right.mean()),
            "interval": list(percentile_interval(means[:, 0])), "difference": float((right - other).mean()),
            "difference_interval": list(percentile_interval(means[:, 1])),
            **{key: float(np.mean([cell[k][key] for k in keys])) for key in ("reached", "agree", "somebody")}})
    return found


def explained(outcomes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Whether reach explains accuracy: over cells (rule x depth x rounds, two rounds and more), within each depth, and
    as the effect of what chance drew."""
    rows = [row for row in outcomes if row["rounds"] > 1 and row["method"] != "alone"]
    cells = sorted({(row["method"], row["depth"], row["rounds"]) for row in rows})
    questions = sorted({(row["depth"], row["question"]) for row in rows})
    table = reached.Outcomes(
        np.array([cells.index((row["method"], row["depth"], row["rounds"])) for row in rows]),
        np.array([row["depth"] for row in rows]),
        np.array([questions.index((row["depth"], row["question"])) for row in rows]),
        np.array([row["right"] for row in rows]), np.array([row["reached"] for row in rows]))
    drawn = np.array([row["method"] in ("random anew", "random fixed", "small world") for row in rows])
    found = {"correlation": reached.reach_correlation(table), "effect": reached.reach_effect(table.only(drawn))}
    for depth in sorted({depth for _, depth, _ in cells if depth > 1}):
        here = table.only(table.stratum == depth)
        found[f"correlation, depth {depth}"] = reached.reach_correlation(here)
        found[f"effect, depth {depth}"] = reached.reach_effect(table.only(drawn & (table.stratum == depth)))
    for name, arrived in (("right if it could arrive", True), ("right if it could not", False)):
        rows_here = table.right[(table.reached == arrived) & (table.stratum > 1)]
        found[name] = Estimate.exact(float(rows_here.mean()) if len(rows_here) else float("nan"))
    return {name: [estimate.value, estimate.low, estimate.high] for name, estimate in found.items()}


def recorded(folder: Path) -> Iterator[dict[str, Any]]:
    """How fast news travels over the graphs of each method of a run, and how well its mean graph mixes."""
    graphs: dict[str, list[list[AgentGraph]]] = {}
    for line, _ in lines_of(folder):
        if talked := rounds_of(line["trace"]):
            graphs.setdefault(line["method"], []).append(talked)
    for method, runs in graphs.items():
        runs = [run for run in runs if run[0].n == max(graph[0].n for graph in runs)][:200]
        shares = [temporal_reach(run).share for run in runs]
        last = [share[min(t, len(share) - 1)] for t in (1, 2, 3) for share in shares]
        reach = np.array(last).reshape(3, len(shares)).mean(axis=1)
        gaps = [1 - spectral_gap(mean_graph(run), self_weight=1.0).value for run in runs[:50]]
        heard = float(np.mean([graph.num_edges / graph.n for run in runs for graph in run]))
        yield {"run": folder.name, "method": method, "agents": runs[0][0].n, "heard": heard,
               **{f"reach {t}": float(share) for t, share in zip((1, 2, 3), reach)}, "factor": float(np.mean(gaps))}


def show(answer: dict[str, Any]) -> None:
    """The answer as tables."""
    for regime in (regime for regime in REGIMES if regime in answer):
        print(f"\n{regime}: accuracy % [95%] (questions whose work could arrive %), difference to random anew")
        for row in answer[regime]:
            if row["rounds"] in (2, 4, 8) and row["depth"] > (0 if regime == "redundant" else 1):
                print(f"depth {row['depth']}, {row['rounds']} rounds  {row['method']:13} {plots.percent(row)}")
    print("\nof N agents three are needed, depths 2 and 3")
    for n, rows in answer["size"].items():
        for row in (row for row in rows if row["rounds"] in (4, 8, 12)):
            where = f"N = {n:3}, depth {row['depth']}, {row['rounds']:2} rounds"
            print(f"{where}  {row['method']:13} {plots.percent(row)}")
    for regime, found in answer["explained"].items():
        print(f"\ndoes reach explain accuracy ({regime})?")
        for name, (value, low, high) in found.items():
            print(f"{name:28} {value:.3f} [{low:.3f}, {high:.3f}]")


if __name__ == "__main__":
    main()
