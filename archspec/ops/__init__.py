"""What a Transformer is made of: operations, each with one body over a small vocabulary of tensor words.

`words` is the vocabulary, `leaves` what an operation stores. Counting, PyTorch and ONNX are interpreters of the words, so
that the numbers, the model and the graph say the same by construction. Nothing here imports a framework.
"""
