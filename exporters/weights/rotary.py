"""Rotary positions and their scalings, from a config to what a spec says; and latent attention, whose scores a scaling may temper.

rope_parameters may be one mapping or one a layer type; before it there were rope_theta and rope_scaling. Both are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log, sqrt
from typing import Any

from archspec.errors import WeightsError
from archspec.ops.rotary import yarn_temperature

from .blocks import HEADS, LENGTH, channels
from .config import Ledger, shown
from .entries import Block


def rope(
    c: Ledger,
    layer_type: str | None = None,
    *,
    theta: float = 10000.0,
    interleaved: bool = False,
    partial: float | None = None,
    head_dim: int | None = None,
    default: Mapping[str, Any] | None = None,
) -> Block:
    """The rotary position, from rope_parameters (of this layer type, where they are by type) or the older keys.

    theta, partial: the family's defaults, None where its class turns whole heads; default: its rope_parameters, where the config
    has none. head_dim: where the config does not say it under its usual names.
    Raises `WeightsError` for a part of a head where a class turns all of it: some programs then heed the config, some do not.
    """
    p = rope_parameters(c, layer_type, default)
    wide = head_dim or channels(c)
    share, base = c.get("partial_rotary_factor|rotary_pct", partial or 1.0), c.get("rope_theta|rotary_emb_base", theta)
    share = p.get("partial_rotary_factor", share)  # said twice, the inner one counts
    scaling = rope_scaling(c, p, share)
    proportional = scaling is not None and scaling["kind"] == "proportional"
    if partial is None and share != 1 and not proportional:
        raise WeightsError(
            f"the config has partial_rotary_factor: {shown(share)}, where this family turns whole heads."
        )
    dim = wide if proportional else int(wide * share)
    return {
        "kind": "rope",
        "theta": float(p.get("rope_theta", base)),
        "dim": dim if dim != wide else None,
        "pairing": "interleaved" if interleaved else "half",
        "scaling": scaling,
    }


def rope_parameters(c: Ledger, layer_type: str | None = None, default: Mapping[str, Any] | None = None) -> Ledger:
    """The mapping that speaks of this layer type's rotations, under its new or its old name; `default` where there is none."""
    p = c.part("rope_parameters") if "rope_parameters" in c else c.part("rope_scaling", default)
    by_type = p.nested()
    if not by_type:
        return p
    p.ignore(*by_type)
    if layer_type is None or layer_type not in p:
        raise WeightsError(f"the config has rotations by layer type ({', '.join(by_type)}) and none for {layer_type}.")
    return p.part(layer_type)


def rope_scaling(c: Ledger, p: Ledger, share: float) -> Block | None:
    """The scaling that these rope parameters describe, where this share of a head turns.

    Raises `WeightsError` for a kind that the language does not have.
    """
    kind = p.get("rope_type|type", "default")
    if kind == "default":
        return None
    if kind not in _SCALINGS:
        raise WeightsError(f"the config has rope scaling of type {kind}, which the language does not have.")
    return _SCALINGS[kind](c, p, share)


def _linear(c: Ledger, p: Ledger, share: float) -> Block:
    return {"kind": "linear", "factor": float(p["factor"])}


def _dynamic(c: Ledger, p: Ledger, share: float) -> Block:
    if "alpha" in p:
        p.ignore("factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim")
        return {"kind": "ntk", "alpha": float(p["alpha"])}
    p.ignore("original_max_position_embeddings")
    return {"kind": "dynamic", "factor": float(p["factor"]), "original_context": c.whole(LENGTH)}


def _proportional(c: Ledger, p: Ledger, share: float) -> Block:
    return {"kind": "proportional", "share": share, "factor": float(p.get("factor", 1.0))}


def _llama3(c: Ledger, p: Ledger, share: float) -> Block:
    return {
        "kind": "ramp",
        "factor": float(p["factor"]),
        "original_context": original_context(c, p),
        "low_frequency": float(p.get("low_freq_factor", 1.0)),
        "high_frequency": float(p.get("high_freq_factor", 4.0)),
    }


def _yarn(c: Ledger, p: Ledger, share: float) -> Block:
    original = original_context(c, p)
    factor = float(p["factor"] if "factor" in p else c.whole(LENGTH) / original)
    return {
        "kind": "yarn",
        "factor": factor,
        "original_context": original,
        "beta_fast": float(p.get("beta_fast") or 32),
        "beta_slow": float(p.get("beta_slow") or 1),
        "truncate": bool(p.stated("truncate", c.part("rope_parameters").get("truncate", True))),
        **_magnitude(factor, _rotation(factor, p)),
    }


def _rotation(factor: float, p: Ledger) -> float:
    """What cos and sin are multiplied by."""
    mscale, all_dim, stated = p.get("mscale"), p.get("mscale_all_dim"), p.get("attention_factor")
    if stated is not None:
        return float(stated)
    if mscale and all_dim:
        return yarn_temperature(factor, mscale) / yarn_temperature(factor, all_dim)
    return yarn_temperature(factor, 1.0)


def _magnitude(factor: float, m: float) -> Block:
    """`mscale` and `mscale_on` for this multiplier of cos and sin."""
    if m == 1.0:
        return {"mscale_on": "none"} if factor > 1 else {}
    if m == yarn_temperature(factor, 1.0):
        return {}
    return {"mscale": (m - 1) / (0.1 * log(factor))}


def _longrope(c: Ledger, p: Ledger, share: float) -> Block:
    original = original_context(c, p)
    factor, stated = float(p.get("factor") or c.whole(LENGTH) / original), p.get("attention_factor")
    if stated is not None:  # sqrt(1 + ln(factor) / ln(original)) = stated
        factor = original ** (float(stated) ** 2 - 1)
    short, long = ([float(d) for d in p[key]] for key in ("short_factor", "long_factor"))
    return {"kind": "longrope", "original_context": original, "short": short, "long": long, "factor": factor}


def original_context(c: Ledger, p: Ledger) -> int:
    """The context length before scaling."""
    inside = p.get("original_max_position_embeddings")
    said = c.get("original_max_position_embeddings") or inside or c.whole(LENGTH)
    if said != int(said):
        raise WeightsError(f"the config has original_max_position_embeddings: {shown(said)}, which is no whole number.")
    return int(said)


_SCALINGS: dict[str, Callable[[Ledger, Ledger, float], Block]] = {
    "linear": _linear, "dynamic": _dynamic, "proportional": _proportional, "llama3": _llama3, "yarn": _yarn,
    "longrope": _longrope, "su": _longrope,
}  # fmt: skip


# ------------------------------------------------------------------------------------------------------------ latent


def latent(
    c: Ledger,
    *,
    interleaved: bool = True,
    default: Mapping[str, Any] | None = None,
    v_head_dim: int | None = None,
) -> Block:
    """Latent attention with its rotary position; a scaling that also tempers all scores says so in `mscale_on` or `scale`.

    A partial_rotary_factor is the share of a whole head that turns. default: as in `rope`; v_head_dim: where the config does not
    say it.
    """
    nope, turning = c.whole("qk_nope_head_dim"), c.whole("qk_rope_head_dim")
    c.ignore("qk_head_dim", "num_key_value_heads")
    if (wide := c.get("head_dim")) not in (None, turning, nope + turning, c.get("v_head_dim")):
        raise WeightsError(f"the config has head_dim: {shown(wide)}, which is none of its heads' widths.")
    p = rope_parameters(c, default=default)
    whole = turning if p.get("partial_rotary_factor", 1.0) == 1.0 else nope + turning
    position = rope(c, interleaved=interleaved, partial=1.0, head_dim=whole, default=default)
    scaling, all_dim = position["scaling"], p.get("mscale_all_dim")
    if position["dim"] not in (None, turning):
        raise WeightsError(
            f"the config turns {position['dim']} channels of a head by partial_rotary_factor, and {turning} by qk_rope_head_dim."
        )
    position["dim"] = None
    scale = None
    if scaling and all_dim:
        if scaling.get("mscale_on") == "none":
            scaling |= {"mscale": float(all_dim), "mscale_on": "scores"}
        else:
            scale = yarn_temperature(float(scaling.get("factor") or p["factor"]), all_dim) ** 2 / sqrt(nope + turning)
    return {
        "kind": "mla",
        "heads": c.whole(HEADS),
        "q_lora_rank": c.get("q_lora_rank"),
        "kv_lora_rank": c.whole("kv_lora_rank"),
        "qk_nope_head_dim": nope,
        "qk_rope_head_dim": turning,
        "v_head_dim": c.whole("v_head_dim", v_head_dim),
        "latent_norm": {"eps": 1e-6},
        "scale": scale,
        "position": position,
    }
