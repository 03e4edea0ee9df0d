"""Attention as two matrix products: the numbers of Hugging Face's eager attention, and what is left to others."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import save_tiny

from goa_torch.agents import grouped_attention
from goa_torch.agents.grouped_attention import grouped_matmul_attention
from goa_torch.agents.loading import Recipe, load


def plain(query, key, value, mask):
    groups = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(groups, dim=1) for x in (key, value))
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    return ((scores + mask).softmax(dim=-1) @ value).transpose(1, 2)


@settings(deadline=None, max_examples=40)
@given(rows=st.integers(1, 3), groups=st.integers(1, 3), heads=st.integers(1, 3), queries=st.integers(1, 5),
       past=st.integers(0, 6), seed=st.integers(0, 99))
def test_it_is_attention(rows, groups, heads, queries, past, seed):
    draw = torch.Generator().manual_seed(seed)
    query = torch.randn(rows, groups * heads, queries, 8, generator=draw)
    key, value = (torch.randn(rows, groups, past + queries, 8, generator=draw) for _ in range(2))
    mask = torch.zeros(rows, 1, queries, past + queries)
    mask.masked_fill_(torch.ones(queries, past + queries).triu(past + 1).bool(), torch.finfo(torch.float32).min)
    mask[0, :, :, :past] = torch.finfo(torch.float32).min  # a padded row
    module = SimpleNamespace(num_key_value_groups=heads, is_causal=True)
    got, weights = grouped_matmul_attention(module, query, key, value, mask)
    assert weights is None and got.is_contiguous()
    torch.testing.assert_close(got, plain(query, key, value, mask), atol=1e-5, rtol=1e-5)


def test_what_is_too_long_or_has_no_mask_is_left_to_the_fused_kernel(monkeypatch):
    query, key = torch.randn(1, 4, 6, 8), torch.randn(1, 2, 6, 8)
    module = SimpleNamespace(num_key_value_groups=2, is_causal=True)
    causal = torch.zeros(1, 1, 6, 6).masked_fill_(torch.ones(6, 6).triu(1).bool(), -torch.inf)
    wanted = plain(query, key, key, causal)
    torch.testing.assert_close(grouped_matmul_attention(module, query, key, key, None)[0], wanted, atol=1e-5, rtol=1e-5)
    monkeypatch.setattr(grouped_attention, "MOST_SCORES", 10)
    monkeypatch.setattr(torch, "matmul", None)
    torch.testing.assert_close(grouped_matmul_attention(module, query, key, key, causal)[0], wanted, atol=1e-5,
                               rtol=1e-5)


@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen3"])
def test_models_on_a_cpu_use_it_and_say_the_same(tmp_path, kind):
    folder = save_tiny(tmp_path, kind, **({"sliding_window": 4} if kind == "mistral" else {}))
    module = load(Recipe(str(folder), dtype="float32", device="cpu")).module
    assert module.config._attn_implementation == grouped_attention.NAME
    ids, mask = torch.arange(3, 27).view(2, 12), torch.ones(2, 12, dtype=torch.long)
    mask[1, :5] = 0
    ours = module(input_ids=ids, attention_mask=mask).logits
    module.set_attn_implementation("eager")
    theirs = module(input_ids=ids, attention_mask=mask).logits
    torch.testing.assert_close(ours[mask.bool()], theirs[mask.bool()], atol=1e-4, rtol=1e-4)
