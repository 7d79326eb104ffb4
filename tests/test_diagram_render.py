"""Texts and files: nothing overlaps, nothing crosses a box, every format is well formed whatever a name holds."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from itertools import zip_longest
from pathlib import Path

import pytest
from test_diagram import MODELS
from tiny import tiny

from archspec.compiler.lower import lower
from archspec.compiler.resolve import resolve
from archspec.compiler.source import zoo_names
from archspec.errors import UsageError
from archspec.exporters.diagram.build import draw
from archspec.exporters.diagram.dot import dot
from archspec.exporters.diagram.facts import active, counted, human, number
from archspec.exporters.diagram.geometry import FACT, TITLE, Layout, Rect, extent
from archspec.exporters.diagram.layout import LEGEND, place
from archspec.exporters.diagram.render import Format, MissingGraphviz, diagram
from archspec.exporters.diagram.text import lines, width
from archspec.ops.block import ParallelBlock, Residual

HOSTILE = "a\"b'c <b>&amp; \\N {x|y} [z] é漢 #35; --> %%\n\x00</TABLE>"
needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="needs the program dot of Graphviz")


def boxes(layout: Layout) -> dict[str, Rect]:
    roles = {n.id: n.role for n in layout.drawing.nodes()}
    return {k: r for k, r in layout.nodes.items() if roles[k] != "fork"}


def meet(a: Rect, b: Rect) -> bool:
    """Do the insides of two rectangles share a point?"""
    return a.left < b.right and b.left < a.right and a.bottom < b.top and b.bottom < a.top


@pytest.mark.parametrize("level", ["block", "model"])
@pytest.mark.parametrize("name", MODELS)
def test_nothing_overlaps(name: str, level: str) -> None:
    layout = place(draw(MODELS[name], level))  # type: ignore[arg-type]
    rects = [*boxes(layout).items(), *((t.text, extent(t)) for t in layout.texts)]
    assert not [(a, b) for i, (a, r) in enumerate(rects) for b, s in rects[:i] if meet(r, s)]


@pytest.mark.parametrize("level", ["block", "model"])
@pytest.mark.parametrize("name", MODELS)
def test_no_edge_runs_through_a_box(name: str, level: str) -> None:
    layout = place(draw(MODELS[name], level))  # type: ignore[arg-type]
    rects = boxes(layout)
    for path in layout.paths:
        for (ax, ay), (bx, by) in zip(path.points, path.points[1:], strict=False):
            assert ax == bx or ay == by, "edges run straight up or across"
            line = Rect((ax + bx) / 2, (ay + by) / 2, abs(ax - bx), abs(ay - by))
            crossed = [k for k, r in rects.items() if meet(line, Rect(r.x, r.y, r.w - 1, r.h - 1))]
            assert not crossed, (path.edge, crossed)


@pytest.mark.parametrize("name", MODELS)
def test_frames_hold_what_they_repeat(name: str) -> None:
    layout = place(draw(MODELS[name]))
    tables = {e.source for e in layout.drawing.edges if e.kind == "table"}  # of all layers, so in none
    for frame in layout.drawing.frames():
        outer = layout.frames[frame.id]
        at = frame.id.rsplit(".", 1)[0]
        first, last = map(int, frame.id.rsplit(".", 1)[1].split("-"))
        for key, rect in boxes(layout).items():
            if (
                (found := re.match(rf"{re.escape(at)}\.(\d+)\.", key))
                and key not in tables
                and first <= int(found[1]) <= last
            ):
                assert outer.left < rect.left < rect.right < outer.right, key
                assert outer.bottom < rect.bottom < rect.top < outer.top, key


def too_wide(layout: Layout) -> list[tuple[str, str]]:
    """(node, text) where a line of a box is wider than the box."""
    found = []
    for n in layout.drawing.nodes():
        if n.role in ("sum", "fork", "input", "output"):
            continue
        facts, right = layout.facts[n.id], [(counted(n), FACT + 0.5), (active(n), FACT)]
        lines = [("", 0.0), *((fact, width(fact, FACT)) for fact in facts)]
        lines[0] = n.title, width(n.title, TITLE, bold=True)
        if n.role == "norm":
            lines = [(n.title, lines[0][1] + width(" · ".join(facts), FACT))]
        for (text, w), (beside, size) in zip_longest(lines, right, fillvalue=("", 0.0)):
            if w + width(str(beside), size) > layout.nodes[n.id].w - 16.0:
                found.append((n.id, text))
    return found


@pytest.mark.parametrize("level", ["block", "model"])
@pytest.mark.parametrize("name", MODELS)
def test_no_line_is_wider_than_its_box(name: str, level: str) -> None:
    assert not too_wide(place(draw(MODELS[name], level)))  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=["block", "model"])
def published(request: pytest.FixtureRequest) -> list[Layout]:
    """Every spec of the zoo, placed at one level."""
    return [place(draw(lower(resolve(name).spec), request.param)) for name in sorted(zoo_names())]


def test_no_line_of_a_published_model_is_wider_than_its_box(published: list[Layout]) -> None:
    assert {x.drawing.name: wide for x in published if (wide := too_wide(x))} == {}


@needs_dot
def test_graphviz_sets_every_text_within_its_box(published: list[Layout]) -> None:
    """The witness is Graphviz with the fonts there are: where each text begins, and how wide its own font makes it."""
    texts = "".join(dot(x.drawing) for x in published)
    said = subprocess.run(["dot", "-Tjson"], input=texts, capture_output=True, check=True, text=True).stdout
    seen = 0
    while said := said.lstrip():
        graph, end = json.JSONDecoder().raw_decode(said)
        said = said[end:]
        for box in (o for o in graph["objects"] if o.get("fillcolor") and "pos" in o):
            middle, half = float(box["pos"].split(",")[0]), float(box["width"]) * 36
            for t in (t for t in box.get("_ldraw_", ()) if t["op"] == "T" and t["text"] != "+"):
                assert t["align"] == "l"
                left, right = t["pt"][0] - (middle - half), middle + half - t["pt"][0] - t["width"]
                assert min(left, right) >= 5.0, (graph["name"], box["name"], t["text"])
                seen += 1
    assert seen > 10 * len(published)


IRREGULAR = (
    "bart-base", "deepseek-v3", "falcon-7b", "gemma-3-4b", "gpt-oss-20b", "llama-4-maverick", "minicpm3-4b", "mixtral-8x7b",
    "modernbert-base", "mpt-7b", "olmo3-7b", "opt-350m", "smollm3-3b", "t5-small",
)  # fmt: skip


@pytest.mark.parametrize("name", IRREGULAR)
def test_pictures_of_published_models_stay_small(name: str) -> None:
    model = lower(resolve(name).spec)
    drawing = draw(model)
    assert len(drawing.edges) < 60
    assert len(diagram(model, "mermaid")) < 50_000 > len(diagram(model, "dot"))
    layout = place(drawing)
    rects = [*boxes(layout).items(), *((t.text, extent(t)) for t in layout.texts)]
    assert not [(a, b) for i, (a, r) in enumerate(rects) for b, s in rects[:i] if meet(r, s)]


def test_branches_with_scales_of_their_own_are_labelled() -> None:
    model = tiny("parallel")
    assert model.decoder
    (layer,) = set(model.decoder.layers)
    assert isinstance(layer, ParallelBlock)
    scaled = [s.replaced(residual=Residual(branch=by)) for s, by in zip(layer.sublayers, (0.5, 0.7), strict=True)]
    layers = (layer.replaced(sublayers=tuple(scaled)),) * 2
    layout = place(draw(model.replaced(decoder=model.decoder.replaced(layers=layers))))
    attention, ffn = (layout.nodes[f"decoder.layers.0.{name}"] for name in ("attention", "ffn"))
    at = {t.text: t.x for t in layout.texts}
    assert attention.x < at["× 1/2"] < at["× 0.7"] < ffn.x


@needs_dot
@pytest.mark.parametrize(
    "name", ["gpt2", "seq2seq", "parallel", "albert", "shared", "no residual", "t5", "experts", "mla"]
)
def test_graphviz_reads_dot_without_a_warning_and_keeps_every_node(name: str) -> None:
    drawing = draw(MODELS[name])
    done = subprocess.run(["dot", "-Tsvg"], input=dot(drawing).encode(), capture_output=True, check=True)
    assert done.stderr == b""
    svg = ET.fromstring(done.stdout)
    names = {e.text for e in svg.iter("{http://www.w3.org/2000/svg}title")}
    assert {n.id for n in drawing.nodes()} <= names


@needs_dot
def test_positions_are_ours() -> None:
    text = dot(draw(MODELS["seq2seq"]))
    done = subprocess.run(["dot", "-Tplain"], input=text.encode(), capture_output=True, check=True)
    layout = place(draw(MODELS["seq2seq"]))
    at = {
        m[1]: (float(m[2]), float(m[3]))
        for m in re.finditer(r'^node "?([a-z][\w.]+)"? (-?[\d.]+) (-?[\d.]+)', done.stdout.decode(), re.M)
    }
    origin = at["decoder.ids"]
    base = layout.nodes["decoder.ids"]
    for key, rect in layout.nodes.items():
        x, y = at[key]
        assert (x - origin[0]) * 72 == pytest.approx(rect.x - base.x, abs=0.2)
        assert (y - origin[1]) * 72 == pytest.approx(rect.y - base.y, abs=0.2)


@needs_dot
def test_svg_shows_exact_counts_and_a_hostile_name() -> None:
    svg = ET.fromstring(diagram(tiny("gpt2").replaced(name=HOSTILE), "svg"))
    shown = "".join(svg.itertext())
    assert "a\"b'c <b>&amp; \\N {x|y} [z] é漢 #35; --> %% \ufffd</TABLE>" in shown.replace("\xa0", " ")
    tips = [v for e in svg.iter() for k, v in e.attrib.items() if k.endswith("}title")]
    assert "decoder.layers.0.attention: 4,224 parameters, 2 times" in tips


@needs_dot
@pytest.mark.parametrize(("fmt", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_pictures(fmt: Format, magic: bytes) -> None:
    assert diagram(tiny("gpt2"), fmt).startswith(magic)


@pytest.mark.parametrize("level", ["block", "model"])
@pytest.mark.parametrize("name", MODELS)
def test_mermaid_is_well_formed_and_small(name: str, level: str) -> None:
    drawing = draw(MODELS[name], level)  # type: ignore[arg-type]
    text = diagram(MODELS[name], "mermaid", level=level).decode()  # type: ignore[arg-type]
    assert len(text) < 50_000
    body = text.split("flowchart BT\n")[1].splitlines()
    assert sum(line.strip().startswith("subgraph ") for line in body) == body.count("  end") + sum(
        line.strip() == "end" and line != "  end" for line in body
    )
    declared = {
        m[1] for line in body if (m := re.match(r'\s+(n\d+)(?:\(\["[^"]*"\]\)|\(\("\+"\)\)|\["[^"]*"\])$', line))
    }
    arrows = [m for line in body if (m := re.match(r'\s+(n\d+) (?:-->|-\.->|==>|-\.-)(?:\|"[^"]*"\|)? (n\d+)$', line))]
    assert {end for m in arrows for end in m.groups()} == declared
    assert len(declared) == sum(n.role != "fork" for n in drawing.nodes())
    known = ("subgraph ", "end", "direction ", "classDef ", "class ")
    assert len(body) == len(declared) + len(arrows) + sum(line.strip().startswith(known) for line in body)


def test_figures_are_told_to_be_parameters() -> None:
    """By a line below every picture; in Mermaid's boxes there is room for the word."""
    texts = [t.text for t in place(draw(tiny("gpt2"))).texts]
    assert texts[-1] == LEGEND == "at the right in a box: its parameters"
    boxes = [line for line in diagram(tiny("gpt2"), "mermaid").decode().splitlines() if "LayerNorm" in line]
    assert boxes
    assert all("<br/>64 parameters" in line for line in boxes)


def test_many_different_layers_are_drawn_as_one_box_each() -> None:
    entries = ", ".join(f"{{ffn: {{width: {8 * i}}}}}" for i in range(1, 61))
    model = tiny("gpt2", f"decoder.layers=[{entries}]")
    text = diagram(model, "mermaid").decode()
    arrows = re.findall("-->|-.->|-.-", text)
    assert 60 < len(arrows) < 280
    assert len(text) < 50_000
    assert diagram(model, "mermaid", level="block").decode().count("Self-attention") == 60


def test_a_hostile_name_breaks_no_text() -> None:
    model = tiny("gpt2").replaced(name=HOSTILE)
    mermaid = diagram(model, "mermaid").decode()
    assert mermaid.splitlines()[1].startswith('title: "a\\"b')
    assert mermaid.splitlines()[2] == "---"
    text = diagram(model, "dot").decode()
    assert "&lt;/TABLE&gt;" in text
    assert "\x00" not in text + mermaid


def test_without_the_program_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingGraphviz, match="apt install graphviz") as caught:
        diagram(tiny("gpt2"), "png")
    assert caught.value.exit_code == 2
    assert caught.value.dot == diagram(tiny("gpt2"), "dot").decode()
    assert caught.value.dot.startswith('digraph "gpt2" {')
    assert diagram(tiny("gpt2"), "mermaid").decode().startswith("---\ntitle: ")


def test_wrong_calls_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="no diagram format 'gif'"):
        diagram(tiny("gpt2"), "gif")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no diagram level 'op'"):
        diagram(tiny("gpt2"), "dot", level="op")  # type: ignore[arg-type]


def test_numbers() -> None:
    assert [human(n) for n in (0, 999, 1_536, 786_432, 2_362_368, 38_597_376, 999_600, 124_439_808, 405 * 10**9)] == [
        "0", "999", "1.54k", "786k", "2.36M", "38.6M", "1.00M", "124M", "405B",
    ]  # fmt: skip
    assert [number(x) for x in (2.0, 768**0.5, 0.125, 64**-0.5, 0.22, 1.702, -0.5, 512**-0.5)] == [
        "2", "√768", "1/8", "1/8", "0.22", "1.702", "−1/2", "1/√512",
    ]  # fmt: skip


def test_facts_are_broken_between() -> None:
    facts = ("12 heads × 64", "causal", "window 4,096", "rope θ 10,000")
    rows = lines(facts, 9.0, 110.0)
    assert " · ".join(rows) == " · ".join(facts)
    assert len(rows) > 1
    assert all(width(row, 9.0) <= 110.0 for row in rows)


def test_a_fact_that_fits_on_no_line_is_broken_at_its_spaces() -> None:
    assert lines(("causal", "temperature 0.1 per 8,192 tokens"), 9.0, 100.0) == (
        "causal",
        "temperature 0.1 per",
        "8,192 tokens",
    )
    assert lines(("8 experts, top 2", "gated silu"), 9.0, 130.0) == ("8 experts, top 2 · gated silu",)
    assert lines(("8 experts, top 2", "gated silu"), 9.0, 130.0, beside=50.0) == ("8 experts, top 2", "gated silu")
