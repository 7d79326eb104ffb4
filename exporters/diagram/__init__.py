"""The architecture as a picture: `repeats` finds what is drawn once, `build` draws it as nodes and edges (`graph`), `layout`
places them, `dot` and `mermaid` write text, `render` makes files."""
