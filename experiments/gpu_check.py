"""Does it run on this machine's GPUs, and how fast? Graph-of-Agents and Mixture-of-Agents over a pool, in bfloat16.

    python experiments/gpu_check.py                        six models of 7-8B parameters (about 93 GB), if they are here
    python experiments/gpu_check.py --size 1b --models 2   smaller ones
    python experiments/gpu_check.py --size toy             seconds on a CPU

Models that are not in the local Hugging Face cache are stood in for by random weights of the same architecture and
size: speed and memory are those of the real ones, replies are noise. Judges that say noise cannot be read, so replies
are judged by drawn scores here (`--judges read` leaves them as they are). Prints calls, tokens a second, and memory.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from drawn_judge import DrawnJudge
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers import models as token_models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from goa_torch.agents.base import Agent
from goa_torch.agents.hf import HFModel
from goa_torch.agents.pool import Pool
from goa_torch.agents.prompts import PromptSet
from goa_torch.methods import build_method
from goa_torch.paths import models_folder
from goa_torch.tasks import load_questions
from goa_torch.types import Card, Result, Sampling, Usage

DOMAINS = ("general", "code", "math", "biomedical", "finance", "law")
#: hidden size, feed-forward size, layers, heads, key-value heads, vocabulary (beyond bytes: unused rows)
SIZES = {
    "toy": (64, 128, 2, 4, 2, 300), "135m": (576, 1536, 30, 9, 3, 49152), "1b": (2048, 8192, 16, 32, 8, 128256),
    "8b": (4096, 14336, 32, 32, 8, 128256),
}
TEMPLATE = ("{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}")


def random_model(folder: Path, size: str, seed: int, device: str) -> Path:
    """A Llama of ``size`` with random weights and a tokenizer of bytes, saved as a Hugging Face folder."""
    hidden, inner, layers, heads, kv_heads, vocabulary = SIZES[size]
    special = ["<|pad|>", "<|start|>", "<|end|>"]
    tokens = {t: i for i, t in enumerate(special + sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(token_models.BPE(vocab=tokens, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|pad|>",
                                   additional_special_tokens=["<|start|>"])
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    config = LlamaConfig(vocab_size=vocabulary, hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers,
                         num_attention_heads=heads, num_key_value_heads=kv_heads, max_position_embeddings=8192,
                         bos_token_id=1, eos_token_id=2, pad_token_id=0, dtype="bfloat16")
    with torch.random.fork_rng(devices=[]), torch.device(device):
        torch.manual_seed(seed)
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.bfloat16)
        try:
            model = LlamaForCausalLM(config)
        finally:
            torch.set_default_dtype(before)
    model.save_pretrained(folder)
    return folder


def build_pool(arguments: argparse.Namespace, folder: Path) -> Pool:
    """Six agents over ``--models`` models; a model that is not in the local cache has random weights."""
    agents, models = [], []
    for number in range(arguments.models):
        source = arguments.sources[number] if number < len(arguments.sources) else None
        if source is None:
            started = time.perf_counter()
            build_on = "cuda" if torch.cuda.is_available() else "cpu"
            source = str(random_model(folder / f"random-{number}", arguments.size, number, build_on))
            print(f"model {number}: random weights, size {arguments.size}, {time.perf_counter() - started:.1f} s",
                  flush=True)
        model = HFModel(source, dtype="bfloat16", device=arguments.device)
        models.append(model if arguments.judges == "read" else DrawnJudge(model))
    for number, domain in enumerate(DOMAINS):
        agents.append(Agent(domain, models[number % len(models)], Card(domain, size=arguments.size),
                            f"You are an expert in {domain}."))
    sampling = Sampling(max_new_tokens=arguments.max_new_tokens)
    short = Sampling(max_new_tokens=min(24, arguments.max_new_tokens))
    return Pool(agents, PromptSet(models_folder() / "prompts" / "default"), "general",
                {"answer": sampling, "pass": sampling, "readout": sampling, "select": short, "score": short},
                "gpu_check")


def memory() -> dict[str, float]:
    """Most memory used on each GPU so far, in GB."""
    return {f"cuda:{i}": torch.cuda.max_memory_allocated(i) / 1e9 for i in range(torch.cuda.device_count())}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=sorted(SIZES), default="8b", help="size of models with random weights")
    parser.add_argument("--models", type=int, default=6, help="different models in the pool, 1 to 6")
    parser.add_argument("--sources", nargs="*", default=[], help="hub ids or folders of real models to use first")
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument("--max-new-tokens", type=int, default=256)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--judges", choices=["drawn", "read"], default="drawn")
    parser.add_argument("--file", type=Path, default=Path(__file__).parent / "data" / "quickstart_mmlu.jsonl")
    parser.add_argument("--scratch", type=Path, help="folder for random weights (a temporary one by default)")
    parser.add_argument("--out", type=Path, help="where to keep the figures as JSON")
    arguments = parser.parse_args(argv)
    if not 1 <= arguments.models <= 6:
        parser.error("--models must be between 1 and 6")
    questions = load_questions("mmlu", file=arguments.file, limit=arguments.questions, seed=0)
    figures: dict[str, object] = {"size": arguments.size, "models": arguments.models, "questions": len(questions)}
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as scratch:
        pool = build_pool(arguments, Path(scratch))
        started = time.perf_counter()
        pool.check()
        figures["loading_seconds"] = time.perf_counter() - started
        figures["devices"] = sorted({model.lane for model in pool.models})
        print(f"loaded in {figures['loading_seconds']:.1f} s on {', '.join(figures['devices'])}", flush=True)
        for name, settings in (("goa", {"k": 3}), ("goa", {"k": 3, "readout": "mean"}), ("moa", {"layers": 3})):
            label = " ".join([name, *(f"{k}={v}" for k, v in settings.items())])
            figures[label] = run(build_method(name, pool, **settings), questions, label)
    figures["peak_memory_gb"] = memory()
    print("peak memory:", ", ".join(f"{k} {v:.1f} GB" for k, v in memory().items()) or "no GPU")
    if arguments.out:
        arguments.out.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


def run(method: torch.nn.Module, questions: list, label: str) -> dict[str, float]:
    """Answers the questions and prints what it took."""
    started = time.perf_counter()
    results: list[Result] = method(questions)
    seconds = time.perf_counter() - started
    usage = sum((result.usage for result in results), Usage())
    failed = sum(call.error is not None for result in results for call in result.calls)
    figures = {"seconds": seconds, "calls": usage.calls, "calls_per_question": usage.calls / len(results),
               "failed_calls": failed, "prompt_tokens": usage.prompt_tokens, "cached_tokens": usage.cached_tokens,
               "new_tokens": usage.completion_tokens, "new_tokens_per_second": usage.completion_tokens / seconds,
               "tokens_per_second": usage.tokens / seconds}
    print(f"{label}: {usage.calls} calls ({figures['calls_per_question']:.1f} a question, {failed} failed) in "
          f"{seconds:.1f} s; {figures['new_tokens_per_second']:.0f} new tokens/s, "
          f"{figures['tokens_per_second']:.0f} tokens/s with prompts", flush=True)
    return figures


if __name__ == "__main__":
    sys.exit(main())
