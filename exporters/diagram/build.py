"""From the operations to a drawing: who feeds whom, where residuals leave and join, what is drawn once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from archspec.compiler.indices import indices
from archspec.compiler.parameters import Parameters, count_parameters
from archspec.ops.base import Op
from archspec.ops.block import Block, ParallelBlock, Residual, Stack, Sublayer
from archspec.ops.embedding import Embedding
from archspec.ops.head import LmHead, NoHead
from archspec.ops.model import Model

from .facts import describe, human, number, output, positions
from .graph import Column, Drawing, Edge, Frame, Item, Node, Parallel, nodes_of
from .pen import Level, Pen, stack_tables
from .repeats import Layer, Part, Repeat, grouped


def draw(model: Model, level: Level = "block", context: int | None = None) -> Drawing:
    """The drawing of a model. Its size depends on how many different layers there are, never on how many.

    context: tokens that it is for, to be said above it.
    """
    counts = count_parameters(model)
    sizes = {t.path: t.size for t in model.tensors() if t.trained}
    columns: list[Column] = []
    edges: list[Edge] = []
    memory = ""
    for name, stack in model.stacks().items():
        for path in stack_tables(stack):
            sizes = {at: n for at, n in sizes.items() if not at.startswith(f"{name}.{path}")}
        pen = Pen(sizes, level, memory, stack)
        _input(pen, model, name)
        _embedding(pen, stack.embedding, f"{name}.embedding.")
        _layers(pen, name, stack)
        if stack.final_norm:
            pen.box(stack.final_norm, f"{name}.final_norm.")
        memory = pen.tail
        if name == model.main[0]:
            _head(pen, model)
        columns.append(Column(name, 1 if columns else -1, tuple(pen.items)))
        edges += pen.edges
    edges += [_tie(path, stored) for path, stored in counts.ties.items()]
    return Drawing(model.name, _subtitle(model, counts, context), tuple(columns), tuple(edges))


# -------------------------------------------------------------------------------------------------- the ends of a stack


def _input(pen: Pen, model: Model, name: str) -> None:
    if model.form != "encoder_decoder":
        title, shape = "Token ids", "B × T"
    else:
        title, shape = ("Source token ids", "B × M") if name == "encoder" else ("Target token ids", "B × T")
    pen.on(Node(f"{name}.ids", "input", title, (shape,)))


def _embedding(pen: Pen, e: Embedding, path: str) -> None:
    def leaf(name: str, title: str, *facts: str) -> Node:
        return Node(f"{path}{name}", "embedding", title, facts, pen.leaf_size(f"{path}{name}"))

    tokens = leaf("tokens", "Token embedding", f"{e.vocab:,} × {e.table_width:,}")
    pen.on(tokens if tokens.parameters else replace(tokens, note="shared"))
    if e.scale != 1.0:
        pen.label = f"× {number(e.scale)}"
    widen = leaf(
        "projection", "Linear", f"{e.table_width:,} → {e.width:,}", *(["bias"] if e.narrow and e.narrow[2] else [])
    )
    if e.narrow and e.narrow[1] == "tokens":
        pen.on(widen)
    if e.position:
        title, facts = positions(e.position, e.sum_width)
        pen.add(f"{path}positions", leaf("positions", title, *facts), "positions")
    if e.token_types:
        pen.add(f"{path}types", leaf("types", "Token types", f"{e.token_types:,} × {e.sum_width:,}"), "token types")
    if e.norm:
        pen.box(e.norm, f"{path}norm.")
    if e.narrow and e.narrow[1] == "sum":
        pen.on(widen)


def _head(pen: Pen, model: Model) -> None:
    head = model.head
    if isinstance(head, LmHead):
        _lm_head(pen, head)
    elif not isinstance(head, NoHead):
        pen.box(head, "head.")
    pen.on(Node("output", "output", *output(head)))


def _lm_head(pen: Pen, head: LmHead) -> None:
    def linear(name: str, title: str, *facts: str, note: str = "") -> None:
        pen.on(Node(f"head.{name}", "head", title, facts, pen.leaf_size(f"head.{name}"), note=note))

    narrowed = f"{head.width:,} → {head.table_width:,}"
    if head.transform:
        kind, bias = head.transform
        linear("dense", "Linear", narrowed, kind, *(["bias"] if bias else []))
        if head.norm:
            pen.box(head.norm, "head.norm.")
    if "projection" in head.leaves():
        linear("projection", "Linear", narrowed)
    if head.scale != 1.0:
        pen.label = f"× {number(head.scale)}"
    extra = [*(["bias"] if head.bias else []), *([f"softcap {head.softcap:g}"] if head.softcap else [])]
    note = "tied" if head.tied else ""
    linear("out", "Output linear", f"{head.table_width:,} → {head.vocab:,}", *extra, note=note)


# ------------------------------------------------------------------------------------------------------------ layers


def _layers(pen: Pen, name: str, stack: Stack) -> None:
    parts = grouped(stack.layers, stack.owners)
    pen.beside(name, stack)
    for part in parts:
        _part(pen, part, name, (part.first,) if len(parts) > 1 else ())


def _where(part: Part, starts: Sequence[int]) -> str:
    """Which layers a part stands for, that begins at these."""
    several = len(starts) * part.length > 1
    return f"layer{'s' * several} {indices(range(at, at + part.length) for at in starts)}"


def _part(pen: Pen, part: Part, stack: str, starts: Sequence[int]) -> None:
    """A frame around a layer or a row of them, on the stream. starts: the layers at which it begins, where that is to be said."""
    outer, pen.items = pen.items, []
    times = part.times if isinstance(part, Repeat) else 1
    shared = isinstance(part, Repeat) and part.shared
    row = part.body if isinstance(part, Repeat) else (part,)
    own = pen.times
    pen.times = own if shared else own * times
    notes = ["shared weights"] if shared else []
    if len(row) == 1 and isinstance(row[0], Layer):  # one frame is enough
        if row[0].borrowed is not None:
            notes.append(f"weights of layer {row[0].borrowed}")
        _layer(pen, row[0], f"{stack}.layers.{row[0].first}.")
    else:
        step = part.length // times
        turns = [at + turn * step for at in starts or (part.first,) for turn in range(times)]
        for each in row:
            _part(pen, each, stack, [at + each.first - part.first for at in turns])
    items, pen.items, pen.times = tuple(pen.items), outer, own
    copies = own if shared else own * times
    size, idle = _size(items, copies)
    sizes = [f"{human(size)}{' each' if copies > 1 else ''}"] if size else []
    sizes += [f"{human(size - idle)} active"] if idle else []
    where = [_where(part, starts)] if starts else []
    label = (*([f"× {times}"] if times > 1 else []), *where, *sizes, *notes)
    pen.items.append(Frame(f"{stack}.layers.{part.first}-{part.first + part.length - 1}", times, shared, label, items))


def _size(items: tuple[Item, ...], times: int) -> tuple[int, int]:
    """Parameters of one run through the items, which stand in the model `times` times, and those that a token does not use."""
    nodes = list(nodes_of(items))
    return sum(n.parameters * n.times for n in nodes) // times, sum(n.idle * n.times for n in nodes) // times


def _layer(pen: Pen, layer: Layer, path: str) -> None:
    op = layer.op
    if pen.level == "block" and isinstance(op, Block):
        for sublayer in op.sublayers:
            _sublayer(pen, sublayer, path)
    elif pen.level == "block" and isinstance(op, ParallelBlock):
        _parallel(pen, op, path)
    else:
        _whole(pen, op, path)


def _sublayer(pen: Pen, s: Sublayer, path: str) -> None:
    """outer( skip · x + branch_scale · branch( f( input(x) ) ) )"""
    at, norms = f"{path}{s.name}", dict(s.norms)
    fork = "" if s.residual.skip is None else pen.fork(at)
    if "input" in norms:
        pen.box(norms["input"], f"{at}_input_norm.")
    pen.box(s.f, f"{at}.", *([] if fork else ["no residual"]))
    if "branch" in norms:
        pen.box(norms["branch"], f"{at}_branch_norm.")
    if s.gate:
        pen.box(s.gate, f"{at}_residual.")
    pen.join(at, fork, s.residual)
    if "outer" in norms:
        pen.box(norms["outer"], f"{at}_outer_norm.")


def _parallel(pen: Pen, op: ParallelBlock, path: str) -> None:
    """skip · x + branch_scale · Σ branch( f( input(x) ) ): all branches read the same x."""
    at = f"{path}parallel"
    residual = op.sublayers[0].residual
    one = all(s.residual.branch == residual.branch for s in op.sublayers)  # then said once, of the sum
    fork = "" if residual.skip is None else pen.fork(path.rstrip("."))
    if op.norm:
        pen.box(op.norm, f"{path}input_norm.")
    pen.fork(at)
    split, branches, ends = pen.tail, [], []
    stream, pen.items = pen.items, []
    for s in op.sublayers:
        pen.tail, norms = split, dict(s.norms)
        if "input" in norms:
            pen.box(norms["input"], f"{path}{s.name}_input_norm.")
        pen.box(s.f, f"{path}{s.name}.", *([] if residual.skip is not None else ["no residual"]))
        if "branch" in norms:
            pen.box(norms["branch"], f"{path}{s.name}_branch_norm.")
        branches.append(tuple(n for n in pen.items if isinstance(n, Node)))
        ends.append(pen.tail)
        pen.items = []
    pen.items = [*stream, Parallel(tuple(branches))]
    together = Node(f"{at}.sum", "sum")
    labels = ["" if one or s.residual.branch == 1.0 else f"× {number(s.residual.branch)}" for s in op.sublayers]
    pen.edges += [Edge(end, together.id, label=label) for end, label in zip(ends, labels, strict=True)]
    pen.items.append(together)
    pen.tail = together.id
    pen.join(path.rstrip("."), fork, residual if one else Residual(residual.skip))


def _whole(pen: Pen, op: Op, path: str) -> None:
    """A layer as one box."""
    parts = op.sublayers if isinstance(op, Block | ParallelBlock) else ()
    facts = [fact for title, own in (describe(s.f) for s in parts) for fact in (title.lower(), *own)]
    if isinstance(op, ParallelBlock):
        facts.append("in parallel")
    size, idle = pen.size(op, path), pen.idle(op, path)
    node = Node(path.rstrip("."), "layer", "Layer", tuple(facts), size, pen.times, idle=idle)
    pen.on(node)
    if any(s.f.reads_memory for s in parts):
        pen.edges.append(Edge(pen.memory, node.id, "memory", "K, V"))


# ----------------------------------------------------------------------------------------------------- ties and title


def _tie(path: str, stored: str) -> Edge:
    """Between two boxes that show one tensor."""
    label = "tied" if path.startswith("head.") else "shared"
    return Edge(stored.removesuffix(".weight"), path.removesuffix(".weight"), "tie", label)


def _subtitle(model: Model, counts: Parameters, context: int | None) -> tuple[str, ...]:
    stacks = model.stacks().values()
    embedding = model.main[1].embedding
    depth = " + ".join(str(len(s.layers)) for s in stacks)
    form = model.form.replace("_", "-")
    one = depth == "1"
    tokens = f" · context {context:,}" if context else ""
    return (
        f"{form} · {depth} layer{'' if one else 's'} · d_model {embedding.width:,}",
        f"vocabulary {embedding.vocab:,}{tokens}",
        f"{counts.total:,} parameters" + (f" · {human(counts.active)} active" if counts.active < counts.total else ""),
    )
