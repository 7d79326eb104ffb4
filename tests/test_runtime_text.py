"""Text that grows token by token, special tokens, and chat templates."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from click.testing import CliRunner
from exported import exported, rows
from hypothesis import given
from hypothesis import strategies as st
from tiny import text as tiny_text
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from archspec.cli.run import command
from archspec.errors import UsageError
from archspec.exporters.runtime.chat import ChatTemplate, ChatTemplateError, Message
from archspec.exporters.runtime.generation import ContextError, Step
from archspec.exporters.runtime.session import Runtime
from archspec.exporters.runtime.text import Text, TextStream, Written, start_id
from archspec.exporters.weights.special import TextError

CORPUS = [
    "Hello world, hello there.",
    "naïve café – 100 €",
    "日本語のテキスト",
    "emoji 😀😁 and 👩‍👩‍👧",
    "  two  spaces",
]
CHATML = (
    "{% for message in messages %}\n"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}\n"
    "{% endfor %}\n"
    "{% if add_generation_prompt %}\n"
    "    {{ '<|im_start|>assistant\\n' }}\n"
    "{% endif %}"
)
CONVERSATION: list[Message] = [{"role": "user", "content": "Why is <b> bold?"}]


@cache
def byte_level() -> Tokenizer:
    """GPT-2's kind: a token is a run of bytes, and may end inside a character."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = [AddedToken(t, special=True) for t in ("<|im_start|>", "<|im_end|>")]
    trainer = trainers.BpeTrainer(
        vocab_size=330, initial_alphabet=alphabet, special_tokens=special, show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


@cache
def byte_fallback() -> Tokenizer:
    """Llama's kind: a space is ▁, a leading one is dropped, unknown characters are spelt in bytes."""
    words = ["▁", "▁Hello", "▁world", "Hello", *"abcdefghijklmnopqrstuvwxyzHW.,▁é"]
    vocab = {"<s>": 0, "</s>": 1, **{f"<0x{i:02X}>": i + 2 for i in range(256)}}
    for word in words:
        vocab.setdefault(word, len(vocab))
    tokenizer = Tokenizer(models.BPE(vocab, [], byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t in ("<s>", "</s>")])
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", None, [("<s>", 0)])
    return tokenizer


def folder(path: Path, **files: Any) -> Path:
    """A tokenizer's folder: keys are file names without their ending."""
    byte_level().save(str(path / "tokenizer.json"))
    for name, content in files.items():
        (path / f"{name}.json").write_text(json.dumps(content))
    return path


def stream(text: Text, ids: list[int]) -> Written:
    return Written(text, (Step((i,), (None,)) for i in ids), 0)


# ------------------------------------------------------------------------------------------------------------ streaming


@given(st.lists(st.sampled_from([*CORPUS, " ", "a", "\n"]) | st.text(max_size=8), max_size=4).map("".join))
@pytest.mark.parametrize("make", [byte_level, byte_fallback])
def test_pieces_join_to_the_whole(make: Any, written: str) -> None:
    text = Text(make(), {})
    ids = text.encode(written)
    assert "".join(stream(text, ids)) == text.decode(ids)


@given(st.lists(st.integers(0, 329), max_size=30))
def test_pieces_of_any_tokens_join_to_the_whole(ids: list[int]) -> None:
    """Tokens that no text encodes to as well: bytes that are not UTF-8."""
    text = Text(byte_level(), {})
    assert "".join(stream(text, ids)) == text.decode(ids)


@pytest.mark.parametrize("make", [byte_level, byte_fallback])
def test_no_replacement_characters_flash_up(make: Any) -> None:
    text = Text(make(), {})
    ids = text.encode("a 😀 日本 é")
    pieces = list(stream(text, ids))
    assert not any("\ufffd" in piece for piece in pieces)
    assert "😀" in pieces or " 😀" in pieces  # whole, once its last byte is there
    assert len(pieces) > 3


def test_text_that_ends_inside_a_character_is_told_at_the_end() -> None:
    text = Text(byte_level(), {})
    whole = text.encode("ab😀", add_special_tokens=False)
    growing = TextStream(text)
    pieces = [growing.push(i) for i in whole[:-1]]
    assert "".join(pieces) == "ab"
    assert growing.flush() == "\ufffd"
    assert growing.flush() == ""


def test_words_keep_their_spaces() -> None:
    text = Text(byte_fallback(), {})
    vocab = text.tokenizer.get_vocab()
    assert list(stream(text, [vocab["▁Hello"], vocab["▁world"], vocab["Hello"]])) == ["Hello", " world", "Hello"]


def test_special_tokens_are_silent() -> None:
    text = Text(byte_level(), {})
    end = text.tokenizer.token_to_id("<|im_end|>")
    ids = [end, *text.encode("Hello"), end, *text.encode(" there"), end]
    assert "".join(stream(text, ids)) == "Hello there"


# ----------------------------------------------------------------------------------------------------- special tokens


def test_special_tokens_come_from_the_files(tmp_path: Path) -> None:
    files = {
        "special_tokens_map": {"eos_token": "ignored", "pad_token": {"content": "<|im_start|>", "special": True}},
        "tokenizer_config": {"eos_token": {"content": "<|im_end|>"}, "unk_token": None, "bos_token": "absent"},
        "generation_config": {"eos_token_id": [5, 7], "decoder_start_token_id": 9, "temperature": 0.1},
    }
    text = Text.load(folder(tmp_path, **files))
    end = text.tokenizer.token_to_id("<|im_end|>")
    assert text.special("eos_token") == end
    assert text.special("pad_token") == text.tokenizer.token_to_id("<|im_start|>")
    assert (text.special("unk_token"), text.special("bos_token"), text.special("mask_token")) == (None, None, None)
    assert text.stop_ids == tuple(sorted({5, 7, end}))
    assert text.decoder_start_id == 9


def test_a_single_eos_id_and_none(tmp_path: Path) -> None:
    assert Text.load(folder(tmp_path, generation_config={"eos_token_id": 3})).stop_ids == (3,)
    assert Text(byte_level(), {}).stop_ids == ()
    assert Text(byte_fallback(), {"bos_token": "<s>"}).decoder_start_id == 0


def test_nothing_is_padded_or_cut(tmp_path: Path) -> None:
    """Tokenizer files carry the padding and truncation of somebody's training run."""
    tokenizer = Tokenizer.from_str(byte_level().to_str())
    tokenizer.enable_padding(length=64)
    tokenizer.enable_truncation(max_length=2)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    text = Text.load(tmp_path)
    assert text.decode(text.encode("Hello there, world")) == "Hello there, world"
    assert len(text.encode("a")) == 1


def test_frames_are_added_to_prompts_and_not_to_conversations() -> None:
    text = Text(byte_fallback(), {"chat_template": "{{ messages[0].content }}"})
    assert text.encode("a")[0] == 0
    assert text.encode_chat([{"role": "user", "content": "a"}]) == text.encode("a")[1:]


def test_tokens_by_id() -> None:
    text = Text(byte_level(), {})
    assert text.token(text.encode("a")[0]) == "a"
    assert text.token(10**6) == "<1000000>"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "has no tokenizer.json"),
        ("{", "is not JSON"),
        ("[]", "no JSON object"),
        ('{"a": 1}', "is not a tokenizer"),
    ],
)
def test_bad_tokenizers(tmp_path: Path, content: str | None, said: str) -> None:
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(TextError, match=said):
        Text.load(tmp_path)


# ---------------------------------------------------------------------------------------------------- text by a model


@pytest.fixture(scope="module")
def speaking(tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    """A tiny model with the byte-level tokenizer."""
    made = exported(
        tiny_text("llama"), tmp_path_factory.mktemp("export") / "llama", "vocab_size=330", "context_length=64"
    )
    folder(made.folder, tokenizer_config={"chat_template": CHATML})
    return Runtime.load(made.folder, "cpu")


def test_written_text_is_the_tokens_text(speaking: Runtime) -> None:
    pieces = list(speaking.write("Hello", temperature=1.0, seed=4, max_new_tokens=15))
    ids = speaking.text.encode("Hello")
    [tokens] = rows(speaking.generate([ids], temperature=1.0, seed=4, max_new_tokens=15))
    assert "".join(pieces) == speaking.text.decode(tokens)
    answer = "".join(speaking.write(CONVERSATION, max_new_tokens=5))
    [tokens] = rows(speaking.generate([speaking.text.encode_chat(CONVERSATION)], max_new_tokens=5))
    assert answer == speaking.text.decode(tokens)


def test_text_ends_before_the_stop_token(speaking: Runtime, tmp_path: Path) -> None:
    ids = speaking.text.encode("Hello")
    [tokens] = rows(speaking.generate([ids], temperature=1.0, seed=4, max_new_tokens=15))
    stop = next(t for i, t in enumerate(tokens) if i > 2 and t not in tokens[:i])
    config = {"eos_token_id": stop}
    own = copytree(speaking.folder.path, tmp_path / "own")
    ending = Runtime.load(folder(own, generation_config=config), "cpu")
    answer = ending.write("Hello", temperature=1.0, seed=4, max_new_tokens=15)
    assert answer.finish is None
    assert "".join(answer) == ending.text.decode(tokens[: tokens.index(stop)])
    assert answer.finish == "stop"
    asked = [str(ending.folder.path), "Hello", "--temperature=1", "--seed=4", "--json", "--device=cpu"]
    for most, finish in ((15, "stop"), (2, "length")):
        done = CliRunner().invoke(command, [*asked, f"-n{most}"], catch_exceptions=False)
        told = ending.text.decode(tokens[: min(most, tokens.index(stop))])
        assert json.loads(done.output) == {"text": told, "finish": finish}
        counted = CliRunner().invoke(command, [*asked, f"-n{most}", "--stats"]).stderr
        made = min(most, tokens.index(stop) + 1)  # the stop token is made, too
        assert f"tokens: {len(byte_level().encode('Hello').ids)} in the prompt, {made} made, " in counted


def test_tokens_that_are_no_text_yet_are_counted(speaking: Runtime) -> None:
    """A token may hold a part of a character, which is written when it is whole: fewer pieces than tokens."""
    assert len(list(speaking.write("Hello", temperature=1.0, seed=4, max_new_tokens=15))) < 15
    arguments = [str(speaking.folder.path), "Hello", "--temperature=1", "--seed=4", "-n15", "--device=cpu", "--stats"]
    told = CliRunner().invoke(command, arguments, catch_exceptions=False).stderr
    assert f"tokens: {len(byte_level().encode('Hello').ids)} in the prompt, 15 made, " in told


def test_what_is_written_carries_its_counts(speaking: Runtime) -> None:
    answer = speaking.write(CONVERSATION, temperature=1.0, seed=4, max_new_tokens=15)
    assert (answer.pace.read, answer.pace.made, answer.pace.rate) == (
        len(speaking.text.encode_chat(CONVERSATION)),
        0,
        None,
    )
    list(answer)
    assert answer.pace.made == 15
    assert answer.pace.wait > 0
    assert answer.pace.rate is not None


def test_room_after_a_text_is_that_after_its_tokens(speaking: Runtime) -> None:
    for prompt, ids in (
        ("Hello", speaking.text.encode("Hello")),
        (CONVERSATION, speaking.text.encode_chat(CONVERSATION)),
    ):
        assert speaking.room(prompt) == speaking.room(len(ids)) == 64 - len(ids) + 1


def test_text_that_comes_to_the_contexts_end_says_so(speaking: Runtime) -> None:
    answer = speaking.write("Hello", max_new_tokens=100)
    with pytest.raises(ContextError):
        list(answer)
    assert answer.finish == "length"


# ----------------------------------------------------------------------------------------------------- chat templates


def test_chatml_is_rendered_as_transformers_renders_it(tmp_path: Path) -> None:
    from transformers import PreTrainedTokenizerFast

    text = Text.load(folder(tmp_path, tokenizer_config={"chat_template": CHATML, "eos_token": "<|im_end|>"}))
    conversation: list[Message] = [{"role": "system", "content": "Be “brief”."}, *CONVERSATION]
    theirs = PreTrainedTokenizerFast(tokenizer_object=byte_level(), chat_template=CHATML)
    expected = theirs.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)
    assert text.chat_template.render(conversation) == expected
    assert text.encode_chat(conversation) == theirs.encode(expected, add_special_tokens=False)
    start = text.tokenizer.token_to_id("<|im_start|>")
    assert text.encode_chat(conversation).count(start) == 3  # one token each, not ten characters


def test_templates_may_use_what_hugging_face_gives_them() -> None:
    source = (
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'skip' %}{% continue %}{% endif %}"
        "{% generation %}{{ m | tojson }}{% endgeneration %}{% endfor %}{{ strftime_now('%Y') | length }}"
    )
    messages: list[Message] = [{"role": "skip", "content": ""}, {"role": "user", "content": "<é>"}]
    assert ChatTemplate(source, {"bos_token": "<s>"}).render(messages) == '<s>{"role": "user", "content": "<é>"}4'


def test_templates_are_found_where_they_are_kept(tmp_path: Path) -> None:
    listed = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "yes"}]
    assert Text(byte_level(), {"chat_template": listed}).chat_template.render(CONVERSATION) == "yes"
    (folder(tmp_path, tokenizer_config={"chat_template": "no"}) / "chat_template.jinja").write_text("file")
    assert Text.load(tmp_path).chat_template.render(CONVERSATION) == "file"
    with pytest.raises(ChatTemplateError, match="has no chat template"):
        Text(byte_level(), {}).encode_chat(CONVERSATION)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{% for %}", "is not Jinja: line 1"),
        ("{{ raise_exception('Roles must alternate') }}", "refuses this conversation: Roles must alternate"),
        ("{{ messages.append(1) }}", "refuses this conversation"),
        ("{{ ''.__class__.__mro__ }}", "refuses this conversation"),
        ("{{ messages[0].content + 1 }}", "fails on this conversation"),
        ("{{ 1 / 0 }}", "fails on this conversation"),
        ("{{ nothing.at.all }}", "refuses this conversation"),
        ("{% include 'x' %}", "fails on this conversation"),
        ("{{ range(10**9) }}", "fails on this conversation"),
    ],
)
def test_bad_templates(source: str, said: str) -> None:
    with pytest.raises(ChatTemplateError, match=said):
        ChatTemplate(source, {}).render(CONVERSATION)


def test_ends_are_heeded_without_a_tokenizer_too(speaking: Runtime, tmp_path: Path) -> None:
    path = copytree(speaking.folder.path, tmp_path / "bare")
    (path / "tokenizer.json").unlink()
    asked = {"temperature": 1.0, "seed": 4, "max_new_tokens": 15}
    [tokens] = rows(Runtime.load(path, "cpu").generate([[1, 2, 3]], **asked))
    stop = next(t for i, t in enumerate(tokens) if i > 2 and t not in tokens[:i])
    for ends in (stop, [stop, 329]):
        (path / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
        [ended] = rows(Runtime.load(path, "cpu").generate([[1, 2, 3]], **asked))
        assert ended == tokens[: tokens.index(stop) + 1]
    for wrong in ("{", '{"eos_token_id": "x"}'):
        (path / "generation_config.json").write_text(wrong)
        with pytest.raises(TextError, match=r"generation_config\.json"):
            next(Runtime.load(path, "cpu").generate([[1, 2, 3]], **asked))


def test_an_answer_starts_from_one_token(tmp_path: Path) -> None:
    assert start_id(tmp_path) is None
    for said, start in ((9, 9), ([9], None)):
        (tmp_path / "generation_config.json").write_text(json.dumps({"decoder_start_token_id": said}))
        assert start_id(tmp_path) == start


@pytest.mark.parametrize("key", ["eos_token_id", "decoder_start_token_id"])
@pytest.mark.parametrize("given", ["x", -1, 2.0, True, [2, None]])
def test_an_end_that_never_comes_is_refused(key: str, given: object, tmp_path: Path) -> None:
    with pytest.raises(TextError, match=f"`{key}` is .*no token id"):
        Text.load(folder(tmp_path, generation_config={key: given}))


def test_a_chat_template_that_is_not_text(tmp_path: Path) -> None:
    (folder(tmp_path) / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(TextError, match="is not UTF-8 text"):
        Text.load(tmp_path)


def test_what_comes_on_stdin_is_text(speaking: Runtime) -> None:
    done = CliRunner().invoke(command, [str(speaking.folder.path), "-", "--device=cpu", "-n1"], input=b"ab\xff\n")
    assert isinstance(done.exception, UsageError)
    assert "stdin is not UTF-8" in str(done.exception)
