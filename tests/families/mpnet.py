from parity import Case, base

PADDED = ("right", "left")
SIZES = base(pad_token_id=1, bos_token_id=0)
POOLER = ("pooler.dense.weight", "pooler.dense.bias")


def case(name: str, model: str, **more: object) -> Case:
    return Case(name, "MPNetConfig", model, form="encoder", **{"values": SIZES, "padding": PADDED} | more)


CASES = [
    case("mpnet", "MPNetForMaskedLM"),
    case("mpnet (relu)", "MPNetForMaskedLM", values=SIZES | {"hidden_act": "relu"}),
    case("mpnet (bare)", "MPNetModel", unused=POOLER),
    case("mpnet (pooler)", "MPNetModel", padding=("right",), overrides=("head=pooler",)),
    case("mpnet (labels of tokens)", "MPNetForTokenClassification", values=SIZES | {"num_labels": 5}),
    case("mpnet (labels of texts)", "MPNetForSequenceClassification", padding=("right",)),
    case("mpnet (another pad)", "MPNetForMaskedLM", values=base(),
         reason="padding that positions leave out has the id 1, whatever the config says"),
]  # fmt: skip
