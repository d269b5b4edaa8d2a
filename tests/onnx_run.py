"""Export a model to ONNX with free axes, and run it in ONNX Runtime on tensors."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnxruntime
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

Axes = Sequence[Mapping[int, str | Any] | None]


class Call(nn.Module):
    """A module whose forward pass is some function of another module, such as one of its methods."""

    def __init__(self, module: nn.Module, function: Callable[..., Any]) -> None:
        super().__init__()
        self.module, self.function = module, function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


def export(module: nn.Module, inputs: Sequence[Tensor], axes: Axes) -> ExportedProgram:
    """Run `torch.export` with free axes: for each input those that are, such as `{0: "batch", 1: Dim("time", max=9)}`.

    Fails where an axis that should be free was frozen at the example's size.
    """
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        return torch.export.export(module.eval(), tuple(inputs), dynamic_shapes=_shapes(module, axes))


class OnnxRun:
    """An exported model as a function of tensors.

    Args:
        module: called in evaluation mode with `inputs` in order; a method is exported through `Call`.
        inputs: examples. Run the export at other sizes too.
        axes: as for `export`.
        options: keywords of `torch.onnx.export`, such as `custom_translation_table`.
    """

    def __init__(self, module: nn.Module, inputs: Sequence[Tensor], axes: Axes, **options: Any) -> None:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # the exporter's own
            shapes = _shapes(module, axes)
            program = torch.onnx.export(
                module.eval(), tuple(inputs), dynamo=True, dynamic_shapes=shapes, verbose=False, **options
            )
        assert program is not None
        self.session = onnxruntime.InferenceSession(
            program.model_proto.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        self.input_shapes = [value.shape for value in self.session.get_inputs()]
        """sizes of the inputs; a free axis is its name"""
        self.output_shapes = [value.shape for value in self.session.get_outputs()]

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        names = (value.name for value in self.session.get_inputs())
        arrays = {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)}
        return [torch.from_numpy(array) for array in self.session.run(None, arrays)]


def _shapes(module: nn.Module, axes: Axes) -> Any:
    names = {name for free in axes for name in (free or {}).values() if isinstance(name, str)}
    dims = {name: Dim(name) for name in names}
    shapes = tuple({axis: dims.get(name, name) for axis, name in free.items()} if free else None for free in axes)
    return (shapes,) if isinstance(module, Call) else shapes  # a Call takes its inputs as one tuple, *inputs
