"""The checks of a complete spec: what is legal word by word and still cannot be meant, or not be built.

One rule has one code. Each check is a function of what it looks at; `check` runs them all, on the layers in reading order.
"""

from __future__ import annotations

from archspec.language.model import Spec

from ..merge import Trace
from ..nodes import Report
from ..places import Path, Places
from .attention import check_attention
from .experts import check_experts
from .layers import layer_sites
from .model import check_model
from .overrides import check_overrides
from .positions import check_tables
from .wiring import check_layer, check_stack


def check(spec: Spec, places: Places, report: Report, trace: Trace, tainted: frozenset[Path]) -> None:
    """Report what is wrong or doubtful. What stands under a `tainted` path is in error already and is passed over."""
    if not spec.stacks():
        return  # A110 is told, and there is nothing to look at
    for site in layer_sites(spec, places):
        if not any(site.path[: len(path)] == path for path in tainted):
            check_layer(site, report)
            check_attention(site, report)
            check_experts(site, report)
    check_model(spec, places, report, tainted)
    if not tainted:
        check_stack(spec, places, report)
        check_tables(spec, places, report)
        check_overrides(report, trace)
