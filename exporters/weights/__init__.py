"""Trained weights: read from safetensors and GGUF by declarative name maps, written as our own files or as a checkpoint."""
