"""What a spec may say, as types.

A spec is merged first (`archspec.compiler.resolve`) and validated here once, in its complete form: each class below states
the real requirements of one construct, and there is no "partial" twin of it. Three habits of the grammar are in `base`:
`kind` tags a union and a bare string is short for `{kind: string}`; `none` takes an optional thing away; a scale is a
number or one quotient of names.

Letters in the equations: x (B T D) input, D d_model, H heads, K kv_heads, C head_dim, F ffn width, E experts, V vocab_size.
"""
