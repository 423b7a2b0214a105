"""An activation of your own: a line of maths, and its kernels in four precisions follow."""

import numpy as np
from beside import arrays, report, tensors

import fastgrad
from fastgrad import maths as m


@fastgrad.elementwise
def soft_step(x, slope=1.0):
    """x · sigmoid(slope · x + 1), with a trainable slope."""
    return x * m.sigmoid(slope * x + 1.0)


def main() -> None:
    x, dy = arrays(2)
    y = soft_step(x, 1.5)
    dx, dslope = soft_step.grad(dy, x, 1.5)
    print(f"y {y.shape} {y.dtype}, dx {dx.shape}, dslope {dslope:.4f}")
    fastgrad.check(soft_step, dtypes=["float32", "bfloat16"]).raise_if_failed()

    leaves = tensors(x, np.float32(1.5))

    def ours():
        return soft_step(x, 1.5), soft_step.grad(dy, x, 1.5)

    def autodiff():
        tensor, slope = leaves
        result = tensor * (slope * tensor + 1.0).sigmoid()
        result.backward(tensor.detach())

    report("soft_step", ours, autodiff)


if __name__ == "__main__":
    main()
