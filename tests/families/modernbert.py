from parity import Case, base

SIZES = base(local_attention=8, num_hidden_layers=4)
PADDED = ("right", "left")


def case(name: str, model: str, **more: object) -> Case:
    return Case(name, "ModernBertConfig", model, form="encoder", **{"values": SIZES, "padding": PADDED} | more)


CASES = [
    case("modernbert", "ModernBertForMaskedLM"),
    case("modernbert (biases, silu, untied)", "ModernBertForMaskedLM",
         values=SIZES | {"attention_bias": True, "mlp_bias": True, "norm_bias": True, "classifier_bias": True,
                         "decoder_bias": False, "classifier_activation": "relu", "hidden_activation": "silu",
                         "tie_word_embeddings": False}),
    case("modernbert (bare)", "ModernBertModel"),
    case("modernbert (labels of texts)", "ModernBertForSequenceClassification", padding=("right",)),
    case("modernbert (labels of texts, mean)", "ModernBertForSequenceClassification",
         values=SIZES | {"classifier_pooling": "mean", "norm_bias": True, "classifier_bias": True, "num_labels": 5}),
    case("modernbert (labels of tokens)", "ModernBertForTokenClassification", values=SIZES | {"num_labels": 5}),
]  # fmt: skip
