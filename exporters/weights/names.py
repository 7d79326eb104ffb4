"""Names that most decoders of Hugging Face have for their tensors: rules to put together, layer by layer.

Ours stand below `decoder.layers.{i}.`, theirs below `model.layers.{i}.`. A family says only where it differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from archspec.ops.model import Model

from .blocks import Written
from .config import Ledger
from .maps import Family, Rule, rule, under
from .transforms import Fuse, FuseGroups, Unstack

#: Norms before each sublayer (placement: pre).
PRE_NORMS = (
    rule("attention_input_norm.*", "input_layernorm.*"),
    rule("ffn_input_norm.*", "post_attention_layernorm.*"),
)
#: Norms before and after each (placement: sandwich), as Gemma names them.
SANDWICH_NORMS = (
    rule("attention_input_norm.*", "input_layernorm.*"),
    rule("attention_branch_norm.*", "post_attention_layernorm.*"),
    rule("ffn_input_norm.*", "pre_feedforward_layernorm.*"),
    rule("ffn_branch_norm.*", "post_feedforward_layernorm.*"),
)
#: Norms after each, inside the residual (placement: branch), as OLMo 2 names them.
BRANCH_NORMS = (
    rule("attention_branch_norm.*", "post_attention_layernorm.*"),
    rule("ffn_branch_norm.*", "post_feedforward_layernorm.*"),
)
ATTENTION = tuple(rule(f"attention.{x}.*", f"self_attn.{x}_proj.*") for x in "qkvo")
QK_NORM = tuple(rule(f"attention.{x}_norm.*", f"self_attn.{x}_norm.*") for x in "qk")
LATENT = (
    rule("attention.q.*", "self_attn.q_proj.*"),
    rule("attention.q_down.*", "self_attn.q_a_proj.*"),
    rule("attention.q_norm.*", "self_attn.q_a_layernorm.*"),
    rule("attention.q_up.*", "self_attn.q_b_proj.*"),
    rule("attention.kv_down.* attention.k_rope.*", "self_attn.kv_a_proj_with_mqa.*", Fuse()),
    rule("attention.kv_norm.*", "self_attn.kv_a_layernorm.*"),
    rule("attention.k_up.* attention.v_up.*", "self_attn.kv_b_proj.*", FuseGroups("heads")),
    rule("attention.o.*", "self_attn.o_proj.*"),
)
#: A whole layer, as BERT names it.
BERT_LAYER = (
    rule("attention.q.*", "attention.self.query.*"),
    rule("attention.k.*", "attention.self.key.*"),
    rule("attention.v.*", "attention.self.value.*"),
    rule("attention.o.*", "attention.output.dense.*"),
    rule("attention_outer_norm.*", "attention.output.LayerNorm.*"),
    rule("ffn.up.*", "intermediate.dense.*"),
    rule("ffn.down.*", "output.dense.*"),
    rule("ffn_outer_norm.*", "output.LayerNorm.*"),
)
#: A whole layer, as fairseq's models name it: its norms have one name, before a sublayer as after it.
FAIRSEQ_LAYER = (
    *(rule(f"attention_{site}_norm.*", "self_attn_layer_norm.*") for site in ("input", "outer")),
    *(rule(f"attention.{x}.*", f"self_attn.{x}_proj.*") for x in "qkv"),
    rule("attention.o.*", "self_attn.out_proj.*"),
    *(rule(f"ffn_{site}_norm.*", "final_layer_norm.*") for site in ("input", "outer")),
    rule("ffn.up.*", "fc1.*"),
    rule("ffn.down.*", "fc2.*"),
)
GATED = tuple(rule(f"ffn.{x}.*", f"mlp.{x}_proj.*") for x in ("gate", "up", "down"))


def experts(
    at: str = "mlp.", gate: str = "gate_proj", up: str = "up_proj", down: str = "down_proj", router: str = "gate"
) -> tuple[Rule, ...]:
    """Gated experts below `at`: one tensor an expert, or all stacked and gate and up fused, whichever a checkpoint has."""
    return (
        rule("ffn.router.*", f"{at}{router}.*"),
        rule("ffn.selection_bias", f"{at}{router}.e_score_correction_bias"),
        *(
            rule(f"ffn.expert.{ours}.*", f"{at}experts.{{e}}.{theirs}.*", Unstack())
            for ours, theirs in (("gate", gate), ("up", up), ("down", down))
        ),
        rule("ffn.expert.gate.weight ffn.expert.up.weight", f"{at}experts.gate_up_proj", Fuse(1)),
        rule("ffn.expert.down.weight", f"{at}experts.down_proj"),
    )


def shared(at: str = "mlp.shared_experts.") -> tuple[Rule, ...]:
    """The gated expert that every token takes."""
    return tuple(rule(f"ffn.shared.{x}.*", f"{at}{x}_proj.*") for x in ("gate", "up", "down"))


def decoder_family(
    name: str,
    read: Callable[[Ledger], Written],
    layer: Sequence[Rule],
    *,
    types: tuple[str, ...] = (),
    write: Callable[[Model, int | None], Written] | None = None,
    base: str = "model.",
    tokens: str = "embed_tokens",
    layers: str = "layers.{i}.",
    final: str = "norm",
    head: str = "lm_head",
    body: Sequence[Rule] = (),
    buffers: tuple[str, ...] = (),
    aside: tuple[str, ...] = (),
    beyond: bool = False,
) -> Family:
    """A decoder whose layers' names are `layer`, the rest under the usual names. types: by default the family's name.

    body: further rules outside the layers, names below `base`. buffers (below `base`) are no weights, aside (full names) are
    weights of parts that the language does not have, and so are, where it says `beyond`, layers past the last (of multi-token
    prediction).
    """
    return Family(
        name=name,
        types=types or (name,),
        read=read,
        write=write,
        base=base,
        body=(
            rule("decoder.embedding.tokens.weight", f"{tokens}.weight"),
            *body,
            *under("decoder.layers.{i}.", layers, layer),
            rule("decoder.final_norm.*", f"{final}.*"),
        ),
        heads={"lm": (rule("head.out.*", f"{head}.*"),)},
        buffers=(f"{layers}self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq", *buffers),
        aside=aside,
        beyond=layers if beyond else "",
    )
