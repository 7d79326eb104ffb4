"""RoBERTa, XLM-RoBERTa, CamemBERT and data2vec's text model: BERT, whose positions count tokens alone, from the pad id on.

A table of positions has pad_token_id + 1 rows before the first; a padding token between others takes none.
"""

from __future__ import annotations

from dataclasses import replace

from archspec.errors import WeightsError
from archspec.ops.embedding import LearnedPositions
from archspec.ops.model import Model

from ..blocks import LENGTH, Block, Written, each, layernorm
from ..config import Ledger, shown
from ..encoders import ROBERTA_HEAD, ROBERTA_LABELS, bert_layer, config_of, encoder, encoder_family, pooled
from ..names import BERT_LAYER


def read(c: Ledger) -> Written:
    """RobertaConfig. The head's activation is GELU, whatever the layers have."""
    return encoder(
        c,
        norm=layernorm(c, 1e-12),
        embedding=embedding(c, types=2) | {"norm": "layernorm"},
        layers=each(c, lambda i: bert_layer(c)),
        lm={"transform": {"activation": "gelu"}},
        texts=pooled("tanh"),
        length=c.whole(LENGTH) - _before(c),
    )


def embedding(c: Ledger, types: int) -> Block:
    """Positions and token types; `types` is the family's default."""
    c.known(position_embedding_type="absolute")
    return {
        "position": {"kind": "learned", "offset": _before(c), "count": "unpadded"},
        "token_types": c.get("type_vocab_size", types),
    }


def _before(c: Ledger) -> int:
    """Rows before the first position."""
    pad = c.get("pad_token_id", 1)
    if not isinstance(pad, int) or not 0 <= pad < c.whole(LENGTH) - 1:
        raise WeightsError(f"the config has pad_token_id: {shown(pad)}, where the first positions are counted from it.")
    return pad + 1


def write(model: Model, context_length: int | None) -> Written:
    """RobertaConfig of a model."""
    position = model.main[1].embedding.position
    offset = position.offset if isinstance(position, LearnedPositions) else 0
    return config_of(model, "roberta", "Roberta") | {"pad_token_id": offset - 1 if offset else None}


ROBERTA = encoder_family(
    "roberta",
    read,
    BERT_LAYER,
    ROBERTA_HEAD,
    types=("roberta", "xlm-roberta", "camembert"),
    base="roberta.",
    labels=ROBERTA_LABELS,
    write=write,
)
DATA2VEC = replace(ROBERTA, name="data2vec_text", types=("data2vec-text",), base="data2vec_text.", write=None)
FAMILIES = (ROBERTA, DATA2VEC)
