"""The built model: an ordinary `nn.Module` tree, named by the operations' paths.

Leaves are `nn.Linear` (`StackedLinear` in a mixture of experts), `nn.Embedding`, `nn.Parameter` and buffers; every other
module runs its operation's body with itself as the scope. Nothing of a call lives in the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from archspec.compiler.precision import TORCH, meant
from archspec.diagnostics import either
from archspec.errors import UsageError
from archspec.ops.attention import Attention
from archspec.ops.base import Op, walk
from archspec.ops.bind import SlotRef
from archspec.ops.embedding import LearnedPositions
from archspec.ops.leaves import Leaf, Linear, Stream, Table, Vector
from archspec.ops.model import Model

from .cache import Cache
from .experts import StackedLinear
from .places import Places, tokens
from .room import demand
from .tables import constant_tables
from .words import TorchRun

if TYPE_CHECKING:
    from archspec.exporters.fresh import Init

TorchDtype = torch.dtype
DTYPES = {name: getattr(torch, name) for name in ("float32", "bfloat16", "float16", "float64")}


def _leaf(leaf: Leaf) -> nn.Module | Tensor:
    match leaf:
        case Linear():
            if leaf.experts is not None:
                return StackedLinear(leaf.experts, leaf.inp, leaf.out, leaf.bias)
            return nn.Linear(leaf.inp, leaf.out, leaf.bias)
        case Table():
            # given a weight it draws none: to draw on the device "meta" torch imports its compiler, which takes a second
            return nn.Embedding(leaf.rows, leaf.width, _weight=torch.empty(leaf.rows, leaf.width))
        case Vector():
            x = torch.empty(leaf.shape)
            return nn.Parameter(x) if leaf.trained else nn.Buffer(x)


class _Scope(nn.Module):
    """An operation's own place: its leaves, slots and children by name."""

    def __init__(self, op: Op, path: str = "") -> None:
        super().__init__()
        self.op = op
        for name, leaf in op.leaves().items():
            setattr(self, name, _leaf(leaf))
        for name, slot in op.state().items():
            setattr(self, name, SlotRef(path + name, slot))
        for name, child in op.children().items():
            if isinstance(child, tuple):
                setattr(self, name, nn.ModuleList(Module(c, f"{path}{name}.{i}.") for i, c in enumerate(child)))
            else:
                setattr(self, name, Module(child, f"{path}{name}."))

    def _get_name(self) -> str:
        return type(self.op).__name__


class Module(_Scope):
    """An operation with its leaves: `m.q` a Linear, `m.key` a slot, `m.norm` a child, and itself the scope of its body."""

    def forward(self, t: TorchRun, *xs: Any) -> Any:
        """The operation's body, in the run `t`."""
        return self.op.forward(t, self, *xs)


class Transformer(_Scope):
    """A whole model. Ids in; logits, labels or hidden states out. See `forward`."""

    op: Model

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.tables = constant_tables(model, torch.device("meta"))
        self._takes = _Takes(model)
        for tied, stored in model.ties.items():
            self._put(tied, self.tensor(stored))
        self._retabulate()

    # ---- one call

    def forward(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        *,
        cache: Cache | None = None,
        source: Tensor | None = None,
        source_mask: Tensor | None = None,
        token_types: Tensor | None = None,
        source_types: Tensor | None = None,
        prefix_length: Tensor | None = None,
        last_only: bool = False,
    ) -> Tensor:
        """B T new ids -> B T V logits (B 1 V with `last_only`), or what the head gives: B D, B labels, B T D.

        mask: B P+T, 1 for tokens and 0 for padding, past ones included; all of them if not given.
        cache: a `GrowingCache` or `StaticCache`, which holds the past and takes in the new tokens.
        source, source_mask: B M, the encoder's input beside a decoder. With a cache: on the first call only.
        token_types, source_types: B T and B M; 0 if not given.
        prefix_length: B, how many first tokens see each other both ways, where the model has such a mask.

        Raises `UsageError` where the inputs do not fit the model or each other.
        """
        takes = self._takes
        takes.check(ids, cache, source, source_mask, token_types, source_types, prefix_length)
        if cache is not None:
            places: dict[Stream, Places] = {"tokens": cache.begin(ids, mask)}
        else:
            places = {"tokens": Places(ids.shape[1], ids.device, mask=tokens(mask, ids.shape))}
        if takes.beside:
            places["source"] = self._source(ids, cache, source, source_mask)
        takes.check_rows(places)
        t = TorchRun(
            self.tables,
            places,
            cache=cache,
            types={"tokens": token_types, "source": source_types},
            prefix_length=prefix_length,
            last_only=last_only,
            training=self.training,
        )
        memory = None if source is None else self.op.encode(t, self, source)
        y = self.op.forward(t, self, ids, memory)
        if cache is not None:
            cache.end()
        return y

    def _source(self, ids: Tensor, cache: Cache | None, source: Tensor | None, mask: Tensor | None) -> Places:
        """Where the source's tokens stand; a cache keeps their mask with their keys and values."""
        filled = cache is not None and cache.filled
        if source is None:
            if not filled:
                raise UsageError("this model has an encoder: the first call of a request needs `source`")
            assert cache is not None
            kept = cache.source_mask
            return Places(0 if kept is None else kept.shape[1], ids.device, mask=kept)  # unmasked: nobody asks how many
        if filled:
            raise UsageError("the cache already holds this request's source: give `source` on the first call only")
        if source.shape[0] != ids.shape[0]:
            raise UsageError(f"{source.shape[0]} sources for {ids.shape[0]} rows of ids")
        mask = tokens(mask, source.shape)
        if cache is not None:
            cache.source_mask = mask
        return Places(source.shape[1], source.device, mask=mask)

    # ---- weights

    def tensor(self, path: str) -> Tensor:
        """The parameter or buffer at a path."""
        owner, _, name = path.rpartition(".")
        found: Tensor = getattr(self.get_submodule(owner), name)
        return found

    def stored(self) -> Iterator[tuple[str, Tensor]]:
        """(path, parameter or buffer), every one once, in the order of `Model.tensors()`: what a weights file holds."""
        for tensor in self.op.tensors():
            yield tensor.path, self.tensor(tensor.path)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """As in `nn.Module`; tied tensors may be left out, and stay tied."""
        ties = self.op.ties.items()
        filled = {**{tied: state_dict[stored] for tied, stored in ties if stored in state_dict}, **state_dict}
        with self._keeping_ties():
            loaded = super().load_state_dict(filled, strict, assign)
        self._retabulate()  # what is assigned may lie elsewhere
        return loaded

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Transformer:
        with self._keeping_ties():
            super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._retabulate()
        return self

    def _retabulate(self) -> None:
        """Tables move with the weights and keep their dtype, which no buffer would."""
        device = next(self.parameters()).device
        if any(table.device != device for table in self.tables.values()):
            self.tables = constant_tables(self.op, device)

    @contextmanager
    def _keeping_ties(self) -> Iterator[None]:
        """What was one tensor before is one tensor after: `to_empty` and assignment make a new one for each name."""
        held: dict[str, Tensor] = dict(self.named_parameters(remove_duplicate=False))
        held |= dict(self.named_buffers(remove_duplicate=False))
        one = [(a, b) for a, b in self.op.ties.items() if a in held and held.get(b) is held[a]]
        yield
        for tied, stored in one:
            self._put(tied, self.tensor(stored))

    def _put(self, path: str, x: Tensor) -> None:
        owner, _, name = path.rpartition(".")
        setattr(self.get_submodule(owner), name, x)


class _Takes:
    """What inputs a model takes, found once."""

    def __init__(self, model: Model) -> None:
        self.form = model.form
        self.beside = model.form == "encoder_decoder"
        self.types = {s.embedding.stream for s in model.stacks().values() if s.embedding.token_types}
        self.rows = [(s.embedding.stream, s.embedding.position) for s in model.stacks().values()]
        masks = [op.scores.mask.kind for _, op, _ in walk(model) if isinstance(op, Attention)]
        self.prefix = "prefix" in masks

    def check(
        self,
        ids: Tensor,
        cache: Cache | None,
        source: Tensor | None,
        source_mask: Tensor | None,
        token_types: Tensor | None,
        source_types: Tensor | None,
        prefix_length: Tensor | None,
    ) -> None:
        """Raises `UsageError` for inputs that this model has no use for, or of a wrong rank."""
        _ranked("ids", ids, 2)
        if cache is not None and self.form == "encoder":
            raise UsageError("an encoder sees both sides and has nothing to cache")
        if source is not None:
            if not self.beside:
                raise UsageError("`source` is the input of an encoder beside a decoder: this model has one stack")
            _ranked("source", source, 2)
        elif source_mask is not None or source_types is not None:
            raise UsageError("`source_mask` and `source_types` describe a `source`, and none was given")
        for stream, types, of in (("tokens", token_types, ids), ("source", source_types, source)):
            if types is not None:
                if stream not in self.types:
                    raise UsageError("this model has no table of token types")
                if of is not None and types.shape != of.shape:
                    raise UsageError(f"the token types have shape {tuple(types.shape)}, the ids {tuple(of.shape)}")
        if prefix_length is not None:
            if not self.prefix:
                raise UsageError("`prefix_length` belongs to a prefix mask: this model has none")
            _ranked("prefix_length", prefix_length, 1)

    def check_rows(self, places: Mapping[Stream, Places]) -> None:
        """Raises `UsageError` where tokens would stand past the end of a position table; a traced length has no end."""
        if torch.compiler.is_compiling():
            return
        for stream, table in self.rows:
            at = places[stream]
            if not isinstance(table, LearnedPositions) or not isinstance(at.past, int):
                continue
            limit = table.rows - table.offset
            end = at.past + at.length
            if end > limit and at.mask is not None:  # with padding a row may be wider than its last position
                end = int(at.positions(table.count).max()) + 1
            if end <= limit:
                continue
            raise UsageError(
                f"{end} tokens, but the table of positions has {limit} rows",
                "shorten the input, or raise context_length and train again",
            )


def _ranked(name: str, x: Tensor, rank: int) -> None:
    if x.dim() != rank or x.is_floating_point():
        shape = "B T" if rank == 2 else "B"
        raise UsageError(f"`{name}` is {x.dtype} of shape {tuple(x.shape)}; integers of shape {shape} are meant")


def build(
    model: Model,
    init: Init | None = None,
    *,
    dtype: str | None = None,
    device: str | torch.device = "cpu",
    seed: int | None = 0,
) -> Transformer:
    """The module with fresh weights; on the device "meta" without any.

    init: N(0, 0.02²) if not given. dtype: float32, bfloat16, float16 or float64; the model's own if not given.
    seed: the same seed gives the same weights, whatever else was drawn; None draws from the global generator.

    Raises `UsageError` where the device has no room for it, before anything is allocated.
    """
    name = dtype or model.dtype
    if name not in DTYPES:
        near = TORCH.get(meant(name) or "")
        raise UsageError(f"There is no dtype {name!r}.", f"did you mean {near}?" if near else f"say {either(DTYPES)}")
    demand(model, DTYPES[name], device)
    with torch.device("meta"):
        module = Transformer(model).to(DTYPES[name])
    if torch.device(device).type == "meta":
        return module
    from .init import initialise

    module.to_empty(device=device)
    initialise(module, model, init, seed)
    return module
