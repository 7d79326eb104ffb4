"""What may be asked of an exported model. Said before anything runs, with what else would do."""

from __future__ import annotations

from typing import get_args

from archspec.errors import UsageError
from archspec.exporters.units import many
from archspec.exporters.weights.special import POOLING
from archspec.ops.embedding import LearnedPositions
from archspec.ops.head import ClassifierHead, LmHead, PoolerHead

from .folder import ExportFolder
from .generation import ContextError
from .ids import Given, Ids, Rows, rows_of
from .pooling import Pooling, Way, pooling_of


def demand_generation(folder: ExportFolder, source: Given | None) -> None:
    """Raises UsageError where the model does not continue texts, or not with this source or without one."""
    name = folder.spec.name
    if not folder.generates:
        raise UsageError(f"{name} does not generate text", _instead(folder))
    demand_source(folder, source)


def demand_source(folder: ExportFolder, source: Given | None) -> None:
    """Raises UsageError where the model reads a source and there is none, or the other way round."""
    name = folder.spec.name
    if source is None and folder.form == "encoder_decoder":
        raise UsageError(f"{name} is an encoder-decoder and reads a source", "give one with --source")
    if source is not None and folder.form != "encoder_decoder":
        raise UsageError(f"{name} has no encoder to read a source", "leave the source out")


def _instead(folder: ExportFolder) -> str:
    """What the model does, by its head."""
    head = folder.model.head
    what = "labels texts" if isinstance(head, ClassifierHead) else "gives vectors"
    if folder.form == "encoder_decoder":
        return f"it {what}: `archspec run … --ids … --source …`, or in Python forward(ids, source=…)"
    if isinstance(head, ClassifierHead):
        return "it labels texts: --classify"
    return "it predicts masked tokens: --fill" if isinstance(head, LmHead) else "it gives vectors: --embed"


def demand_pooling(folder: ExportFolder, way: Way | None) -> Pooling | None:
    """How vectors are made where `way` is asked for, or a pooler makes them; None: as the folder's files say.

    Raises UsageError where there is no such way, and for one that a pooler leaves no use for.
    """
    if way not in (None, *get_args(Way)):
        raise UsageError(f"there is no pooling {way!r}", f"say {', '.join(get_args(Way))}")
    if not isinstance(folder.model.head, PoolerHead):
        return pooling_of(folder.path, way) if way else None
    if way:
        raise UsageError(f"a pooling {way} would do nothing: {folder.spec.name} has a pooler", "leave it out")
    if (folder.path / POOLING).is_file():
        raise UsageError(
            f"{folder.spec.name} has a pooler, and {POOLING} has vectors made of its tokens without one",
            "export the model again with --set head=none",
        )
    return Pooling()


def demand_rows(folder: ExportFolder, given: Given, what: Rows) -> Ids:
    """Rows of tokens that the model can read. Raises UsageError for others, and ContextError for one that is too long."""
    rows = rows_of(given, what)
    context, vocabulary = folder.spec.context_length, folder.spec.vocab_size
    if not rows:
        raise UsageError(f"there are no {what}")
    for i, row in enumerate(rows):
        if not row:
            raise UsageError(f"row {i} of the {what} is empty", "give at least one token")
        wrong = [t for t in row if not 0 <= t < vocabulary]
        if wrong:
            raise UsageError(f"row {i} of the {what} has token {wrong[0]}", f"tokens are 0 to {vocabulary - 1}")
        if context is not None and len(row) > context:
            raise ContextError(
                f"row {i} of the {what} has {len(row):,} tokens and the context holds {context:,}",
                f"give at most {many(context, 'token')}{_longer(folder, len(row), what)}",
            )
    return rows


def _longer(folder: ExportFolder, tokens: int, what: Rows) -> str:
    """Where it would do, an export with a longer context: trained weights with a table of positions have as many as there are."""
    _, main = folder.model.main
    stack = folder.model.encoder if what == "source" and folder.model.encoder else main
    trained = folder.manifest["fresh_seed"] is None
    if trained and isinstance(stack.embedding.position, LearnedPositions):
        return ""
    only = ", if its weights were trained for one" if trained else ""
    return f", or export the model again with a longer context{only}: --set context_length={tokens}"
