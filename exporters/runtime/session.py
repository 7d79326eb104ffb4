"""An exported folder at work: generation, filled masks, embeddings, on ONNX Runtime."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archspec.errors import UsageError
from archspec.language.model import Spec
from archspec.ops.head import LmHead, NoHead, PoolerHead
from archspec.ops.model import Form

from .cache import Value
from .chat import Message
from .decode import Decoding, host, run_bound
from .demands import demand_generation, demand_pooling, demand_rows, demand_source
from .device import Device, DeviceReport, open_session
from .folder import ExportFolder, open_folder
from .generation import Limits, Step, generated, padded
from .ids import Given, Ids, Rows, rows_of
from .pooling import Floats32, Pooling, Way, pooling_of, unit
from .replay import replayable
from .sampling import Sampling, softmax
from .search import Search, search_of
from .text import Text, Written, end_ids, forced_ids, start_id

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Filled:
    """What could stand at one masked place, the likeliest first."""

    row: int
    column: int
    tokens: tuple[int, ...]
    probabilities: tuple[float, ...]


class Runtime:
    """A model that `archspec export` wrote. `Runtime.load(folder)`; several generations may be in flight at once."""

    #: Where it runs, as the live session says.
    device: DeviceReport

    def __init__(
        self, folder: ExportFolder, device: Device = "auto", threads: int | None = None, cuda_graph: bool = False
    ) -> None:
        self.folder, self._recorded = folder, cuda_graph
        self._main, self.device = open_session(folder.main, device, threads, cuda_graph=cuda_graph)
        #: May steps be recorded?
        self.recordable = replayable(self._main)
        if cuda_graph and not self.recordable:
            raise UsageError(
                f"the steps of {folder.path} cannot be recorded as a CUDA graph: not every cache is one buffer",
                "export with --target ort; `archspec export` says which attentions are fused",
            )
        self._encoder = open_session(folder.encoder, self.device.device, threads)[0] if folder.encoder else None
        self._threads = threads
        self._inputs = {i.name for i in self._main.get_inputs()}

    @cached_property
    def _texts(self) -> Any:
        """The session that reads whole texts."""
        path = self.folder.path / self.folder.graphs["logits"]
        return self._main if path == self.folder.main else open_session(path, self.device.device, self._threads)[0]

    @classmethod
    def load(
        cls,
        folder: str | Path,
        device: Device = "auto",
        threads: int | None = None,
        *,
        check: bool = False,
        cuda_graph: bool = False,
    ) -> Runtime:
        """Open an exported folder.

        device: `cuda` means CUDA and nothing else; `auto` takes CUDA where it works. `runtime.device` says what it is.
        threads: of one operation on the CPU; by default one a core.
        check: read the whole weights file first and compare its hash with the one it was written with.
        cuda_graph: record the step of one token as a CUDA graph and replay it; for exports whose every cache is a buffer.
        Raises FolderError for a folder that is no sound export, DeviceError where CUDA is demanded and not to be had.
        """
        return cls(open_folder(Path(folder), check=check), device, threads, cuda_graph)

    def __repr__(self) -> str:
        return f"<Runtime {self.spec.name}: {self.form} on {self.device.device}>"

    @property
    def form(self) -> Form:
        return self.folder.form

    @property
    def spec(self) -> Spec:
        """The complete spec that was exported."""
        return self.folder.spec

    @cached_property
    def text(self) -> Text:
        """The folder's tokenizer. Raises TextError where it has none."""
        return Text.load(self.folder.path)

    @property
    def has_text(self) -> bool:
        """Is there a tokenizer?"""
        return (self.folder.path / "tokenizer.json").is_file()

    @cached_property
    def _ends(self) -> tuple[int, ...]:
        """Tokens that end an answer, as the folder's files say."""
        return self.text.stop_ids if self.has_text else end_ids(self.folder.path)

    @cached_property
    def begins(self) -> list[int]:
        """What an encoder-decoder's answer begins with, as the folder's files say; nothing where they do not."""
        start = self.text.decoder_start_id if self.has_text else start_id(self.folder.path)
        return [] if start is None else [start, *forced_ids(self.folder.path)]

    @cached_property
    def _search(self) -> Search:
        """How tokens are chosen, as the folder's generation_config.json says."""
        return search_of(self.folder.path, self._ends)

    @property
    def unapplied(self) -> Mapping[str, Any]:
        """Settings of generation_config.json that change which tokens are chosen and are not applied here: beams, penalties."""
        return self._search.unapplied

    @cached_property
    def pooling(self) -> Pooling:
        """How `embed` makes a vector: the mean of the tokens, of length 1, unless files of sentence-transformers say otherwise.

        Raises UsageError where they say what is not done here.
        """
        return pooling_of(self.folder.path)

    # ---- generation

    def generate(
        self,
        prompts: Given | None = None,
        *,
        max_new_tokens: int | None = None,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        stop: int | Collection[int] | None = None,
        source: Given | None = None,
        decoder_start: int | None = None,
        slide: bool = False,
    ) -> Iterator[Step]:
        """Tokens after the prompts, step by step: each step is computed when it is asked for.

        prompts: B rows of token ids, of any lengths: lists, an array or a tensor. Beside an encoder they are what the answer
            begins with; left out, that is `decoder_start`, or the tokenizer's own start token.
        source: B rows for the encoder, which runs once.
        max_new_tokens: None goes on to the context's end.
        temperature, top_k, top_p, seed: as `Sampling` defines them; temperature 0 is greedy.
        stop: tokens that end a row; None takes what the folder's files say.
        slide: a text at the context's end loses all but the last half context, which is read anew, and goes on; say max_new_tokens.

        Stopping to ask frees the caches; the runtime stays usable. Raises UsageError for arguments that do not fit the model
        and ContextError for a prompt over the context, both at once; ContextError as well at the step that would leave the
        context before `max_new_tokens` are made, unless it slides.
        """
        sampling = Sampling(temperature, top_k, top_p, seed)
        demand_generation(self.folder, source)
        if max_new_tokens is None and self.spec.context_length is None:
            raise UsageError(f"{self.spec.name} states no context_length", "say max_new_tokens")
        if slide and max_new_tokens is None:
            raise UsageError("a context that slides has no end", "say max_new_tokens")
        if max_new_tokens is not None and max_new_tokens < 1:
            raise UsageError(f"{max_new_tokens} new tokens are nothing to do", "max_new_tokens must be at least 1")
        sources = None if source is None else demand_rows(self.folder, source, "source")
        rows = demand_rows(self.folder, self._prompts(prompts, sources, decoder_start), "prompts")
        stop = self._ends if stop is None else [stop] if isinstance(stop, int) else stop
        fixed: dict[str, Value] = {}
        if sources is not None:
            fixed = self._encode(sources, len(rows))
        prefixed = "prefix_length" in self._inputs

        limits = Limits(frozenset(stop), max_new_tokens, self.spec.context_length, slide)
        device, recorded = self.device.device, self._recorded

        def begin(given: Sequence[int], room: int) -> Decoding:
            # a prefix model sees its prompt from both sides
            prefix = {"prefix_length": host(np.array(given, np.int64))} if prefixed else {}
            return Decoding(
                self._main, device, len(given), fixed | prefix, room, context=limits.context, recorded=recorded
            )

        return generated(begin, rows, sampling, self._search, limits, prefixed or self.folder.model.grows)

    def write(
        self,
        prompt: str | Sequence[Message],
        *,
        max_new_tokens: int | None = None,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        stop: int | Collection[int] | None = None,
        decoder_start: int | None = None,
        slide: bool = False,
    ) -> Written:
        """Text after a prompt, or the answer in a conversation, in pieces as it is made; `finish` says in the end why it ended,
        and `pace` how many tokens were read and made, and how fast.

        Beside an encoder the prompt is the source. All else is as in `generate`. Raises as that does, TextError without a
        tokenizer, and ChatTemplateError for a conversation that the folder's template does not take.
        """
        text = self.text
        ids = [text.ids(prompt)]
        beside = self.form == "encoder_decoder"
        steps = self.generate(
            None if beside else ids,
            source=ids if beside else None,
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
            stop=stop,
            decoder_start=decoder_start,
            slide=slide,
        )
        return Written(text, steps, len(ids[0]))

    @property
    def generates(self) -> bool:
        """Does it continue texts? A decoder, alone or beside an encoder, with an lm head does."""
        return self.folder.generates

    def room(self, prompt: int | str | Sequence[Message]) -> int | None:
        """New tokens that the context leaves after a prompt of so many, or after what `write` takes. None: there is no context."""
        context = self.spec.context_length
        if not isinstance(prompt, int):  # beside an encoder it is the source, and the answer has what it begins with
            prompt = len(self.begins) if self.form == "encoder_decoder" else len(self.text.ids(prompt))
        return None if context is None else context - prompt + 1  # the last token made is not read again

    def _prompts(self, prompts: Given | None, source: Ids | None, start: int | None) -> Given:
        if prompts is not None and start is not None:
            raise UsageError("a prompt and a start token both say what the answer begins with", "give one of them")
        if prompts is not None:
            return prompts
        if source is None:
            raise UsageError("there are no prompts to continue")
        begins = self.begins if start is None else [start]
        if not begins:
            raise UsageError("nothing says which token the decoder starts from", "--start or --ids says it")
        return [begins] * len(source)

    def _encode(self, source: Ids, rows: int) -> dict[str, Value]:
        """What the main graph takes of a source: the encoder's keys and values, on the device, and the source's mask."""
        assert self._encoder is not None
        given = self._source(source, rows, "prompts")
        wanted = {i.name for i in self._encoder.get_inputs()}
        outputs = {o.name: self.device.device for o in self._encoder.get_outputs()}
        cross = run_bound(self._encoder, {k: v for k, v in given.items() if k in wanted}, outputs)
        return {k: v for k, v in {**cross, "source_mask": given["source_mask"]}.items() if k in self._inputs}

    def _source(self, source: Ids, rows: int, what: Rows) -> dict[str, Value]:
        """The encoder's inputs, one row for each of the decoder's."""
        if len(source) != rows:
            raise UsageError(f"there are {len(source)} rows of source and {rows} {what}", "give one for each")
        ids, mask = padded(source)
        arrays = {"source_ids": ids, "source_mask": mask, "source_token_type_ids": np.zeros_like(ids)}
        return {name: host(array) for name, array in arrays.items()}

    # ---- whole texts

    def forward(self, ids: Given, *, token_types: Given | None = None, source: Given | None = None) -> Floats:
        """What the head gives for whole texts: logits B T V, hidden states B T D, pooled B D or labels.

        Rows are padded on the right; what stands at padding has no meaning. Raises UsageError and ContextError as `generate`.
        """
        texts = demand_rows(self.folder, ids, "texts")
        rows, mask = padded(texts)
        inputs = {"input_ids": host(rows), "attention_mask": host(mask), "token_type_ids": host(np.zeros_like(rows))}
        inputs["prefix_length"] = host(np.zeros(len(rows), np.int64))  # causal throughout
        demand_source(self.folder, source)
        if source is not None:
            inputs |= self._source(demand_rows(self.folder, source, "source"), len(rows), "texts")
        taken = {i.name for i in self._texts.get_inputs()}
        if token_types is not None:
            if "token_type_ids" not in taken:
                raise UsageError(f"{self.spec.name} has no token types")
            types = rows_of(token_types, "token types")
            if list(map(len, types)) != list(map(len, texts)):
                raise UsageError("the token types have other lengths than the texts", "give one type for each token")
            inputs["token_type_ids"] = host(padded(types)[0])
        name = self._texts.get_outputs()[0].name
        values = run_bound(self._texts, {k: v for k, v in inputs.items() if k in taken}, {name: "cpu"})
        result: Floats = values[name].numpy()
        return result

    def fill_mask(self, ids: Given, mask_token_id: int, top: int = 5) -> list[Filled]:
        """The likeliest tokens at every `mask_token_id` of the texts, row by row. An encoder with an lm head is needed."""
        if self.form != "encoder" or not isinstance(self.folder.model.head, LmHead):
            raise UsageError(f"{self.spec.name} does not fill masks", "an encoder with an lm head does")
        texts = demand_rows(self.folder, ids, "texts")
        places = [(r, c) for r, row in enumerate(texts) for c, i in enumerate(row) if i == mask_token_id]
        if not places:
            raise UsageError(f"no text holds the mask token {mask_token_id}")
        if not 1 <= top <= self.spec.vocab_size:
            raise UsageError(f"there are 1 to {self.spec.vocab_size} tokens to list, not {top}")
        logits = self.forward(texts)[tuple(np.array(places).T)]  # masked places, V
        chances = softmax(logits)
        best = np.argsort(-chances, axis=-1, kind="stable")[:, :top]
        return [
            Filled(r, c, tuple(map(int, b)), tuple(map(float, p[b])))
            for (r, c), b, p in zip(places, best, chances, strict=True)
        ]

    def embed(self, ids: Given, pooling: Way | None = None, normalize: bool | None = None) -> Floats32:
        """B texts -> B D: a vector each, from a model without a head or with a pooler.

        pooling: the mean over the text's tokens, its first, or its last; a pooler's vector is what it is. normalize: to
        length 1, so that products are cosines. What is not said is as `self.pooling` has it.
        """
        head = self.folder.model.head
        if self.form == "encoder_decoder" or not isinstance(head, NoHead | PoolerHead):
            raise UsageError(f"{self.spec.name} gives no vectors", "a model with `head: none` or a pooler does")
        how = demand_pooling(self.folder, pooling) or self.pooling
        texts = demand_rows(self.folder, ids, "texts")
        hidden = self.forward(texts).astype(np.float32)  # B T D; of a pooler B D
        if not isinstance(head, PoolerHead):
            hidden = how.pooled(hidden, np.array([len(row) for row in texts]))
        return unit(hidden) if (how.unit if normalize is None else normalize) else hidden
