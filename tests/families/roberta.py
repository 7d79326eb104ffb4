from parity import Case, base

PADDED = ("right", "left")
POOLER = ("pooler.dense.weight", "pooler.dense.bias")


def sizes(**changes: object) -> dict[str, object]:
    return base(pad_token_id=1, bos_token_id=0, **changes)


def case(name: str, model: str, kind: str = "Roberta", **more: object) -> Case:
    return Case(
        name, f"{kind}Config", f"{kind}{model}", form="encoder", **{"values": sizes(), "padding": PADDED} | more
    )


CASES = [
    case("roberta", "ForMaskedLM", hf=True),
    case("roberta (another pad, relu)", "ForMaskedLM", hf=True,
         values=base(pad_token_id=2, hidden_act="relu", type_vocab_size=1)),
    case("roberta (bare)", "Model", unused=POOLER, hf=True),
    case("roberta (pooler)", "Model", padding=("right",), overrides=("head=pooler",), hf=True),
    case("roberta (labels of tokens)", "ForTokenClassification", values=sizes(num_labels=5), hf=True),
    case("roberta (answers)", "ForQuestionAnswering"),
    case("roberta (labels of texts)", "ForSequenceClassification", padding=("right",), hf=True),
    case("xlm_roberta", "ForMaskedLM", "XLMRoberta"),
    case("camembert", "ForMaskedLM", "Camembert"),
    case("data2vec_text", "ForMaskedLM", "Data2VecText"),
    case("xlm_roberta_xl", "ForMaskedLM", "XLMRobertaXL"),
    case("xlm_roberta_xl (bare)", "Model", "XLMRobertaXL", unused=POOLER),
]  # fmt: skip
