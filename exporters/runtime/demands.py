"""What may be asked of an exported model. Said before anything runs, with what else would do."""

from __future__ import annotations

from typing import Literal

from archspec.errors import UsageError
from archspec.exporters.units import many
from archspec.ops.embedding import LearnedPositions
from archspec.ops.head import ClassifierHead, LmHead

from .folder import ExportFolder
from .generation import ContextError, Ids

Rows = Literal["prompts", "source", "texts"]


def demand_generation(folder: ExportFolder, source: Ids | None) -> None:
    """Raises UsageError where the model does not continue texts, or not with this source or without one."""
    name = folder.spec.name
    if not folder.generates:
        raise UsageError(f"{name} does not generate text", _instead(folder))
    if source is None and folder.form == "encoder_decoder":
        raise UsageError(f"{name} is an encoder-decoder and reads a source", "give one: --source 1,2,3")
    if source is not None and folder.form != "encoder_decoder":
        raise UsageError(f"{name} has no encoder to read a source", "leave the source out")


def _instead(folder: ExportFolder) -> str:
    """What the model does, by its head."""
    head = folder.model.head
    if isinstance(head, ClassifierHead):
        return "it labels texts: --classify or --ids; in Python, forward"
    if isinstance(head, LmHead):
        return "it predicts masked tokens: --fill or --ids; in Python, fill_mask or forward"
    return "it gives vectors: --embed or --ids; in Python, embed or forward"


def demand_rows(folder: ExportFolder, rows: Ids, what: Rows) -> None:
    """Are these rows of tokens that the model can read? Raises UsageError, and ContextError for one that is too long."""
    context, vocabulary = folder.spec.context_length, folder.spec.vocab_size
    if not rows:
        raise UsageError(f"there are no {what}")
    for i, row in enumerate(rows):
        if isinstance(row, str):
            raise UsageError(
                f"row {i} of the {what} is text, and token ids are wanted",
                "runtime.text.encode(…), or runtime.write(…)",
            )
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


def _longer(folder: ExportFolder, tokens: int, what: Rows) -> str:
    """Where it would do, an export with a longer context: trained weights with a table of positions have as many as there are."""
    _, main = folder.model.main
    stack = folder.model.encoder if what == "source" and folder.model.encoder else main
    trained = folder.manifest["fresh_seed"] is None
    if trained and isinstance(stack.embedding.position, LearnedPositions):
        return ""
    only = ", if its weights were trained for one" if trained else ""
    return f", or export the model again with a longer context{only}: --set context_length={tokens}"
