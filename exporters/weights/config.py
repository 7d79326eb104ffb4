"""A checkpoint's config.json as a ledger: what was read is crossed off, so that nothing that changes the maths is dropped unsaid.

A key may be given under all the names that families have for it: `c["hidden_size|n_embd|d_model"]`. A `null` counts as absent,
which is what it means for sizes ("derive it"); where it means "none" there is `stated`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from archspec.errors import WeightsError

if TYPE_CHECKING:
    from .source import Checkpoint

#: Keys that no run of the model depends on: training, generation, caching, bookkeeping.
COSMETIC = re.compile(
    r"""architectures|model_type|auto_map|transformers_version|_name_or_path|_commit_hash|_attn\w*|_experts\w*|attn_implementation
    |dtype|torch_dtype|use_cache|cache_implementation|use_return_dict|return_dict|is_encoder_decoder|chunk_size_feed_forward
    |output_(\w*attentions|hidden_states|router_logits|past|scores)
    |\w+_token_ids?|sep_token|bos|eos|pad_idx|tokenizer_class|prefix|task_specific_params|problem_type|id2label|label2id|_?num_labels
    |finetuning_task|\w*dropout\w*|\w*pdrop|\w*_drop|drop_path\w*|\w*layerdrop|initializer_\w+|init_\w+|\w+_init_std|gradient_checkpointing
    |max_length|min_length|num_beams|num_beam_groups|num_return_sequences|early_stopping|length_penalty|(encoder_)?no_repeat_ngram_size
    |bad_words_ids|repetition_penalty|do_sample|force_bos_token_to_be_generated|save_step
    |pretraining_tp|tp_plan|base_model_\w+_plan|router_aux_loss\w*|aux_loss\w*|\w*z_loss\w*|router_jitter_noise|\w*jitter_eps|seq_aux
    |\w*load_balanc\w*|quantization_config|compression_config|fused_\w+_kernel|use_flash_attn|summary_\w+|classifier_\w+|torchscript
    |pruned_heads|is_composition|language|datasets|license|reset_\w+|keys_to_ignore\w*|unsloth_\w+""",
    re.VERBOSE,
)


def shown(value: object) -> str:
    """A value as the config's file has it: text in quotes, `true` and `null` as JSON writes them."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:76]} ..."


#: No count in a config is this large; beyond it a number is a slip.
LARGEST = 10**10


class Ledger(Mapping[str, Any]):
    """A config whose reading is recorded. `weights` are the checkpoint's, where they are there."""

    def __init__(self, values: Mapping[str, Any], weights: Checkpoint | None = None, inside: str = "") -> None:
        self._values, self.weights, self._inside = values, weights, inside
        self._read: set[str] = set()
        self._parts: dict[str, Ledger] = {}

    def __getitem__(self, key: str) -> Any:
        """What the config says. Raises `WeightsError` where it says nothing."""
        value = self.get(key)
        if value is None:
            raise WeightsError(f"the config does not say {self._inside}{key.split('|')[0]}.")
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: object) -> bool:
        return self._values.get(key) is not None if isinstance(key, str) else False

    def get(self, key: str, default: Any = None) -> Any:
        """What the config says, or the default of its class."""
        said = {}
        for name in key.split("|"):
            self._read.add(name)
            value = self._values.get(name)
            if value is not None:
                said[name] = value
        first = next(iter(said.values()), default)
        if any(value != first for value in said.values()):
            told = ", ".join(f"{self._inside}{name}: {shown(value)}" for name, value in said.items())
            raise WeightsError(f"the config says one thing twice and differently: {told}.")
        return first

    @property
    def names(self) -> Collection[str]:
        """The checkpoint's tensors; none where there are no weights."""
        return self.weights.shapes if self.weights else ()

    def stated(self, key: str, default: Any) -> Any:
        """What the config says, where `null` says "none" and only an absent key has the default: windows, softcaps."""
        self._read.add(key)
        return self._values.get(key, default)

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number above zero."""
        value = self[key] if default is None else self.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < LARGEST:
            name = self._inside + key.split("|")[0]
            raise WeightsError(f"the config has {name}: {shown(value)}, where a whole number above zero is meant.")
        return value

    def architecture(self, default: str) -> str:
        """The first class that the config names, or the family's default."""
        names = self.get("architectures") or [default]
        if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
            raise WeightsError(f"the config has architectures: {shown(names)}, where names of classes are meant.")
        return str(names[0])

    def known(self, **values: Any) -> None:
        """Options that this map does not carry: they must be absent, or at the value that changes nothing."""
        for key, value in values.items():
            found = self.get(key, value)
            if found != value:
                raise WeightsError(
                    f"the config has {self._inside}{key}: {shown(found)}, which this map does not carry."
                )

    def ignore(self, *keys: str) -> None:
        """Keys that say nothing here, whatever their value."""
        self._read.update(keys)

    def nested(self) -> list[str]:
        """Keys that hold mappings, and those for layer types whether or not they hold anything."""
        return [k for k, v in self._values.items() if isinstance(v, Mapping) or k.endswith("_attention")]

    def part(self, key: str, default: Mapping[str, Any] | None = None) -> Ledger:
        """A mapping inside the config, with a ledger of its own; empty where there is none."""
        value = self.get(key, default or {})
        if not isinstance(value, Mapping):
            raise WeightsError(f"the config has {self._inside}{key}: {shown(value)}, where a mapping is meant.")
        return self._parts.setdefault(key, Ledger(value, self.weights, f"{self._inside}{key}."))

    def unread(self) -> list[str]:
        """Keys that were not read and are neither cosmetic nor empty; a mapping's inner keys as `outer.inner`."""
        own = [
            self._inside + key
            for key, value in self._values.items()
            if key not in self._read and value is not None and not COSMETIC.fullmatch(key)
        ]
        return own + [key for part in self._parts.values() for key in part.unread()]
