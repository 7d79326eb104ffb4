"""What encoders have in common: a config as a spec and back, the head that its class has, and the names of tensors.

A config says which head its checkpoint has by the name of a class, in `architectures`. Where the weights are there and have no
masked-language head, they are of the layers alone: sentence encoders are often published under the class that they began as.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from archspec.errors import WeightsError
from archspec.ops.head import ClassifierHead, NoHead, PoolerHead
from archspec.ops.model import Model

from .blocks import HEADS, LENGTH, WIDTH, Block, Written, dtype, mlp, said
from .config import Ledger
from .entries import stacked
from .maps import Family, Rule, matcher, rule, under
from .write import activation_name, config, eps, layers

#: How the classes end that have a masked-language head, a label for a text, and one for every token.
MASKED = ("ForMaskedLM", "ForPreTraining")
OF_TEXTS = ("ForSequenceClassification",)
OF_TOKENS = ("ForTokenClassification", "ForQuestionAnswering")


# ------------------------------------------------------------------------------------------------------------- a config


def encoder(
    c: Ledger,
    *,
    norm: Block,
    embedding: Block,
    layers: Sequence[Block],
    lm: Block,
    masked: tuple[str, ...] = MASKED,
    texts: Block | None = None,
    tokens: Block | None = None,
    stack: Block | None = None,
    length: int | None = None,
    width: int | None = None,
    rates: Block | None = None,
) -> Written:
    """An encoder with the head that its class has.

    lm: the masked-language head, of classes whose names end in `masked`. texts, tokens: what a classifier of texts and one of
    tokens say beside their labels; by default there is no map for the one, and the other reads each token as it is. stack: what
    it says beside its layers. length, width: where the config does not say them under a usual name. rates: of dropping, by their
    sites; by default those of BERT.
    """
    c.known(is_decoder=False, add_cross_attention=False, is_encoder_decoder=False)
    written = {
        "vocab_size": c.whole("vocab_size"),
        "context_length": length or c.whole(LENGTH),
        "d_model": width or c.whole(WIDTH),
        "dtype": dtype(c),
        "norm": norm,
        "embedding": embedding,
        "encoder": {**stacked([said("block", layer) for layer in layers]), **(stack or {})},
        "head": head(c, lm, masked, texts, tokens or {"pool": "tokens"}),
        "dropout": {site: float(rate) for site, rate in (rates or bert_dropout(c)).items() if rate},
        "init": {"kind": "normal", "std": c.get("initializer_range", 0.02)},
    }
    return {key: value for key, value in said("top", written).items() if value not in ({}, {"kind": "normal"})}


def pooled(activation: str) -> Block:
    """A classifier of texts that reads the first token through a dense layer."""
    return {"pool": "first", "transform": {"activation": activation}}


def head(c: Ledger, lm: Block, masked: tuple[str, ...], texts: Block | None, tokens: Block) -> Block | str:
    """What the config's class reads off the last layer; the masked-language head where it names none.

    A body alone has no head: whether it has a pooler, the config does not say.
    Raises `WeightsError` for any other head.
    """
    name, tied = c.architecture("ForMaskedLM"), c.get("tie_word_embeddings", True)
    if name.endswith(masked):
        return {"tied": tied, "bias": True, **lm}
    if name.endswith("Model") and not name.endswith("HeadModel"):
        return "none"
    labelled = texts if name.endswith(OF_TEXTS) else tokens if name.endswith(OF_TOKENS) else None
    if labelled:
        labels = len(c.get("id2label") or ()) or c.whole("num_labels", 2)
        return {"kind": "classifier", "labels": labels, **labelled}
    body = name.partition("For")[0].removesuffix("LMHeadModel") + "Model"
    raise WeightsError(
        f"the config has architectures: {name}, whose head this map does not have.",
        f'for the layers without it: "architectures": ["{body}"] in the config',
    )


def bert_layer(c: Ledger, act: str = "gelu") -> Block:
    """A layer of BERT: norms after the sums, biases everywhere; `act` is the family's default."""
    return {"placement": "post", "attention": {"heads": c.whole(HEADS), "bias": True}, "ffn": mlp(c, act)}


def bert_dropout(c: Ledger, rate: float = 0.1) -> Block:
    """Rates of dropping as BERT says them; `rate` is the family's default."""
    hidden = c.get("hidden_dropout_prob", rate)
    return {
        "embedding": hidden,
        "attention": c.get("attention_probs_dropout_prob", rate),
        "residual": hidden,
    }


def config_of(model: Model, kind: str, architecture: str) -> Written:
    """config.json of an encoder in BERT's names."""
    parts = layers(model, kind)
    values = {
        "max_position_embeddings": parts.rows,
        "hidden_size": parts.stack.embedding.width,
        "num_hidden_layers": len(parts.stack.layers),
        "num_attention_heads": parts.attention.heads,
        "intermediate_size": parts.ffn.hidden,
        "hidden_act": activation_name(parts.ffn.activation),
        "layer_norm_eps": eps(parts.stack.embedding.norm),
        "type_vocab_size": parts.stack.embedding.token_types,
        "hidden_dropout_prob": parts.stack.embedding.dropout,
        "attention_probs_dropout_prob": parts.attention.scores.dropout,
    }
    return headed(model, kind, architecture, values)


def headed(model: Model, kind: str, architecture: str, values: Written) -> Written:
    """The same in any names, with what says which head it has."""
    if isinstance(model.head, NoHead | PoolerHead):
        values |= {"tie_word_embeddings": True}  # as the classes say it where they tie nothing
    if not isinstance(model.head, ClassifierHead):
        return config(model, kind, architecture, "ForMaskedLM", values)
    labels = {str(i): f"LABEL_{i}" for i in range(model.head.labels)}
    values |= {"tie_word_embeddings": True, "id2label": labels, "label2id": {v: int(k) for k, v in labels.items()}}
    return config(model, kind, architecture, (OF_TOKENS if model.head.pool == "tokens" else OF_TEXTS)[0], values)


# -------------------------------------------------------------------------------------------------------------- names

#: Tables and the norm of their sum, as BERT names them.
EMBEDDING = (
    rule("encoder.embedding.tokens.weight", "embeddings.word_embeddings.weight"),
    rule("encoder.embedding.positions.weight", "embeddings.position_embeddings.weight"),
    rule("encoder.embedding.types.weight", "embeddings.token_type_embeddings.weight"),
    rule("encoder.embedding.norm.*", "embeddings.LayerNorm.*"),
)
#: The masked-language head of BERT, and that of RoBERTa.
BERT_HEAD = (
    rule("head.dense.*", "cls.predictions.transform.dense.*"),
    rule("head.norm.*", "cls.predictions.transform.LayerNorm.*"),
    rule("head.out.weight", "cls.predictions.decoder.weight"),
    rule("head.out.bias", "cls.predictions.bias", copies="cls.predictions.decoder.bias"),
)
ROBERTA_HEAD = (
    rule("head.dense.*", "lm_head.dense.*"),
    rule("head.norm.*", "lm_head.layer_norm.*"),
    rule("head.out.weight", "lm_head.decoder.weight"),
    rule("head.out.bias", "lm_head.bias", copies="lm_head.decoder.bias"),
)
#: The linear of a classifier, and all of RoBERTa's of texts.
CLASSIFIER = (rule("head.out.*", "classifier.*"), rule("head.out.*", "qa_outputs.*"))
ROBERTA_LABELS = (rule("head.dense.* head.out.*", "classifier.dense.* classifier.out_proj.*"),)


def encoder_family(
    name: str,
    read: Callable[[Ledger], Written],
    layer: Sequence[Rule],
    lm: Sequence[Rule],
    *,
    base: str,
    types: tuple[str, ...] = (),
    write: Callable[[Model, int | None], Written] | None = None,
    layers: str = "encoder.layer.{i}.",
    body: Sequence[Rule] = (),
    pooler: str = "pooler.dense",
    labels: Sequence[Rule] = (),
    aside: tuple[str, ...] = (),
) -> Family:
    """An encoder whose layers' names are `layer`, those of its masked-language head `lm`, the rest BERT's.

    types: by default the family's name. body: further rules outside the layers, names below `base`. labels: of a classifier that
    is not a linear on the pooler. aside: full names of weights
    of heads that the language does not have.
    """
    pools = (rule("head.dense.*", f"{{base}}{pooler}.*"),)

    def as_stored(c: Ledger) -> Written:
        """What the config says; no head where the file has no masked-language one."""
        stated, known = read(c), [matcher(name) for r in lm for name in (*r.theirs, *r.copies)]
        masked = isinstance(stated["head"], dict) and "tied" in stated["head"]
        if masked and c.names and not any(pattern.fullmatch(name) for pattern in known for name in c.names):
            return {**stated, "head": "none"}
        return stated

    return Family(
        name=name,
        types=types or (name,),
        read=as_stored,
        write=write,
        base=base,
        body=(*EMBEDDING, *body, *under("encoder.layers.{i}.", layers, layer)),
        heads={"lm": tuple(lm), "pooler": pools, "classifier": (*labels, *CLASSIFIER, *pools)},
        buffers=("embeddings.position_ids", "embeddings.token_type_ids"),
        aside=("cls.seq_relationship.*", *aside),
    )
