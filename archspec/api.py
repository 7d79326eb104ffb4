"""The Python API: an `Arch` is a compiled spec that can be counted, drawn, built and exported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from archspec.compiler.compile import Compiled, compile_spec
from archspec.errors import UsageError

if TYPE_CHECKING:
    from archspec.compiler.compare import Comparison
    from archspec.compiler.count import Counts
    from archspec.compiler.limits import Limits
    from archspec.compiler.precision import Compute, Name
    from archspec.diagnostics import Diagnostic
    from archspec.exporters.diagram.pen import Level
    from archspec.exporters.diagram.render import Format
    from archspec.exporters.onnx.emit import Target
    from archspec.exporters.onnx.export import ExportSummary
    from archspec.exporters.torch.module import TorchDtype, Transformer
    from archspec.exporters.weights.folder import Dtype
    from archspec.language.model import Spec
    from archspec.ops.model import Model


def load(ref: str | Path, overrides: Sequence[str] = ()) -> Arch:
    """Read, check and compile a spec.

    Args:
        ref: a path to a YAML file, a folder that `archspec build` wrote, or the name of a zoo spec.
        overrides: `path=value` settings over the file, as `--set` takes them: `decoder.layers=2`.

    Raises:
        SpecError: with every error of the spec, each with its place and a remedy.
    """
    return Arch(compile_spec(ref, overrides), ref)


def zoo() -> tuple[str, ...]:
    """The names of the published architectures that come with archspec."""
    from archspec.compiler.source import zoo_names

    return tuple(zoo_names())


class Arch:
    """A compiled architecture. Immutable: every method derives something from it and changes nothing."""

    def __init__(self, compiled: Compiled, ref: str | Path) -> None:
        self._compiled, self._ref = compiled, ref

    def __repr__(self) -> str:
        from archspec.compiler.parameters import count_parameters

        return f"<Arch {self.name}: {self.model.form}, {count_parameters(self.model).total:,} parameters>"

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def spec(self) -> Spec:
        """The complete spec: every default and derived value filled in."""
        return self._compiled.spec

    @property
    def model(self) -> Model:
        """The operations it compiles to."""
        return self._compiled.model

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What is doubtful about the spec, though legal."""
        return self._compiled.warnings

    def show(self) -> str:
        """The complete spec as YAML; it loads to the same spec."""
        from archspec.compiler.show import show

        return show(self.spec)

    def count(
        self,
        *,
        batch: int = 1,
        length: int | None = None,
        past: int = 0,
        source_length: int | None = None,
        precision: Name = "fp32",
        compute: Compute | None = None,
        block: int | None = None,
        symmetric: bool = True,
        keep: str | Sequence[str] = (),
    ) -> Counts:
        """Parameters, FLOPs, cache and memory, exactly. See `archspec.compiler.count.count`; `.record()` is the JSON.

        The precision is said as in `export`, and its bytes are what that writes. Raises UsageError as they do.
        """
        from archspec.compiler.count import count
        from archspec.compiler.precision import precision as precision_of

        return count(
            self.model, context_length=self.spec.context_length, batch=batch, length=length, past=past,
            source_length=source_length,
            precision=precision_of(precision, compute=compute, block=block, symmetric=symmetric, keep=keep),
        )  # fmt: skip

    def limits(
        self,
        device: str,
        *,
        contexts: Sequence[int] = (),
        batch: int = 1,
        precision: Name = "fp32",
        compute: Compute | None = None,
        block: int | None = None,
        symmetric: bool = True,
        keep: str | Sequence[str] = (),
    ) -> Limits:
        """How fast it can be on a device, and whether it fits: see `archspec.compiler.limits`; `.record()` is the JSON.

        device: a name of `archspec.compiler.devices`, or what it can do, as `24GiB,58GB/s,200GFLOPS`.
        Raises UsageError for another one, and for a context that the model does not have.
        """
        from archspec.compiler.devices import device as device_of
        from archspec.compiler.limits import limits
        from archspec.compiler.precision import precision as precision_of

        return limits(
            self.model, device_of(device), context_length=self.spec.context_length, batch=batch, contexts=contexts,
            precision=precision_of(precision, compute=compute, block=block, symmetric=symmetric, keep=keep),
        )  # fmt: skip

    def diff(
        self,
        other: Arch,
        *,
        batch: int = 1,
        length: int | None = None,
        source_length: int | None = None,
        precision: Name = "fp32",
        compute: Compute | None = None,
        block: int | None = None,
        symmetric: bool = True,
        keep: str | Sequence[str] = (),
    ) -> Comparison:
        """What differs in another architecture, and the numbers of both; true where anything does.

        See `archspec.compiler.compare.compare`; `.record()` is the JSON. The precision is said as in `count`.
        """
        from archspec.compiler.compare import compare
        from archspec.compiler.precision import precision as precision_of

        return compare(
            self._compiled, other._compiled, batch=batch, length=length, source_length=source_length,
            precision=precision_of(precision, compute=compute, block=block, symmetric=symmetric, keep=keep),
        )  # fmt: skip

    def diagram(self, fmt: Format = "svg", *, level: Level | None = None) -> bytes:
        """The architecture as a picture (svg, png, pdf: needs Graphviz's `dot`) or as its source (dot, mermaid).

        level: every block in full, or one box a layer; by default in full while that stays legible.
        Raises UsageError where Graphviz is missing, and for a format or a level that there is not.
        """
        from archspec.exporters.diagram.render import diagram

        return diagram(self.model, fmt, level=level, context=self.spec.context_length)

    def build(
        self,
        *,
        weights: str | Path | None = None,
        dtype: Dtype | TorchDtype | None = None,
        device: str = "cpu",
        seed: int | None = 0,
    ) -> Transformer:
        """An ordinary `torch.nn.Module`, freshly initialised as the spec says, or with weights read from a file.

        Args:
            weights: a .safetensors or .gguf file, or a folder with either; by default those of the folder this was loaded from.
            dtype: of the weights, as torch calls it; by default the spec's.
            device: where it is built; `meta` allocates nothing.
            seed: of the initialisation; None takes torch's own generator.

        Raises:
            UsageError: weights are named and nothing is allocated to hold them.
            WeightsError: the file's tensors are not this architecture's; all faults are listed.
        """
        numbers = str(dtype or self.spec.dtype).removeprefix("torch.")
        if weights and device == "meta":
            raise UsageError(f"The weights {weights} have no place on the device meta.", "say cpu, or no weights")
        if device != "meta" and (source := self.checkpoint(weights)):
            from archspec.exporters.weights.folder import loaded
            from archspec.exporters.weights.source import open_weights

            module, _ = loaded(self.model, open_weights(source), numbers, self.spec.context_length)
            return module.to(device)
        from archspec.exporters.torch.module import build

        return build(self.model, self.spec.init, dtype=numbers, device=device, seed=seed)

    def save(
        self,
        out: str | Path,
        *,
        module: Transformer | None = None,
        weights: str | Path | None = None,
        layout: Literal["archspec", "hf"] = "archspec",
        overwrite: bool = False,
    ) -> str:
        """Write a folder as `archspec build` does: the complete spec and its weights. Returns what was done, as text.

        Args:
            out: the folder to make; `archspec.load` reads it back, and every command takes it for a spec.
            module: the built model whose weights to write; by default those that `self.build(weights=weights)` has.
            weights: as for `build`.
            layout: `archspec`, or `hf`, a checkpoint with Hugging Face's names and config.json.
            overwrite: replace a folder that an earlier build wrote.

        Raises:
            UsageError: `out` is taken.
            WeightsError: the tensors of `weights` are not this architecture's, or no family of Hugging Face has its form.
        """
        from archspec.exporters.weights.folder import write_folder

        return write_folder(self, Path(out), module=module, weights=weights, layout=layout, overwrite=overwrite)

    @property
    def weights(self) -> Path | None:
        """The weights beside the spec, where it was loaded from a folder that has them."""
        from archspec.compiler.source import in_zoo

        beside = Path(self._ref) / "model.safetensors"
        return beside if not in_zoo(self._ref) and beside.is_file() else None

    def checkpoint(self, weights: str | Path | None = None) -> str | Path | None:
        """Where weights are read from: `weights`, or what lies beside the spec; None where they are to be fresh.

        Raises UsageError for the spec of an export, whose weights are ONNX's: fresh ones are hardly meant.
        """
        from archspec.compiler.source import in_zoo
        from archspec.exporters.manifest import MANIFEST

        found = weights or self.weights
        if found is None and not in_zoo(self._ref) and (Path(self._ref) / MANIFEST).is_file():
            raise UsageError(
                f"{self._ref} is an export, whose weights are not read back.",
                f"name the weights that it was made of, or say {Path(self._ref) / 'spec.yaml'} for fresh ones",
            )
        return found

    def export(
        self,
        out: str | Path,
        *,
        module: Transformer | None = None,
        weights: str | Path | None = None,
        seed: int | None = None,
        overwrite: bool = False,
        verify: bool = True,
        target: Target = "onnx",
        last_only: bool = True,
        graph_only: bool = False,
        precision: Name = "fp32",
        compute: Compute | None = None,
        block: int | None = None,
        symmetric: bool = True,
        keep: str | Sequence[str] = (),
        budget: float | None = None,
        progress: Callable[[str, float], None] | None = None,
    ) -> ExportSummary:
        """Write an ONNX folder and verify it against PyTorch.

        Weights are read, or drawn, as they are written: without `module` no model is built unless it is to be verified.

        Args:
            out: the folder to make. Nothing half-written is ever left under this name.
            module: the built model whose weights to write; by default those that `self.build(weights=weights)` has.
            weights: as for `build`.
            seed: of fresh weights, where there are no others, by default 0; the summary then begins with a line that says so.
            overwrite: replace a folder that an earlier export wrote.
            verify: compare ONNX Runtime with PyTorch before the folder appears.
            target: `onnx`, operators of opset 23 only; `ort`, ONNX Runtime's own fused ones where they compute the same.
            last_only: the graph that steps through a text gives the logits of each row's last token alone: quicker prompts.
            graph_only: write graphs that refer to a weights file, and not the file. Nothing is verified then.
            precision: what weights are stored in; in fp16 and bf16 the graphs compute in it too.
            compute: what graphs compute in where weights are int8 or int4; by default fp32.
            block: with int8 and int4, weights that share a scale: 16, 32, 64, 128 or 256; by default 32.
            symmetric: with int8 and int4, blocks have no zero of their own.
            keep: patterns of paths (`head`, `decoder.layers.0.*`) whose weights are not made int8 or int4.
            budget: the mean divergence from float32, in nats, that a narrower precision may have.
            progress: called with what is being done and the share that is done.

        Raises:
            UsageError: `out` cannot be written, there is no room to verify, a precision is said that there is not, or a seed
                where nothing is drawn.
            BudgetError: the precision costs more than its budget.
            VerificationError: the exported graph computes something else than the module.
            WeightsError: the tensors of `weights` are not this architecture's.
        """
        from archspec.exporters.onnx.apart import apart

        compared = verify and not graph_only
        with apart(compared and module is None and precision == "fp32") as elsewhere:
            from archspec.compiler.precision import precision as precision_of
            from archspec.exporters.onnx.export import export
            from archspec.exporters.onnx.sources import sources

            numbers = precision_of(precision, compute=compute, block=block, symmetric=symmetric, keep=keep)
            checkpoint = (weights or self.weights) if module or graph_only else self.checkpoint(weights)
            if seed is not None and (module or checkpoint or graph_only):
                where = "not written" if graph_only else f"those of {checkpoint}" if checkpoint else "the module's"
                raise UsageError(f"A seed of {seed} would do nothing: the weights are {where}.", "leave --seed out")
            read, beside = sources(
                self.model, self.spec, checkpoint, module, numbers, compared=compared, seed=seed or 0
            )
            return export(
                self.model,
                read,
                self.show(),
                Path(out),
                context_length=self.spec.context_length,
                overwrite=overwrite,
                verify=verify,
                module=module,
                target=target,
                last_only=last_only,
                graph_only=graph_only,
                precision=numbers,
                budget=budget,
                beside=beside,
                apart=elsewhere,
                progress=progress,
            )
