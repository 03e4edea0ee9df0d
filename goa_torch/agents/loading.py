"""Weights in memory: loaded once however many agents use them, placed on a device, freed with their last user."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import UserError, unknown
from . import grouped_attention
from .weights import Weights, resolve, without_progress_bars

_ATTENTION = {"full_attention", "sliding_attention", "chunked_attention"}
_DTYPES = ("auto", "float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Recipe:
    """What to load, how and where; fields as the arguments of :class:`goa_torch.agents.hf.HFModel`."""

    source: str
    revision: str | None = None
    gguf_file: str | None = None
    dtype: str = "auto"
    device: str = "auto"
    trust_remote_code: bool = False
    fallback_wheel: bool = True


@dataclass(eq=False)
class Loaded:
    """A model and its tokenizer in memory. ``lock`` is held while the model runs; ``scratch`` holds what its users
    share besides the weights."""

    module: Any
    tokenizer: Any
    weights: Weights
    dtype: str
    device: str
    lock: Any = field(default_factory=threading.RLock)
    scratch: dict[Any, Any] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        kind = self.device.split(":")[0]
        return f"{self.weights.identity}|{self.dtype}|{kind}"


_loaded: weakref.WeakValueDictionary[tuple, Loaded] = weakref.WeakValueDictionary()
_guard = threading.Lock()


def load(recipe: Recipe) -> Loaded:
    """The model of ``recipe``: the one in memory if there is one, else loaded (by one thread, the others wait).

    Models are told apart by what their files hold, so two names of the same weights share them.
    """
    with _guard:
        if recipe.dtype not in _DTYPES:
            raise unknown("dtype", recipe.dtype, _DTYPES, f"model {recipe.source!r}")
        _check_device(recipe)
        weights = resolve(recipe.source, recipe.revision, recipe.gguf_file, recipe.trust_remote_code,
                          recipe.fallback_wheel)
        key = (weights.identity, recipe.dtype, recipe.device, recipe.trust_remote_code)
        loaded = _loaded.get(key)
        if loaded is None:
            loaded = _loaded[key] = _load(recipe, weights)
        return loaded


def _load(recipe: Recipe, weights: Weights) -> Loaded:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    where = f"model {recipe.source!r}"
    options = {"trust_remote_code": recipe.trust_remote_code, "local_files_only": True}
    try:
        config = AutoConfig.from_pretrained(weights.folder, **options)
        check_causal(config, where)
        device = place(recipe.device, weights.folder)
        dtype = default_dtype(device) if recipe.dtype == "auto" else recipe.dtype
        tokenizer = AutoTokenizer.from_pretrained(weights.folder, **options)
        with without_progress_bars():
            module = AutoModelForCausalLM.from_pretrained(
                weights.folder, dtype=getattr(torch, dtype), use_safetensors=True,
                device_map="auto" if device == "shared" else {"": device}, **options)
    except UserError:
        raise
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise UserError(f"{where} cannot be loaded: {' '.join(str(error).split())[:300]}") from error
    except torch.OutOfMemoryError as error:
        raise UserError(f"{where} does not fit the memory of {device}; take another device or a smaller "
                        "model") from error
    module.eval().requires_grad_(False)
    if device == "cpu" and getattr(module.config, "_attn_implementation", None) == "sdpa":
        grouped_attention.register()
        module.set_attn_implementation(grouped_attention.NAME)
    return Loaded(module, tokenizer, weights, dtype, "cuda" if device == "shared" else device)


def check_causal(config: Any, where: str) -> None:
    """Raises :class:`UserError` unless ``config`` is that of a text-to-text causal language model with keys and
    values."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    names = list(getattr(config, "architectures", None) or [])
    kind = names[0] if names else config.model_type
    if getattr(config, "is_encoder_decoder", False):
        raise UserError(f"{where} is an encoder-decoder ({kind}); agents need a causal language model")
    causal = any(n.endswith(("ForCausalLM", "LMHeadModel")) for n in names) if names else \
        config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    if not causal:
        raise UserError(f"{where} is not a causal language model ({kind}); serve multimodal ones with an "
                        "OpenAI-compatible server and name that in the pool")
    states = set(getattr(config, "layer_types", None) or []) - _ATTENTION
    if states:
        raise UserError(f"{where} ({kind}) keeps recurrent states ({', '.join(sorted(states))}), which batches of rows "
                        "of different length cannot share; serve it with an OpenAI-compatible server and name that in "
                        "the pool")


def _check_device(recipe: Recipe) -> None:
    import torch

    if recipe.device == "auto":
        return
    where = f"model {recipe.source!r}: device {recipe.device!r}"
    try:
        device = torch.device(recipe.device)
    except RuntimeError as error:
        raise UserError(f"{where} is not a device; use auto, cpu, cuda, cuda:1, ...") from error
    if device.type == "cuda":
        count = torch.cuda.device_count()
        if (device.index or 0) >= count:
            raise UserError(f"{where}: this machine has {count} CUDA devices")


def place(device: str, folder: Path) -> str:
    """Where a model goes: ``device``, or for ``auto`` the GPU with most free memory (so that several models spread),
    ``shared`` (several GPUs, divided by accelerate) if it is too big for one, or the CPU."""
    import torch

    if device != "auto":
        return "cuda:0" if device == "cuda" else device
    if torch.cuda.is_available():
        free = [torch.cuda.mem_get_info(i)[0] for i in range(torch.cuda.device_count())]
        size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
        if size > 0.8 * max(free) and len(free) > 1:
            return "shared"
        return f"cuda:{free.index(max(free))}"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def default_dtype(device: str) -> str:
    """bfloat16 where the hardware computes in it (on CPUs that is 2.3 to 2.8 times as fast as float32), else
    float32."""
    import torch

    if device.startswith("cuda") or device == "shared":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    if device == "cpu":
        can = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
        return "bfloat16" if can.get("avx512_bf16") or can.get("amx_bf16") or can.get("bf16") else "float32"
    return "float32"
