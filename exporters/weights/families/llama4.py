"""Llama 4, the text part: chunks with a rotation, full layers without; the one expert's input is scaled by its score."""

from __future__ import annotations

from archspec.errors import WeightsError

from ..blocks import DEPTH, Block, Written, decoder, each, gated, grouped, layer_types, moe, rmsnorm
from ..config import Ledger
from ..maps import rule
from ..names import ATTENTION, PRE_NORMS, decoder_family, shared
from ..rotary import rope
from ..transforms import Fuse, Transpose


def read(c: Ledger) -> Written:
    """Llama4TextConfig."""
    c.ignore("for_llm_compressor")
    norm, depth = rmsnorm(c, 1e-5), c.whole(DEPTH)
    interval, step = c.get("no_rope_layer_interval", 4), c.get("interleave_moe_layer_step", 1)
    turns = c.get("no_rope_layers") or [int((i + 1) % interval != 0) for i in range(depth)]
    if len(turns) < depth:
        raise WeightsError(f"the config has no_rope_layers: {turns}, where one for each of {depth} layers is meant.")
    chunk = c.stated("attention_chunk_size", 8192)
    types = layer_types(c, lambda i: "chunked_attention" if turns[i] and chunk else "full_attention")
    sparse = c.stated("moe_layers", None)
    if sparse is None:
        sparse = range(step - 1, depth, step)
    position, normed, tempered = (
        rope(c, theta=500000.0, interleaved=True, head_dim=c.whole("head_dim", 128)),
        *_options(c),
    )

    def attention(i: int) -> Block:
        turning = {"qk_norm": normed, "position": position}
        return {
            **grouped(c, kv_heads=8, head_dim=128),
            "bias": c.get("attention_bias", False),
            **(turning if turns[i] else {"position": "none", "temperature": tempered}),
            "window": {"kind": "chunk", "size": chunk} if types[i] == "chunked_attention" else None,
        }

    def block(i: int) -> Block:
        if i not in sparse:
            return {"attention": attention(i), "ffn": gated(c, "intermediate_size_mlp")}
        expert = gated(c, "intermediate_size")
        router = {"score": "sigmoid", "normalize": False, "applies_to": "input"}
        return {"attention": attention(i), "ffn": moe(c, expert, router, shared=expert["width"])}

    c.ignore("intermediate_size_mlp", "intermediate_size", "num_local_experts", "num_experts_per_tok")
    return decoder(c, norm=norm, layers=each(c, block), tied=False)


def read_whole(c: Ledger) -> Written:
    """Llama4Config: the text part of a model that sees as well."""
    c.known(tie_word_embeddings=False)
    c.ignore("vision_config", "boi_token_index", "eoi_token_index", "image_token_index")
    return read(c.part("text_config"))


def _options(c: Ledger) -> tuple[Block | None, Block | None]:
    """The norm of q and k where they turn, the temperature of q where they do not."""
    normed, tempered = c.get("use_qk_norm", True), c.get("attn_temperature_tuning", True)
    norm = {"kind": "rmsnorm", "eps": float(c.get("rms_norm_eps", 1e-5)), "weight": "none"}
    temperature = {"slope": float(c.get("attn_scale", 0.1)), "period": c.whole("floor_scale", 8192)}
    return {"over": "head", "order": "after_rope", "norm": norm} if normed else None, temperature if tempered else None


_FFN = (
    *(rule(f"ffn.{x}.*", f"feed_forward.{x}_proj.*") for x in ("gate", "up", "down")),
    rule("ffn.router.*", "feed_forward.router.*"),
    rule("ffn.expert.gate.weight ffn.expert.up.weight", "feed_forward.experts.gate_up_proj", Fuse(1), Transpose()),
    rule("ffn.expert.down.weight", "feed_forward.experts.down_proj", Transpose()),
    *shared("feed_forward.shared_expert."),
)
_LAYER = (*PRE_NORMS, *ATTENTION, *_FFN)
FAMILIES = (
    decoder_family("llama4_text", read, _LAYER),
    decoder_family(
        "llama4",
        read_whole,
        _LAYER,
        base="language_model.model.",
        head="language_model.lm_head",
        aside=("vision_model.{path}", "multi_modal_projector.{path}"),
    ),
)
