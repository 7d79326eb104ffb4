"""PyTorch: the words on tensors, the module tree, caches and fresh weights."""
