from parity import Case, base

SIZES = base(hidden_dim=40)


def case(name: str, model: str, **more: object) -> Case:
    return Case(name, "DistilBertConfig", model, form="encoder", **{"values": SIZES} | more)


CASES = [
    case("distilbert", "DistilBertForMaskedLM", hf=True),
    case("distilbert (relu, untied)", "DistilBertForMaskedLM", hf=True,
         values=SIZES | {"activation": "relu", "tie_word_embeddings": False, "sinusoidal_pos_embds": True}),
    case("distilbert (bare)", "DistilBertModel", hf=True),
    case("distilbert (labels of tokens)", "DistilBertForTokenClassification", values=SIZES | {"num_labels": 5}, hf=True),
    case("distilbert (answers)", "DistilBertForQuestionAnswering"),
    case("distilbert (labels of texts)", "DistilBertForSequenceClassification", hf=True),
]  # fmt: skip
