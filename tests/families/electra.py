from parity import Case, base

SIZES = base(embedding_size=12)


def case(name: str, model: str, **more: object) -> Case:
    return Case(name, "ElectraConfig", model, form="encoder", **{"values": SIZES} | more)


CASES = [
    case("electra", "ElectraForMaskedLM"),
    case("electra (wide table, relu, untied)", "ElectraForMaskedLM",
         values=base(embedding_size=24, hidden_act="relu", tie_word_embeddings=False)),
    case("electra (bare)", "ElectraModel"),
    case("electra (labels of tokens)", "ElectraForTokenClassification", values=SIZES | {"num_labels": 5}),
    case("electra (labels of texts)", "ElectraForSequenceClassification"),
    case("electra (discriminator)", "ElectraForPreTraining",
         reason="the map has no head of its pretraining; the layers alone can be read"),
]  # fmt: skip
