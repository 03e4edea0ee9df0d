"""Tiny random models with real tokenizers, saved as Hugging Face folders: milliseconds a call, offline."""

from __future__ import annotations

from pathlib import Path

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TEXTS = ["What is the capital of France? Paris.", "Question: which number is prime? 4, 6, 7 or 9",
         "system user assistant", "The answer is B because rivers flow downhill.",
         "one two three four five six seven eight nine ten"]


def tiny_tokenizer(template: str | None = CHATML, extra: tuple[str, ...] = ()):
    """A byte-level BPE tokenizer with ChatML control tokens; ``extra`` are added as tokens that are not marked
    special."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=360, special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(TEXTS * 20, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>",
                                   model_max_length=512)
    if extra:
        fast.add_tokens(list(extra))
    fast.chat_template = template
    return fast


def tiny_config(kind: str = "llama", vocabulary: int = 360, **changes):
    """A config small enough that a forward pass takes a millisecond."""
    from transformers import AutoConfig

    sizes = dict(vocab_size=vocabulary, hidden_size=48, intermediate_size=96, num_hidden_layers=3,
                 num_attention_heads=4, num_key_value_heads=2, head_dim=12, max_position_embeddings=512,
                 bos_token_id=None, eos_token_id=2, pad_token_id=0)
    return AutoConfig.for_model(kind, **{**sizes, **changes})


def save_tiny(folder: Path, kind: str = "llama", seed: int = 0, template: str | None = CHATML,
              extra: tuple[str, ...] = (), **changes) -> Path:
    """Writes a random model with its tokenizer to ``folder`` and returns it."""
    import torch
    from transformers import AutoModelForCausalLM

    tokenizer = tiny_tokenizer(template, extra)
    config = tiny_config(kind, len(tokenizer), **changes)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config)
        for parameter in model.parameters():  # larger than usual, so that replies differ from prompt to prompt
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.15)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
