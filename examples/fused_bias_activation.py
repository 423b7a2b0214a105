"""Bias and activation in one pass: the bias is broadcast, its gradient is summed where dx is computed."""

import numpy as np
from beside import arrays, report, tensors

import fastgrad


@fastgrad.elementwise
def bias_mish(x, bias):
    """mish(x + bias): an operator inside of another is one kernel."""
    return fastgrad.mish(x + bias)


def main() -> None:
    x, dy = arrays(2)
    bias = np.linspace(-1, 1, x.shape[1], dtype=np.float32)
    y = bias_mish(x, bias)
    dx, dbias = bias_mish.grad(dy, x, bias)
    print(f"y {y.shape}, dx {dx.shape}, dbias {dbias.shape}: {np.abs(dbias - dx.sum(0)).max():.1e}")
    fastgrad.check(bias_mish, dtypes=["float32", "bfloat16"]).raise_if_failed()

    leaves = tensors(x, bias)

    def ours():
        return bias_mish(x, bias), bias_mish.grad(dy, x, bias)

    def autodiff():
        import torch

        result = torch.nn.functional.mish(leaves[0] + leaves[1])
        result.backward(leaves[0].detach())

    report("bias_mish", ours, autodiff)


if __name__ == "__main__":
    main()
