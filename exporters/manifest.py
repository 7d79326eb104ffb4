"""archspec.json, the manifest of an exported folder: the names that its writer and its readers share, and its own hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MANIFEST, SPEC = "archspec.json", "spec.yaml"
#: The version of the folder's layout.
LAYOUT = 2
#: The key of the manifest's own hash.
SEAL = "manifest_sha256"
#: Files of an export that are there to be edited: they have no hash.
SETTINGS = ("genai_config.json", "generation_config.json", "chat_template.jinja")


def seal(manifest: Mapping[str, Any]) -> str:
    """SHA-256 of what a manifest says, whatever its spaces and the order of its keys."""
    said = {key: value for key, value in manifest.items() if key != SEAL}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
