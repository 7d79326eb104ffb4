from parity import Case, base

V1 = {
    "relative_attention": True,
    "pos_att_type": "c2p|p2c",
    "position_biased_input": False,
    "max_relative_positions": 16,
}
V2 = {
    "relative_attention": True, "pos_att_type": "p2c|c2p", "position_biased_input": False, "position_buckets": 6,
    "norm_rel_ebd": "layer_norm", "share_att_key": True, "max_relative_positions": 12,
}  # fmt: skip


def case(name: str, kind: str, model: str, values: dict[str, object], **more: object) -> Case:
    # transformers counts padding in the embedding's positions, and takes the first column for the first token
    by_column = values.get("position_biased_input", True) or model == "ForSequenceClassification"
    padding = ("right",) if by_column else ("right", "left")
    return Case(name, f"{kind}Config", f"{kind}{model}", values=base(**values), form="encoder", padding=padding, **more)


CASES = [
    case("deberta", "Deberta", "ForMaskedLM", V1),
    case("deberta (bare, one term, short table)", "Deberta", "Model", V1 | {"pos_att_type": ["p2c"], "max_relative_positions": 5}),
    case("deberta (positions in the embedding too, types)", "Deberta", "ForMaskedLM",
         V1 | {"position_biased_input": True, "type_vocab_size": 2, "pos_att_type": "c2p"}),
    case("deberta_v2", "DebertaV2", "ForMaskedLM", V2),
    case("deberta_v2 (labels of texts)", "DebertaV2", "ForSequenceClassification", V2 | {"num_labels": 3}),
    case("deberta (labels of texts)", "Deberta", "ForSequenceClassification", V1 | {"pooler_hidden_act": "tanh"}),
    case("deberta_v2 (bare)", "DebertaV2", "Model", V2),
    case("deberta_v2 (own linears, no norm, another head)", "DebertaV2", "ForMaskedLM",
         V2 | {"share_att_key": False, "norm_rel_ebd": "none", "legacy": False}),
    case("deberta_v2 (every distance, labels of tokens)", "DebertaV2", "ForTokenClassification",
         V2 | {"position_buckets": -1, "num_labels": 5}),
    case("deberta_v2 (no relative attention)", "DebertaV2", "ForMaskedLM", {"type_vocab_size": 2}),
    case("deberta_v2 (convolution)", "DebertaV2", "ForMaskedLM", V2 | {"conv_kernel_size": 3},
         reason="a convolution beside the first layer is no part of the language"),
    case("deberta (no terms)", "Deberta", "ForMaskedLM", V1 | {"pos_att_type": None},
         reason="a table of distances that nothing is compared with"),
]  # fmt: skip
