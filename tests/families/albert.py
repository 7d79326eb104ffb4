from parity import Case, base

SIZES = base(embedding_size=12)
POOLER = ("pooler.weight", "pooler.bias")


def case(name: str, model: str, **more: object) -> Case:
    return Case(name, "AlbertConfig", model, form="encoder", **{"values": SIZES} | more)


CASES = [
    case("albert", "AlbertForMaskedLM"),
    case("albert (wide table, relu)", "AlbertForMaskedLM",
         values=base(embedding_size=24, hidden_act="relu")),
    case("albert (bare)", "AlbertModel", unused=POOLER),
    case("albert (pooler)", "AlbertModel", overrides=("head=pooler",)),
    case("albert (labels of tokens)", "AlbertForTokenClassification", values=SIZES | {"num_labels": 5}),
    case("albert (labels of texts)", "AlbertForSequenceClassification"),
    case("albert (groups)", "AlbertForMaskedLM", values=SIZES | {"num_hidden_layers": 4, "num_hidden_groups": 2},
         reason="the map has one set of weights for all layers; the published ones have no other"),
]  # fmt: skip
