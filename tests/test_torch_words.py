"""The words on tensors, against arithmetic written out by hand."""

from __future__ import annotations

import cmath
import math

import pytest
import torch
from tiny import tiny
from torch import Tensor
from torch_help import normal, perturbed, source, tokens
from transformers.activations import ACT2FN, XIELUActivation
from transformers.models.bloom.modeling_bloom import bloom_gelu_forward

from archspec.exporters.torch.module import build
from archspec.exporters.torch.places import Places
from archspec.exporters.torch.tables import Tables
from archspec.exporters.torch.words import ACTIVATIONS, TorchRun
from archspec.ops.words import Activation, Mask, Rope, Scores, Sinusoid

CPU = torch.device("cpu")


def run(length: int, mask: Tensor | None = None, tables: Tables | None = None, **options: Tensor | bool) -> TorchRun:
    places = Places(length, CPU, mask=None if mask is None else mask > 0)
    return TorchRun(tables or {}, {"tokens": places}, **options)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------ block and norms


def layer_norm(x: Tensor, eps: float) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / ((x - mean).pow(2).mean(-1, keepdim=True) + eps).sqrt()


def silent(name: str) -> torch.nn.Module:
    """The first layer of a model all of whose linears are zero."""
    net = build(tiny(name), dtype="float64")
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, torch.nn.Linear):
                for p in module.parameters():
                    p.zero_()
    return net.get_submodule(f"{net.op.main[0]}.layers.0")


@pytest.mark.parametrize("name", ["gpt2", "llama", "sandwich", "parallel"])
def test_a_silent_pre_norm_layer_is_the_identity(name: str) -> None:
    x = normal(2, 5, 32)
    tables = build(tiny(name), dtype="float64").tables
    assert torch.equal(silent(name)(run(5, tables=tables), x), x)


def test_a_silent_post_norm_layer_is_its_norms() -> None:
    x = normal(2, 5, 32)
    want = layer_norm(layer_norm(x, 1e-12), 1e-12)
    torch.testing.assert_close(silent("bert")(run(5), x), want, atol=1e-12, rtol=0)


def test_a_pre_norm_layer_adds_to_its_input_and_not_to_the_normed_one() -> None:
    layer = perturbed("gpt2").get_submodule("decoder.layers.0")
    x = normal(1, 1, 32)  # one token attends to itself: attention is o(v(norm x))
    norm = layer.attention_input_norm
    h = layer_norm(x, 1e-5) * norm.weight + norm.bias
    x1 = x + layer.attention.o(layer.attention.v(h))
    norm = layer.ffn_input_norm
    up = layer.ffn.up(layer_norm(x1, 1e-5) * norm.weight + norm.bias)
    gelu = 0.5 * up * (1 + torch.tanh(math.sqrt(2 / math.pi) * (up + 0.044715 * up**3)))
    torch.testing.assert_close(layer(run(1), x), x1 + layer.ffn.down(gelu), atol=1e-12, rtol=0)


def test_norms_by_hand() -> None:
    t, x, w, b = run(1), normal(2, 3, 8), normal(8, seed=1), normal(8, seed=2)
    mean, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
    root = (x.pow(2).mean(-1, keepdim=True) + 0.1).sqrt()
    close = {"atol": 1e-12, "rtol": 0}
    torch.testing.assert_close(t.rms_norm(x, w, 0.1, 0.0), x / root * w, **close)
    torch.testing.assert_close(t.rms_norm(x, w, 0.1, 1.0), x / root * (1 + w), **close)
    torch.testing.assert_close(t.rms_norm(x, None, 0.1, 0.0), x / root, **close)
    torch.testing.assert_close(t.layer_norm(x, w, b, 0.1, 0.0, False), (x - mean) / (var + 0.1).sqrt() * w + b, **close)
    torch.testing.assert_close(
        t.layer_norm(x, w, b, 0.1, 1.0, True), (x - mean) / (var.sqrt() + 0.1) * (1 + w) + b, **close
    )
    torch.testing.assert_close(t.l2_norm(x, 1e-12), x / x.pow(2).sum(-1, keepdim=True).sqrt(), **close)
    each = normal(3, 1, 8, seed=3)
    heads = normal(2, 3, 4, 8)
    want = heads / (heads.pow(2).mean(-1, keepdim=True) + 0.1).sqrt() * each
    torch.testing.assert_close(t.rms_norm(heads, each, 0.1, 0.0), want, **close)


def test_a_norms_bias_for_each_head_needs_no_weight() -> None:
    x, b = normal(2, 3, 4, 8), normal(3, 1, 8, seed=1)
    torch.testing.assert_close(
        run(1).layer_norm(x, None, b, 0.1, 0.0, False), layer_norm(x, 0.1) + b, atol=1e-12, rtol=0
    )


def test_each_head_by_its_own_rows_and_back() -> None:
    t, w = run(1), torch.nn.Linear(5, 3 * 4, bias=False, dtype=torch.float64)
    x, y = normal(2, 3, 6, 5), normal(2, 3, 7, 4, seed=1)
    up, back = t.by_head(x, w, 3), t.back_by_head(y, w, 3)
    for b in range(2):
        for h in range(3):
            rows = w.weight[4 * h : 4 * h + 4]  # 4 5
            torch.testing.assert_close(up[b, h], x[b, h] @ rows.T, atol=1e-12, rtol=0)
            torch.testing.assert_close(back[b, h], y[b, h] @ rows, atol=1e-12, rtol=0)
    torch.testing.assert_close(y @ up.mT, back @ x.mT, atol=1e-12, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_constant_row_has_a_gradient(dtype: torch.dtype) -> None:
    """With y = x - mean and y / (|y| + eps), the derivative of y / eps at y = 0 remains: a projection over eps."""
    x = torch.full((1, 4), 3.0, dtype=dtype, requires_grad=True)
    y = run(1).layer_norm(x, None, None, 0.5, 0.0, True)
    y[0, 0].backward()
    assert y.tolist() == [[0.0] * 4]
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.tensor([[1.5, -0.5, -0.5, -0.5]], dtype=dtype))


def test_norm_statistics_do_not_overflow_in_half() -> None:
    t, x = run(1), torch.full((1, 64), 3000.0, dtype=torch.float16)
    x[0, ::2] = -3000.0  # 9e6 is beyond float16
    w, near = torch.ones(64, dtype=torch.float16), x.sign()
    for y in (
        t.rms_norm(x, w, 1e-5, 0.0), t.rms_norm(x, w - 1, 1e-5, 1.0), t.layer_norm(x, w, None, 1e-5, 0.0, False),
        t.layer_norm(x, w, None, 1e-5, 0.0, True), t.l2_norm(x, 1e-12) * 8,
    ):  # fmt: skip
        assert y.dtype == torch.float16
        torch.testing.assert_close(y, near, atol=2e-3, rtol=0)


def test_a_norm_in_half_is_rounded_once() -> None:
    t, x, w = run(1), normal(4, 64).bfloat16(), (0.1 * normal(64, seed=1)).bfloat16()
    for norm in (
        lambda x, w: t.rms_norm(x, w, 1e-5, 0.0),
        lambda x, w: t.rms_norm(x, w, 1e-5, 1.0),
        lambda x, w: t.layer_norm(x, w, w, 1e-5, 0.0, False),
        lambda x, w: t.layer_norm(x, w, w, 1e-5, 1.0, True),
    ):
        assert torch.equal(norm(x, w), norm(x.double(), w.double()).bfloat16())


def test_capped_scores_in_half_are_single() -> None:
    q = torch.tensor([16.0, 1.0], dtype=torch.bfloat16).view(1, 1, 1, 2)
    k = torch.tensor([[1.0, 0.0], [1.0, 0.03]], dtype=torch.bfloat16).view(1, 1, 2, 2)  # 16 and 16.03, one in bfloat16
    v = torch.tensor([[1.0], [0.0]], dtype=torch.bfloat16).view(1, 1, 2, 1)
    y = run(2).attend(q, k, v, Scores(Mask("full"), 40.0, 10000.0))
    assert y.item() == pytest.approx(1 / (1 + math.exp(0.03 * 40)), abs=0.01)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("gelu_tanh", "gelu_new"), ("quick_gelu", "quick_gelu"), ("relu_squared", "relu2"), ("gelu", "gelu"),
     ("silu", "silu"), ("mish", "mish"), ("relu", "relu"), ("tanh", "tanh"), ("sigmoid", "sigmoid"), ("identity", "linear")],
)  # fmt: skip
def test_activations_are_those_of_transformers(ours: Activation, theirs: str) -> None:
    x = torch.linspace(-6, 6, 101, dtype=torch.float64)
    torch.testing.assert_close(ACTIVATIONS[ours](x), ACT2FN[theirs](x), atol=1e-12, rtol=0)


def test_softplus_by_hand() -> None:
    x = torch.linspace(-6, 6, 101, dtype=torch.float64)
    torch.testing.assert_close(ACTIVATIONS["softplus"](x), (1 + x.exp()).log(), atol=1e-12, rtol=0)


def test_activations_of_one_family_are_its_own() -> None:
    x = torch.linspace(-6, 6, 101, dtype=torch.float64)
    assert torch.equal(ACTIVATIONS["gelu_tanh_8"](x), bloom_gelu_forward(x))
    assert not torch.allclose(ACTIVATIONS["gelu_tanh_8"](x), ACTIVATIONS["gelu_tanh"](x), atol=1e-10, rtol=0)
    theirs = XIELUActivation(0.3, 0.9, dtype=torch.float64)
    near = run(1).xielu(x, theirs.alpha_p, theirs.alpha_n)
    torch.testing.assert_close(near, theirs._xielu_python(x), atol=1e-12, rtol=0)


def test_a_gate_keeps_unit_variance() -> None:
    """b is 1/2, where sqrt(3/4) of x stays; 3/4, where sqrt(7)/4 does; and nearly 1, where the floor does."""
    x, f = torch.tensor([8.0, 8.0, 8.0], dtype=torch.float64), torch.tensor([4.0, 4.0, 4.0], dtype=torch.float64)
    gate = torch.tensor([0.0, 0.5 * math.log(3.0), 50.0], dtype=torch.float64)
    y = run(1).blend(x, f, gate, temperature=0.5, floor=0.01)
    by_hand = torch.tensor([8 * math.sqrt(0.75) + 2, 2 * math.sqrt(7) + 3, 8 * 0.1 + 4], dtype=torch.float64)
    torch.testing.assert_close(y, by_hand, atol=1e-12, rtol=0)


def test_a_weight_before_the_norm() -> None:
    x, w = torch.tensor([3.0, 4.0], dtype=torch.float64), torch.tensor([0.0, 1.0], dtype=torch.float64)
    assert run(1).weigh(x, w, 1.0).tolist() == [3.0, 8.0]


# ------------------------------------------------------------------------------------------------------------ positions


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dim", [8, 6])
def test_rope_turns_pairs_as_complex_numbers(dim: int, interleaved: bool) -> None:
    rope = Rope(dim, 100.0, interleaved)
    t = run(5, tables={rope: torch.tensor(rope.frequencies(), dtype=torch.float64)})
    x = normal(1, 2, 5, 8)
    y = t.rope(x, t.positions("tokens"), rope)
    for p in range(5):
        for i in range(dim // 2):
            a, b = (2 * i, 2 * i + 1) if interleaved else (i, i + dim // 2)
            turned = complex(x[0, 1, p, a], x[0, 1, p, b]) * cmath.exp(1j * p * 100.0 ** (-2 * i / dim))
            assert abs(turned - complex(y[0, 1, p, a], y[0, 1, p, b])) < 1e-12
    assert torch.equal(y[..., dim:], x[..., dim:])


def test_rope_at_a_far_position_is_rounded_once() -> None:
    """Angles in float32 would be off by more than half a percent here."""
    rope = Rope(4, 10000.0)
    tables: Tables = {rope: torch.tensor(rope.frequencies(), dtype=torch.float64)}
    at = torch.tensor([[1_000_003]])
    single = run(1, tables=tables).rope(torch.ones(1, 1, 1, 4), at, rope)
    double = run(1, tables=tables).rope(torch.ones(1, 1, 1, 4, dtype=torch.float64), at, rope)
    torch.testing.assert_close(single.double(), double, atol=2e-7, rtol=0)


@pytest.mark.parametrize("halves", [False, True])
def test_sinusoids_by_hand(halves: bool) -> None:
    table = Sinusoid(6, 50.0, halves)
    t = run(4, tables={table: torch.tensor(table.frequencies(), dtype=torch.float64)})
    y = t.sinusoid(torch.zeros(1, 4, 6, dtype=torch.float64), t.positions("tokens"), table, 2)
    for p in range(4):
        for i in range(3):
            a, b = (i, i + 3) if halves else (2 * i, 2 * i + 1)
            angle = (p + 2) * 50.0 ** (-2 * i / 6)
            assert y[0, p, a].item() == pytest.approx(math.sin(angle), abs=1e-12)
            assert y[0, p, b].item() == pytest.approx(math.cos(angle), abs=1e-12)


def test_positions_count_tokens_or_columns() -> None:
    mask = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1], [0, 1, 0, 1, 1]])
    t = run(5, mask)
    assert t.positions("tokens")[mask > 0].tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 2]
    assert t.positions("tokens", "every")[mask > 0].tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 0, 2, 3]
    assert t.positions("tokens").min() == 0  # padding takes a row that exists


# ------------------------------------------------------------------------------------------------------------ attention

MASKS = [
    Mask(), Mask(window=3), Mask(window=1), Mask(chunk=3), Mask("prefix"), Mask("full"), Mask("full", window=2),
    Mask("full", chunk=3), Mask(window=20), Mask(chunk=20),
]  # fmt: skip


def sees(mask: Mask, i: int, j: int, prefix: int) -> bool:
    """Does the token at i see the one at j, by the words of the definition?"""
    past = mask.kind == "full" or j <= i or (mask.kind == "prefix" and j < prefix)
    near = mask.window is None or (abs(i - j) <= mask.window if mask.kind == "full" else i - mask.window < j)
    return past and near and (mask.chunk is None or i // mask.chunk == j // mask.chunk)


@pytest.mark.parametrize("softcap", [None, 1.5])
@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_attention_by_the_definition_of_its_mask(mask: Mask, softcap: float | None) -> None:
    n, pads, prefix = 7, [0, 2, 5], [4, 0, 1]
    there = torch.tensor([[0] * p + [1] * (n - p) for p in pads])
    q, k, v = normal(3, 4, n, 5), normal(3, 2, n, 5, seed=1), normal(3, 2, n, 6, seed=2)
    scores = Scores(mask, 0.4, softcap)
    padded = run(n, there, prefix_length=torch.tensor(prefix)).attend(q, k, v, scores)
    whole = run(n, prefix_length=torch.tensor(prefix) if mask.kind == "prefix" else None).attend(q, k, v, scores)  # type: ignore[arg-type]
    assert padded.shape == (3, 4, n, 6)
    assert padded.isfinite().all()
    for b, h, i in [(b, h, i) for b in range(3) for h in range(4) for i in range(n)]:
        for out, pad in ((padded, pads[b]), (whole, 0)):
            keys = [j for j in range(pad, n) if sees(mask, i - pad, j - pad, prefix[b])]
            if i < pad:
                continue
            s = torch.stack([q[b, h, i] @ k[b, h // 2, j] * 0.4 for j in keys])
            s = s if softcap is None else softcap * torch.tanh(s / softcap)
            want = s.softmax(0) @ v[b, h // 2, keys]
            torch.testing.assert_close(out[b, h, i], want, atol=1e-12, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("softcap", [None, 2.0])
def test_a_row_that_sees_nobody_stays_finite_and_so_do_its_gradients(softcap: float | None, dtype: torch.dtype) -> None:
    q, k, v = (normal(2, 2, 6, 16, seed=s).to(dtype).requires_grad_() for s in range(3))
    there = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0]])
    y = run(6, there).attend(q, k, v, Scores(Mask(), 0.25, softcap))
    y.square().sum().backward()
    assert y.isfinite().all()
    assert all(x.grad.isfinite().all() for x in (q, k, v))  # type: ignore[union-attr]


def test_pools_leave_padding_out() -> None:
    x, mask = normal(3, 4, 2), torch.tensor([[0, 0, 1, 1], [1, 1, 1, 0], [1, 1, 1, 1]])
    t = run(4, mask)
    assert torch.equal(t.pool(x, "first", "tokens"), torch.stack([x[0, 2], x[1, 0], x[2, 0]]))
    assert torch.equal(t.pool(x, "last", "tokens"), torch.stack([x[0, 3], x[1, 2], x[2, 3]]))
    means = torch.stack([x[0, 2:].mean(0), x[1, :3].mean(0), x[2].mean(0)])
    torch.testing.assert_close(t.pool(x, "mean", "tokens"), means, atol=1e-12, rtol=0)
    for kind, want in (("first", x[:, 0]), ("last", x[:, 3]), ("mean", x.mean(1))):
        torch.testing.assert_close(run(4).pool(x, kind, "tokens"), want, atol=1e-12, rtol=0)  # type: ignore[arg-type]


# -------------------------------------------------------------------------------------------------------------- dropout


@pytest.mark.parametrize("site", ["embedding", "attention", "ffn", "residual"])
@pytest.mark.parametrize("name", ["gpt2", "t5like"])
def test_dropout_is_active_while_training_only(name: str, site: str) -> None:
    net = build(tiny(name, f"dropout.{site}=0.5"), dtype="float64")
    same, ids = build(tiny(name), dtype="float64").eval(), tokens(2, 9)
    net.eval()
    assert torch.equal(net(ids, **source(net)), same(ids, **source(net)))
    net.train()
    torch.manual_seed(0)
    assert not torch.equal(net(ids, **source(net)), net(ids, **source(net)))


def test_what_dropout_drops_at_each_site() -> None:
    def dropped(x: Tensor) -> float:
        return (x == 0).double().mean().item()

    t, ids = run(9, training=True), tokens(4, 9)
    torch.manual_seed(0)
    sites = {
        site: build(tiny("gpt2", f"dropout.{site}=0.5"), dtype="float64") for site in ("embedding", "ffn", "residual")
    }
    assert dropped(sites["embedding"].decoder.embedding(t, ids)) == pytest.approx(0.5, abs=0.1)
    heard: list[Tensor] = []
    ffn = sites["ffn"].decoder.layers[0].ffn
    ffn.down.register_forward_hook(lambda module, args, out: heard.append(args[0]))
    ffn(t, normal(4, 9, 32))
    assert dropped(heard[0]) == pytest.approx(0.5, abs=0.1)
    x = normal(4, 9, 32)
    layer = sites["residual"].decoder.layers[0]
    branch = layer.attention(t, layer.attention_input_norm(t, x))
    with torch.no_grad():
        layer.ffn.down.weight.zero_()
    change = layer(t, x) - x  # each value of the branch is dropped or doubled
    both = torch.stack(((change - 2 * branch).abs(), change.abs())).amin(0)
    assert both.max() < 1e-12
    assert 0.4 < (change.abs() < 1e-12).double().mean() < 0.6
    torch.manual_seed(0)
    ones = torch.ones(2, 2, 64, 8)  # probabilities, rescaled: rows no longer sum to one, on average they do
    y = run(64, training=True).attend(ones, ones, ones, Scores(Mask("full"), 1.0, dropout=0.5))
    assert y.std() > 0.01
    assert y.mean() == pytest.approx(1.0, abs=0.05)
