from parity import Case, base

PADDED = ("right", "left")


def case(name: str, model: str, **more: object) -> Case:
    return Case(name, "NomicBertConfig", model, form="encoder", **{"values": base(), "padding": PADDED} | more)


CASES = [
    case("nomic_bert", "NomicBertForMaskedLM"),
    case("nomic_bert (wide heads, gelu)", "NomicBertForMaskedLM",
         values=base(head_dim=6, hidden_act="gelu", rope_parameters={"rope_type": "linear", "rope_theta": 500.0, "factor": 4.0})),
    case("nomic_bert (bare)", "NomicBertModel"),
    case("nomic_bert (labels of tokens)", "NomicBertForTokenClassification", values=base(num_labels=5)),
    case("nomic_bert (labels of texts)", "NomicBertForSequenceClassification", padding=("right",)),
]  # fmt: skip
