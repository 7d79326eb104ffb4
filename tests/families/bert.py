from parity import Case, base

POOLER = ("pooler.dense.weight", "pooler.dense.bias")


def case(name: str, model: str, **more: object) -> Case:
    return Case(name, "BertConfig", model, form="encoder", **{"values": base()} | more)


CASES = [
    case("bert", "BertForMaskedLM", hf=True),
    case("bert (another activation)", "BertForMaskedLM", hf=True,
         values=base(hidden_act="gelu_new", type_vocab_size=3, layer_norm_eps=1e-3)),
    case("bert (bare)", "BertModel", unused=POOLER, hf=True),
    case("bert (pooler)", "BertModel", overrides=("head=pooler",), hf=True),
    case("bert (labels of tokens)", "BertForTokenClassification", values=base(num_labels=5), hf=True),
    case("bert (answers)", "BertForQuestionAnswering"),
    case("bert (labels of texts)", "BertForSequenceClassification", hf=True),
    case("bert (untied)", "BertForMaskedLM", values=base(tie_word_embeddings=False),
         reason="untied, its head has two biases, of which one lies idle; the map takes them for one"),
    case("bert (decoder)", "BertForMaskedLM", values=base(is_decoder=True), reason="the map has encoders only"),
]  # fmt: skip
