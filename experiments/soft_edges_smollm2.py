"""How a language model's answer depends on how loudly it hears each peer, and what the gradient makes of it.

    python experiments/soft_edges_smollm2.py [key=value ...]        # settings: soft_edges_smollm2.yaml

Four planted peers, right with known probabilities, answer real multiple-choice questions; a frozen model reads them and
answers. For every (question, planting) the script finds

1. the gradient of log p(gold answer) in each edge weight, at weight 1, and how well its sign tells right messages from
   wrong ones;
2. dose-response: accuracy and likelihood of the gold answer with one source at each of ``weights``, the others at 1;
3. one weight for each source, learned by that gradient on some of the questions, tested on the rest against plain
   concatenation, nobody, and weights from the sources' accuracy on the training questions (no gradient).

The folder gets ``results.json`` and ``soft_edges.png``. The answer is the option of largest probability after
"Answer:", so that every answer can be read. Plantings are drawn anew for each question, so that questions are the unit:
intervals are bootstraps over questions, each the mean of its plantings, and differences are paired.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache

from goa_torch import load_pool, load_questions
from goa_torch.agents.hf import HFModel
from goa_torch.agents.pool import Pool
from goa_torch.bench.statistics import percentile_interval, resampled_means
from goa_torch.config import Place, override, read_yaml, typed
from goa_torch.errors import UserError
from goa_torch.nn.attention import enable_edge_weights, message_bias
from goa_torch.randomness import stream, uniforms
from goa_torch.types import Chat, Heard, Question, Span

HERE = Path(__file__).parent
LETTERS = "ABCDEFGHIJ"


@dataclass
class TrainSettings:
    """``share`` of the questions to train on; ``steps`` of Adam at ``lr``, ``batch`` plantings each."""

    share: float = 0.5
    steps: int = 24
    batch: int = 12
    lr: float = 0.25


@dataclass
class Settings:
    """See the YAML file."""

    pool: str = "smollm2"
    questions: dict[str, str] = field(default_factory=dict)
    max_tokens: int = 420
    sources: dict[str, float] = field(default_factory=dict)
    plants: int = 2
    weights: list[float] = field(default_factory=lambda: [0, 0.25, 0.5, 1, 2])
    scope: str = "receiver"
    train: TrainSettings = field(default_factory=TrainSettings)
    seed: int = 0
    out: str = "runs/soft_edges_smollm2"


@dataclass
class Planting:
    """A question with its messages: ``source[m]`` sent message m, ``right[s]`` says whether source s is right."""

    question: Question
    source: list[int]
    right: list[bool]
    ids: list[int] = field(default_factory=list)
    message: list[int] = field(default_factory=list)  # [tokens] number of the message, -1 for none
    read: list[tuple[Tensor, Tensor]] | None = None  # keys and values of what comes before the listener's own words


def planted(question: Question, number: int, reliability: Sequence[float], seed: int) -> tuple[Planting, list[str]]:
    """Who is right, what the others say instead, and who sits where: drawn from the stream of question and number."""
    lots = uniforms([stream(seed, "planted", question.id, number)], np.arange(3 * len(reliability))).reshape(3, -1)
    right = [bool(lot < p) for lot, p in zip(lots[0], reliability)]
    gold = LETTERS.index(question.gold)
    wrong = [place for place in range(len(question.choices)) if place != gold]
    said = [gold if good else wrong[int(lot * len(wrong))] for good, lot in zip(right, lots[1])]
    seats = np.argsort(lots[2]).tolist()
    texts = [f"{question.choices[said[s]]}\nAnswer: {LETTERS[said[s]]}" for s in seats]
    return Planting(question, seats, right), texts


class Listener:
    """A frozen model that hears messages as loudly as it is told.

    In scope ``receiver`` what comes before its own words does not depend on the weights: it is read once and kept.
    """

    def __init__(self, model: HFModel, pool: Pool, scope: str) -> None:
        self.model, self.pool, self.scope = model, pool, scope
        self.module = enable_edge_weights(model.module.eval()).requires_grad_(False)
        spelled = [model.chats.text_ids(f"Answer: {letter}") for letter in LETTERS]
        if len({tuple(ids[:-1]) for ids in spelled}) != 1:
            raise UserError(f"{model.name} does not spell 'Answer: X' with one token for X")
        self.before, self.letters = spelled[0][:-1], [ids[-1] for ids in spelled]

    def encode(self, case: Planting, texts: Sequence[str]) -> Planting:
        """Fills in the tokens of the prompt."""
        shown = [{"text": Span(text, sender=m, heard=Heard(1.0, self.scope)), "number": m + 1,  # type: ignore[arg-type]
                  "weight": 1.0, "relevance": None, "domain": "", "agent": f"peer {m + 1}"}
                 for m, text in enumerate(texts)]
        asked = case.question
        messages = self.pool.prompts.render("pass", {
            "agent": {"name": "listener", "card": "", "system": "", "domain": ""}, "own": None, "messages": shown,
            "question": {"text": Span(asked.text), "instruction": asked.reader.instruction, "category": "",
                         "choices": [Span(choice) for choice in asked.choices], "task": asked.task},
            "pool": self.pool.variables})
        prompt = self.model.encode(Chat(messages))
        case.ids = [*prompt.ids, *self.before]
        case.message = [*prompt.messages, *[-1] * len(self.before)]
        return case

    def log_p(self, case: Planting, weight: Tensor) -> Tensor:
        """[rows, options] log-probability of each option's letter; ``weight`` [rows, sources] is differentiable."""
        rows, options = weight.shape[0], len(case.question.choices)
        first = 1 + max(i for i, m in enumerate(case.message) if m >= 0) if self.scope == "receiver" else 0
        ids, cache = torch.tensor([case.ids]), None
        if first:
            if case.read is None:
                cache = DynamicCache(config=self.module.config)
                with torch.no_grad():
                    self.module(input_ids=ids[:, :first], cache=cache, use_cache=True, logits_to_keep=1)
                case.read = [(layer.keys, layer.values) for layer in cache.layers]
            cache = DynamicCache([(k.expand(rows, -1, -1, -1), v.expand(rows, -1, -1, -1)) for k, v in case.read])
        owner = torch.tensor(case.message)
        seat = torch.arange(rows)[:, None] * len(case.source) + owner  # [rows, tokens] number among all rows' messages
        loud = weight[:, case.source].flatten()  # [rows x messages]
        bias = message_bias(loud, torch.where(owner >= 0, seat, torch.full_like(seat, -1)))
        logits = self.module(input_ids=ids[:, first:].expand(rows, -1), edge_bias=bias, cache=cache,
                             use_cache=cache is not None, logits_to_keep=1).logits[:, -1]
        return logits.float().log_softmax(-1)[:, self.letters[:options]]


def judged(log_p: Tensor, case: Planting) -> tuple[Tensor, Tensor]:
    """[rows] whether the likeliest option is the gold one, and its probability among the options."""
    gold = LETTERS.index(case.question.gold)
    return (log_p.argmax(-1) == gold).double(), log_p.softmax(-1)[:, gold].double()


def train(listener: Listener, cases: Sequence[Planting], how: TrainSettings, sources: int, seed: int
          ) -> list[list[float]]:
    """One weight for each source, from 1, by the gradient of log p(gold); the weights after every step."""
    theta = torch.zeros(sources, requires_grad=True)  # log-weights: positive, and 1 at first
    optimizer, path = torch.optim.Adam([theta], lr=how.lr), [[1.0] * sources]
    for step in range(how.steps):
        lots = uniforms([stream(seed, "batch", step)], np.arange(len(cases)))
        chosen = [cases[i] for i in np.argsort(lots)[: how.batch]]
        optimizer.zero_grad()
        for case in chosen:
            log_p = listener.log_p(case, theta.exp()[None])[0]
            (-log_p[LETTERS.index(case.question.gold)] / len(chosen)).backward()
        optimizer.step()
        path.append(theta.detach().exp().tolist())
    return path


def auroc(score: np.ndarray, right: np.ndarray) -> float:
    """Probability that a right message has a larger gradient than a wrong one (ties count half)."""
    good, bad = score[right][:, None], score[~right][None]
    return float(((good > bad) + 0.5 * (good == bad)).mean()) if good.size and bad.size else float("nan")


def interval(values: np.ndarray) -> list[float]:
    """Mean of [questions, plantings] with its 95% interval over questions."""
    return [float(values.mean()), *percentile_interval(resampled_means([values.mean(1)])[:, 0])]


def draw(figures: dict[str, Any], names: Sequence[str], path: Path) -> None:
    """What each source's weight does to accuracy and to the probability of the gold answer, and the weights over
    training."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 3)
    for axes, measure, label in zip(panels, ("accuracy", "p_gold"), ("accuracy", "p(gold answer)")):
        for name in names:
            dose = figures["dose_response"][name]
            mean, low, high = 100 * np.array([point[f"{measure}_minus_plain"] for point in dose]).T
            at = [point["weight"] for point in dose]
            [line] = axes.plot(at, mean, "o-", markersize=4, label=f"{name} ({figures['sources'][name]:.0%} right)")
            axes.fill_between(at, low, high, color=line.get_color(), alpha=0.12, linewidth=0)
        axes.axhline(0, color="0.8", linewidth=1, zorder=0)
        axes.set(xlabel="weight of this source (the others at 1)", ylabel=f"{label}, points above all weights 1")
    panels[0].legend(fontsize=8, frameon=False)
    for place, name in enumerate(names):
        panels[2].plot([weights[place] for weights in figures["training"]], label=name)
    panels[2].axhline(1, color="0.8", linewidth=1, zorder=0)
    panels[2].set(xlabel="training step", ylabel="learned weight")
    figure.savefig(path, dpi=130)


def main(overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Runs the experiment and returns its figures."""
    place = Place(HERE / "soft_edges_smollm2.yaml")
    config = typed(Settings, override(read_yaml(place.file), overrides), place)
    if config.scope not in ("all", "receiver") or config.plants < 1 or len(config.sources) < 2:
        raise UserError(f"{place}: scope is 'all' or 'receiver', plants at least 1, and there are at least two sources")
    started, names, reliability = time.perf_counter(), list(config.sources), list(config.sources.values())
    pool = load_pool(config.pool)
    source = pool.meta.model
    if not isinstance(source, HFModel):
        raise UserError(f"{place / 'pool'}: the meta-LLM of {config.pool!r} is no model in process")
    listener = Listener(HFModel(source.recipe.source, dtype="float32"), pool, config.scope)
    file = HERE / config.questions["file"] if "file" in config.questions else None
    questions = load_questions(config.questions.get("task", "file"), file=file)
    grid = [[listener.encode(*planted(question, number, reliability, config.seed)) for number in range(config.plants)]
            for question in questions]
    short = [row for row in grid if max(len(case.ids) for case in row) <= config.max_tokens]
    cut = round(config.train.share * len(short))
    lots = uniforms([stream(config.seed, "split")], np.arange(len(short)))
    order = np.argsort(lots).tolist()
    learn, test = [short[i] for i in order[:cut]], [short[i] for i in order[cut:]]
    if not learn or not test:
        raise UserError(f"{place}: {len(short)} questions are short enough; there must be some to train on and to test")
    print(f"{len(short)} questions of {len(questions)} ({len(questions) - len(short)} too long), {config.plants} "
          f"plantings each; {len(learn)} to train on, {len(test)} to test on", flush=True)
    figures: dict[str, Any] = {
        "settings": asdict(config), "sources": config.sources, "left_out": len(questions) - len(short),
        "train_questions": len(learn), "test_questions": len(test)}

    slopes, right = [], []
    for case in (case for row in short for case in row):
        weight = torch.ones(1, len(names), requires_grad=True)
        listener.log_p(case, weight)[0, LETTERS.index(case.question.gold)].backward()
        slopes.append(weight.grad[0].numpy())
        right.append(case.right)
    slope, good = np.array(slopes), np.array(right)
    figures["gradient"] = {"auroc": auroc(slope.ravel(), good.ravel()),
                           "positive_if_right": float((slope[good] > 0).mean()),
                           "positive_if_wrong": float((slope[~good] > 0).mean()),
                           "mean_by_source": dict(zip(names, slope.mean(0).tolist()))}
    print(f"gradients: {json.dumps(figures['gradient'])}; {time.perf_counter() - started:.0f} s", flush=True)

    figures["training"] = train(listener, [c for row in learn for c in row], config.train, len(names), config.seed)
    learned = figures["training"][-1]
    measured = np.mean([case.right for row in learn for case in row], axis=0)  # of messages on training questions
    best = [float(s == int(measured.argmax())) for s in range(len(names))]
    ways = {"plain": [1.0] * len(names), "nobody": [0.0] * len(names), "learned": learned,
            "reliability": (2 * measured).tolist(), "best source alone": best}
    print(f"learned: {dict(zip(names, learned))}; {time.perf_counter() - started:.0f} s", flush=True)

    doses = [[value if s == place else 1.0 for s in range(len(names))]
             for place in range(len(names)) for value in config.weights]
    every = torch.tensor([*ways.values(), *doses])
    accuracy, p_gold = np.zeros((2, len(every), len(test), config.plants))
    for i, row in enumerate(test):
        for j, case in enumerate(row):
            with torch.no_grad():
                accuracy[:, i, j], p_gold[:, i, j] = judged(listener.log_p(case, every), case)
    found = [{"accuracy": interval(right), "p_gold": interval(p), "accuracy_minus_plain": interval(right - accuracy[0]),
              "p_gold_minus_plain": interval(p - p_gold[0])} for right, p in zip(accuracy, p_gold)]
    figures["ways"] = {name: {"weights": dict(zip(names, weights)), **told}
                       for (name, weights), told in zip(ways.items(), found)}
    figures["dose_response"] = {name: [
        {"weight": value, **found[row]}
        for row, value in enumerate(config.weights, len(ways) + place * len(config.weights))]
        for place, name in enumerate(names)}
    figures["outcomes"] = {"weights": every.tolist(), "accuracy": accuracy.tolist(), "p_gold": p_gold.tolist()}
    figures["seconds"] = time.perf_counter() - started
    out = Path(config.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    draw(figures, names, out / "soft_edges.png")
    show(figures)
    return figures


def show(figures: dict[str, Any]) -> None:
    """The comparison as a table."""
    print(f"\n{'weights':20} accuracy % [95%]       minus plain           p(gold) %   minus plain")
    for name, way in figures["ways"].items():
        numbers = ["{:5.1f} [{:+.1f}, {:+.1f}]".format(*(100 * x for x in way[key])) for key in (
            "accuracy", "accuracy_minus_plain", "p_gold", "p_gold_minus_plain")]
        print(f"{name:20} {'   '.join(numbers)}")
    print(f"{figures['seconds']:.0f} s")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(str(error))
