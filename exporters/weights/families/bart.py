"""BART and what came after it under the same names: mBART, PLBART, Blenderbot, Pegasus, Marian, M2M-100 with NLLB.

They differ in where their norms stand and in their positions; a config says the rest in the same keys.
"""

from __future__ import annotations

from dataclasses import dataclass

from archspec.errors import WeightsError
from archspec.ops.embedding import SinusoidalPositions
from archspec.ops.head import LmHead
from archspec.ops.model import Model

from ..blocks import Block, Written, activation, each
from ..compare import is_zero
from ..config import Ledger
from ..maps import rule
from ..names import FAIRSEQ_LAYER
from ..seq2seq import encoder_decoder, encoder_decoder_family
from ..write import activation_name, config, layers


@dataclass(frozen=True)
class Form:
    """What a family's class says, and its config does not.

    kind: its model_type. name: how its classes begin; head: how the one with a head ends. pre: norms before the sublayers and a
    last one, or after. normed: is the embedding? learned: are positions, with `offset` rows before the first, or waves?
    scaled, act: defaults of scale_embedding and activation_function. trained_bias: is that of the logits trained, or 0?
    """

    kind: str
    name: str
    pre: bool
    normed: bool
    learned: bool
    offset: int = 0
    scaled: bool = False
    act: str = "gelu"
    trained_bias: bool = False
    head: str = "ForConditionalGeneration"

    def read(self, c: Ledger) -> Written:
        """The config of any of them."""
        self._as_said_before(c)
        c.known(tie_word_embeddings=True)
        shared = c.get("share_encoder_decoder_embeddings", True)
        if c.get("decoder_vocab_size", c["vocab_size"]) != c["vocab_size"]:
            raise WeightsError("the config has a decoder_vocab_size of its own, which the language does not have.")
        residual = c.get("dropout", 0.1)
        return encoder_decoder(
            c,
            norm={"kind": "layernorm", "eps": 1e-5},
            embedding={
                "position": self.positions(c),
                "scale": "sqrt(d_model)" if c.get("scale_embedding", self.scaled) else None,
                "norm": "layernorm" if self.normed else None,
                "share": None if shared else "none",
            },
            encoder=each(c, lambda i: self.block(c, "encoder"), "encoder_layers|num_hidden_layers"),
            decoder=each(c, lambda i: self.block(c, "decoder"), "decoder_layers"),
            head={"tied": True, "bias": self.biased(c)},
            length=c.whole("max_position_embeddings"),
            rates={
                "embedding": residual,
                "attention": c.get("attention_dropout", 0.0),
                "ffn": c.get("activation_dropout", 0.0),
                "residual": residual,
            },
            init={"kind": "normal", "std": c.get("init_std", 0.02)},
        )

    def _as_said_before(self, c: Ledger) -> None:
        """Keys of older configs that say what the class says, or what no class reads any more."""
        c.known(
            normalize_before=self.pre,
            add_final_layer_norm=self.pre,
            normalize_embedding=self.normed,
            static_position_embeddings=not self.learned,
        )
        c.ignore("extra_pos_embeddings", "do_blenderbot_90_layernorm", "extra_layer_norm", "layernorm_variant")

    def block(self, c: Ledger, side: str) -> Block:
        """A layer of one stack."""
        return {
            "placement": None if self.pre else "post",
            "attention": {"heads": c.whole(f"{side}_attention_heads"), "bias": True},
            "ffn": {
                "kind": "mlp",
                "width": c.whole(f"{side}_ffn_dim"),
                "activation": activation(c.get("activation_function", self.act)),
                "bias": True,
            },
        }

    def positions(self, c: Ledger) -> Block:
        """Learned; or all sines, then all cosines."""
        if self.learned:
            return {"kind": "learned", "offset": self.offset}
        return {"kind": "sinusoidal", "layout": "halves"}

    def biased(self, c: Ledger) -> bool:
        """Have the logits a bias? A checkpoint has the tensor even where it is 0 throughout; a config alone tells it of ours."""
        said = bool(c.get("add_bias_logits", False))
        if c.weights is None:
            return said or self.trained_bias
        return "final_logits_bias" in c.names and not is_zero(c.weights, "final_logits_bias")

    def write(self, model: Model, context_length: int | None) -> Written:
        """The config of a model."""
        embedding, head = model.main[1].embedding, model.head
        if not model.share_tokens:
            raise WeightsError(f"the {self.kind} form has one token table.")
        values: Written = {
            "d_model": embedding.width,
            "max_position_embeddings": context_length,
            "scale_embedding": embedding.scale != 1.0,
            "dropout": embedding.dropout,
            "tie_word_embeddings": not isinstance(head, LmHead) or head.tied,
            "add_bias_logits": isinstance(head, LmHead) and head.bias,
            **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id", "forced_eos_token_id")),
        }
        if isinstance(embedding.position, SinusoidalPositions) and embedding.position.offset:
            values["pad_token_id"] = embedding.position.offset - 1
        for side in ("encoder", "decoder"):
            parts = layers(model, self.kind, side)
            values |= {
                f"{side}_layers": len(parts.stack.layers),
                f"{side}_attention_heads": parts.attention.heads,
                f"{side}_ffn_dim": parts.ffn.hidden,
                "activation_function": activation_name(parts.ffn.activation),
                "attention_dropout": parts.attention.scores.dropout,
                "activation_dropout": parts.ffn.dropout,
            }
        return config(model, self.kind, self.name, self.head, values)


class Fairseq(Form):
    """M2M-100's positions count tokens alone, from the pad id on; its last wave is 2π · 10,000 long, and not the next after it."""

    def positions(self, c: Ledger) -> Block:
        """Waves of another length."""
        pairs, odd = divmod(c.whole("d_model"), 2)
        if odd or pairs < 2:
            raise WeightsError("the config has an odd d_model: its positions have a channel without a wave.")
        return {
            "kind": "sinusoidal",
            "layout": "halves",
            "base": 10000.0 ** (pairs / (pairs - 1)),
            "offset": c.get("pad_token_id", 1) + 1,
            "count": "unpadded",
        }

    def biased(self, c: Ledger) -> bool:
        """Never."""
        c.known(add_bias_logits=False)
        return False


FORMS = (
    Form("bart", "Bart", pre=False, normed=True, learned=True, offset=2),
    Form("mbart", "MBart", pre=True, normed=True, learned=True, offset=2),
    Form("plbart", "PLBart", pre=False, normed=True, learned=True, offset=2, scaled=True),
    Form("blenderbot", "Blenderbot", pre=True, normed=False, learned=True),
    Form("pegasus", "Pegasus", pre=True, normed=False, learned=False),
    Form("marian", "Marian", pre=False, normed=False, learned=False, trained_bias=True, head="MTModel"),
    Fairseq("m2m_100", "M2M100", pre=True, normed=False, learned=False, scaled=True, act="relu"),
)
FAMILIES = tuple(
    encoder_decoder_family(
        form.kind,
        form.read,
        FAIRSEQ_LAYER,
        decoder=(
            *(rule(f"cross_attention_{site}_norm.*", "encoder_attn_layer_norm.*") for site in ("input", "outer")),
            *(rule(f"cross_attention.{x}.*", f"encoder_attn.{x}_proj.*") for x in "qkv"),
            rule("cross_attention.o.*", "encoder_attn.out_proj.*"),
        ),
        write=None if form.kind == "pegasus" else form.write,  # transformers misses the waves that a Pegasus stores
        base="model.",
        stack=(
            rule("embedding.positions.weight", "embed_positions.weight"),
            rule("embedding.norm.*", "layernorm_embedding.*"),
        ),
        buffers=("embed_positions.weight", "embed_positions.weights", "version"),  # waves
    )
    for form in FORMS
)
