"""What a model becomes: a folder or a file for each target."""

import os

# Or ONNX Runtime, from 1.29 on, reports its sessions and models to Microsoft. It asks once, when it is loaded.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
