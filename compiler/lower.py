"""From a complete spec to operations: every name becomes a number, every choice an operation.

The spec says what its author meant (`scale: 1/sqrt(head_dim)`, `placement: sandwich`); the operations say what is computed
(0.125, two norms). Derived values were filled in before (`archspec.compiler.resolve`), so nothing is guessed here.
"""

from __future__ import annotations

from typing import Any, Literal

from archspec.language import attention as la
from archspec.language import ffn as lf
from archspec.language import model as lm
from archspec.language import norms as ln
from archspec.language import positions as lp
from archspec.language.base import scale_value
from archspec.ops import rotary as rotary_ops
from archspec.ops.attention import Attention, CrossAttention, Disentangled, DistanceTable, OutputGate, QKNorm
from archspec.ops.base import Op
from archspec.ops.block import Block, ParallelBlock, Residual, ResidualGate, Stack, Sublayer
from archspec.ops.embedding import Embedding, LearnedPositions, SinusoidalPositions
from archspec.ops.ffn import Gated, Mlp
from archspec.ops.head import ClassifierHead, Dense, Head, LmHead, NoHead, PoolerHead
from archspec.ops.latent import LatentAttention
from archspec.ops.leaves import Stream
from archspec.ops.model import Model
from archspec.ops.moe import Moe
from archspec.ops.norms import L2Norm, LayerNorm, Norm, RMSNorm
from archspec.ops.record import Record
from archspec.ops.words import Alibi, Buckets, Distances, Mask, Rope, Routing, Scores, Sinusoid, Temperature

#: The norm sites of each placement.
SITES: dict[str, tuple[str, ...]] = {
    "pre": ("input",),
    "post": ("outer",),
    "branch": ("branch",),
    "sandwich": ("input", "branch"),
    "none": (),
}


def lower(spec: lm.Spec) -> Model:
    """The operations of a complete spec."""
    beside = bool(spec.encoder and spec.decoder)
    encoder = _stack(spec, spec.encoder, "encoder", "source" if beside else "tokens") if spec.encoder else None
    decoder = _stack(spec, spec.decoder, "decoder", "tokens") if spec.decoder else None
    return Model(
        name=spec.name,
        dtype=spec.dtype,
        head=_head(spec),
        encoder=encoder,
        decoder=decoder,
        share_tokens=beside and spec.embedding.share != "none",
    )


def norm(node: ln.LayerNorm | ln.RMSNorm | ln.L2Norm, width: int, heads: int | None = None) -> Norm:
    """A norm over `width` channels; with `heads`, a weight for each head."""
    match node:
        case ln.LayerNorm():
            return LayerNorm(width, node.eps, node.weight, heads, node.bias, node.eps_outside)
        case ln.RMSNorm():
            return RMSNorm(width, node.eps, node.weight, heads, node.weight_first)
        case ln.L2Norm():
            return L2Norm(width, node.eps)


# ------------------------------------------------------------------------------------------------------------ stacks


def _stack(spec: lm.Spec, stack: lm.Stack, role: Literal["encoder", "decoder"], stream: Stream) -> Stack:
    entries, owners = _flat(stack.layers)
    site = _Site(spec, role, stream, len(entries))
    lowered: dict[int, Op] = {id(e): site.block(e) for e in {id(e): e for e in entries}.values()}
    final = norm(stack.final_norm, spec.d_model) if stack.final_norm else None
    return Stack(_embedding(spec, stream), tuple(lowered[id(e)] for e in entries), owners, final)


def _flat(entries: tuple[lm.Layer | lm.Group, ...]) -> tuple[list[lm.Layer], tuple[int, ...]]:
    """The layers one by one, and for each the index of the layer whose weights it uses."""
    layers: list[lm.Layer] = []
    owners: list[int] = []
    for entry in entries:
        row, own = _flat(entry.layers) if isinstance(entry, lm.Group) else ([entry], (0,))
        start = len(layers)
        for turn in range(entry.repeat):
            base = start if entry.weights == "shared" else start + turn * len(row)
            layers += row
            owners += [base + o for o in own]
    return layers, tuple(owners)


class _Site(Record):
    """Where a block stands: what its sublayers' scales, masks and streams depend on."""

    spec: lm.Spec
    role: Literal["encoder", "decoder"]
    stream: Stream
    layers: int

    def scale(self, scale: float | str, head_dim: int = 0) -> float:
        return scale_value(scale, d_model=self.spec.d_model, layers=self.layers, head_dim=head_dim)

    def block(self, layer: lm.Layer) -> Op:
        subs = []
        if layer.attention:
            subs.append(self.sublayer("attention", self.attention(layer.attention), layer.attention, layer))
        if cross := layer.cross_attention:
            subs.append(self.sublayer("cross_attention", self.cross_attention(cross), cross, layer))
        if layer.ffn:
            subs.append(self.sublayer("ffn", self.ffn(layer.ffn), layer.ffn, layer))
        if layer.parallel == "one_norm":
            return ParallelBlock(tuple(subs), norm(layer.norm, self.spec.d_model))
        return ParallelBlock(tuple(subs)) if layer.parallel else Block(tuple(subs))

    def sublayer(self, name: str, f: Op, node: la.Sublayer, layer: lm.Layer) -> Sublayer:
        """`f` with its norms and its residual; where one norm stands before all sublayers, none stands at the input."""
        sites, residual = SITES[node.placement or layer.placement], node.residual or layer.residual
        own = {"branch": node.branch_norm or layer.norm}
        norms = tuple(
            (site, norm(own.get(site, layer.norm), self.spec.d_model))
            for site in sites
            if not (site == "input" and layer.parallel == "one_norm")
        )
        return Sublayer(name, f, norms, *self.residual(residual))

    def residual(self, node: la.Residual) -> tuple[Residual, ResidualGate | None]:
        """What joins a sublayer to its x, and the gate that does so in its place."""
        dropout = self.spec.dropout.residual
        match node:
            case la.AddResidual():
                return Residual(self.scale(node.skip_scale), self.scale(node.branch_scale), dropout), None
            case la.NoResidual():
                return Residual(None, 1.0, dropout), None
            case la.GatedResidual():
                return Residual(), ResidualGate(self.spec.d_model, node.temperature, node.floor, dropout)

    # -------------------------------------------------------------------------------------------------- attention

    def attention(self, a: la.SoftmaxAttention | la.LatentAttention) -> Attention | LatentAttention:
        mask = self.mask(a)
        warm = a.temperature
        temperature = Temperature(warm.slope, warm.period, warm.offset, warm.growth == "power") if warm else None
        if isinstance(a, la.LatentAttention):
            return self.latent(a, mask, temperature)
        rope = rotary(a.position, _int(a.head_dim)) if isinstance(a.position, lp.Rope) else None
        of_stack = isinstance(a.position, lp.RelativeBuckets) and a.position.table == "per_stack"
        return Attention(
            **self.heads(a), scores=self.scores(a, mask), rope=rope, cached=self.role == "decoder", sinks=a.sinks,
            temperature=temperature, table_of_stack=of_stack, disentangled=self.disentangled(a.position),
        )  # fmt: skip

    def disentangled(self, p: lp.AttentionPosition) -> Disentangled | None:
        if not isinstance(p, lp.Disentangled):
            return None
        d, dropout = self.spec.d_model, self.spec.dropout.embedding
        table = DistanceTable(d, Distances(p.buckets, p.max_distance), norm(p.norm, d) if p.norm else None, dropout)
        return Disentangled(table, "c2p" in p.terms, "p2c" in p.terms, p.projections == "own")

    def latent(self, a: la.LatentAttention, mask: Mask, temperature: Temperature | None) -> LatentAttention:
        head_dim = a.qk_nope_head_dim + a.qk_rope_head_dim
        rope = rotary(a.position, a.qk_rope_head_dim) if isinstance(a.position, lp.Rope) else None
        scale = self.scale(a.scale, head_dim) * score_temperature(a.position)
        return LatentAttention(
            self.spec.d_model, a.heads, a.kv_lora_rank, a.qk_nope_head_dim, a.qk_rope_head_dim, a.v_head_dim,
            Scores(mask, scale, dropout=self.spec.dropout.attention), a.q_lora_rank, rope,
            norm(a.latent_norm, a.q_lora_rank) if a.latent_norm and a.q_lora_rank else None,
            norm(a.latent_norm, a.kv_lora_rank) if a.latent_norm else None, temperature,
            cached=self.role == "decoder",
        )  # fmt: skip

    def cross_attention(self, a: la.CrossAttention) -> CrossAttention:
        return CrossAttention(**self.heads(a), scores=self.scores(a, Mask("full", keys="source")))

    def mask(self, a: la.SoftmaxAttention | la.LatentAttention) -> Mask:
        prefix = isinstance(a, la.SoftmaxAttention) and a.mask == "prefix"
        kind: Literal["causal", "prefix", "full"] = (
            "prefix" if prefix else "causal" if self.role == "decoder" else "full"
        )
        window = a.window.size if isinstance(a.window, la.SlidingWindow) else None
        chunk = a.window.size if isinstance(a.window, la.Chunk) else None
        return Mask(kind, window, chunk, self.stream)

    def scores(self, a: la.Heads, mask: Mask) -> Scores:
        scale, bias = self.scale(a.scale, _int(a.head_dim)), None
        if isinstance(a, la.SoftmaxAttention):
            scale, bias = scale * score_temperature(a.position), self.bias(a)
        return Scores(mask, scale, a.softcap, self.spec.dropout.attention, bias)

    def bias(self, a: la.SoftmaxAttention) -> Alibi | Buckets | None:
        match a.position:
            case lp.Alibi() as p:
                return Alibi(a.heads, p.max_bias, p.order == "before_scale")
            case lp.RelativeBuckets() as p:
                return Buckets(p.buckets, p.max_distance, self.role == "encoder")
        return None

    def heads(self, a: la.Heads) -> dict[str, Any]:
        """The fields that self and cross attention share."""
        heads, kv, c, cv = a.heads, _int(a.kv_heads), _int(a.head_dim), _int(a.v_head_dim)
        return {
            "width": self.spec.d_model, "heads": heads, "kv_heads": kv, "head_dim": c, "v_head_dim": cv, "clip": a.clip,
            "bias": _named(a.bias, ("q", "k", "v", "o")),
            "qk_norm": self.qk_norm(a.qk_norm, heads, kv, c) if a.qk_norm else None,
            "v_norm": norm(a.v_norm, cv) if a.v_norm else None,
            "out_norm": norm(a.out_norm, heads * cv) if a.out_norm else None,
            "head_norm": norm(a.head_norm, cv) if a.head_norm else None,
            "gate": OutputGate(a.gate.activation, a.gate.per == "head", a.gate.bias) if a.gate else None,
        }  # fmt: skip

    def qk_norm(self, n: la.QKNorm, heads: int, kv: int, c: int) -> QKNorm:
        if n.over == "vector":
            return QKNorm(norm(n.norm, heads * c), norm(n.norm, kv * c), "vector", n.order)
        each = n.over == "each_head"
        return QKNorm(norm(n.norm, c, heads if each else None), norm(n.norm, c, kv if each else None), "head", n.order)

    # -------------------------------------------------------------------------------------------------------- ffn

    def ffn(self, f: lf.Mlp | lf.Gated | lf.Moe) -> Mlp | Gated | Moe:
        if isinstance(f, lf.Moe):
            return self.moe(f)
        return self.dense(f, _int(f.width), self.spec.d_model)

    def dense(self, f: lf.Mlp | lf.Gated, hidden: int, width: int, experts: int | None = None) -> Mlp | Gated:
        """An mlp or gated ffn of this size, or so many of them."""
        mid, p = norm(f.mid_norm, hidden) if f.mid_norm else None, self.spec.dropout.ffn
        if isinstance(f, lf.Mlp):
            return Mlp(width, hidden, f.activation, _named(f.bias, ("up", "down")), mid, p, experts)
        bias = _named(f.bias, ("gate", "up", "down"))
        return Gated(
            width, hidden, f.activation, bias, mid, p, experts, f.clamp, f.up_shift, f.clamp_at == "activation"
        )

    def moe(self, f: lf.Moe) -> Moe:
        d, r, groups = self.spec.d_model, f.router, f.router.groups
        routing = Routing(
            f.top_k, r.score, r.normalize, r.scale, "logit" if r.selection_bias == "logit" else "score",
            groups.count if groups else 1, groups.keep if groups else 1, groups.score if groups else "max",
            r.within or 0.0,
        )  # fmt: skip
        latent = f.latent.dim if f.latent else None
        return Moe(
            width=d,
            experts=f.experts,
            expert=self.dense(f.expert, _int(f.expert.width), latent or d, f.experts),
            routing=routing,
            router_bias=r.bias,
            selection_bias=r.selection_bias != "none",
            weigh_input=r.applies_to == "input",
            shared=self.dense(_clamped(f.expert, f.shared), _int(f.shared.width), d) if f.shared else None,
            shared_gate=bool(f.shared and f.shared.gate == "sigmoid"),
            latent=latent,
            latent_norm=norm(f.latent.norm, f.latent.dim) if f.latent and f.latent.norm else None,
            expert_norm=norm(f.expert_norm, latent or d) if f.expert_norm else None,
            router_scale=r.input_scale,
        )


def _clamped(expert: lf.Mlp | lf.Gated, shared: lf.SharedExpert) -> lf.Mlp | lf.Gated:
    """The expert with the clamp of the one that every token takes."""
    return expert.model_copy(update={"clamp": shared.clamp}) if isinstance(expert, lf.Gated) else expert


# ------------------------------------------------------------------------------------------------------------- rotary


def rotary(p: lp.Rope, head_dim: int) -> Rope:
    """The rotation of a head's first channels."""
    return Rope(p.dim or head_dim, p.theta, p.pairing == "interleaved", _scaling(p.scaling) if p.scaling else None)


def _scaling(s: lp.RopeScaling) -> rotary_ops.Scaling:
    match s:
        case lp.LinearScaling():
            return rotary_ops.Linear(s.factor)
        case lp.NtkScaling():
            return rotary_ops.Ntk(s.alpha)
        case lp.ProportionalScaling():
            return rotary_ops.Proportional(s.share, s.factor)
        case lp.DynamicScaling():
            return rotary_ops.Dynamic(s.factor, s.original_context)
        case lp.RampScaling():
            return rotary_ops.Ramp(s.factor, s.original_context, s.low_frequency, s.high_frequency)
        case lp.YarnScaling():
            m = rotary_ops.yarn_temperature(s.factor, s.mscale) if s.mscale_on == "rotation" else 1.0
            return rotary_ops.Yarn(s.factor, s.original_context, s.beta_fast, s.beta_slow, s.truncate, m)
        case lp.LongRopeScaling():
            m = rotary_ops.longrope_temperature(s.factor or 1.0, s.original_context)
            return rotary_ops.LongRope(s.original_context, s.short, s.long, m)


def score_temperature(position: object) -> float:
    """m² where a yarn scaling puts its temperature on the scores, 1 / sqrt(terms) where a score is a sum, otherwise 1."""
    if isinstance(position, lp.Disentangled):
        return float((1 + len(position.terms)) ** -0.5)
    s = position.scaling if isinstance(position, lp.Rope) else None
    if isinstance(s, lp.YarnScaling) and s.mscale_on == "scores":
        return rotary_ops.yarn_temperature(s.factor, s.mscale) ** 2
    return 1.0


# ------------------------------------------------------------------------------------------------ embedding and heads


def _embedding(spec: lm.Spec, stream: Stream) -> Embedding:
    e = spec.embedding
    narrow = (e.projection.dim, e.projection.of, e.projection.bias) if e.projection else None
    width = e.projection.dim if e.projection and e.projection.of == "sum" else spec.d_model
    position: LearnedPositions | SinusoidalPositions | None = None
    match e.position:
        case lp.LearnedPosition() as p:
            position = LearnedPositions(_int(spec.context_length) + p.offset, p.offset, p.count)
        case lp.SinusoidalPosition() as p:
            position = SinusoidalPositions(Sinusoid(width, p.base, p.layout == "halves"), p.offset, p.count)
    return Embedding(
        vocab=spec.vocab_size,
        width=spec.d_model,
        stream=stream,
        scale=scale_value(e.scale, d_model=spec.d_model),
        position=position,
        token_types=e.token_types,
        norm=norm(e.norm, width) if e.norm else None,
        narrow=narrow,
        dropout=spec.dropout.embedding,
    )


def _head(spec: lm.Spec) -> Head:
    d, h = spec.d_model, spec.head
    match h:
        case lm.PoolerHead():
            return PoolerHead(d, h.activation)
        case lm.ClassifierHead():
            return ClassifierHead(d, h.labels, h.pool, h.bias, *_transform(h.transform, d))
        case lm.NoHead():
            return NoHead(d)
        case lm.LmHead():
            table = spec.embedding.projection.dim if h.tied and spec.embedding.projection else d
            scale = scale_value(h.scale, d_model=d)
            transform = _transform(h.transform, table)
            return LmHead(d, spec.vocab_size, table, h.tied, h.bias, scale, h.softcap, *transform)


def _transform(t: lm.HeadTransform | lm.ClassifierTransform | None, width: int) -> tuple[Dense | None, Norm | None]:
    """Activation and bias of a head's dense layer, and the norm behind it."""
    if t is None:
        return None, None
    return (t.activation, t.bias), norm(t.norm, width) if t.norm else None


def _named(bias: bool | tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(bias, bool):
        return names if bias else ()
    return tuple(n for n in names if n in bias)


def _int(value: object) -> int:
    """A value that `resolve` has filled in."""
    assert isinstance(value, int), value
    return value
