"""Our own files: every tensor under its path."""

from __future__ import annotations

from ..maps import Family, rule

FAMILY = Family("archspec", (rule("{path}", "{path}"),), {}, "archspec")
