"""A loss of your own: the maths of one element; reductions, value and gradient in one pass follow."""

from beside import arrays, report, tensors

import fastgrad
from fastgrad import maths as m


@fastgrad.loss
def log_cosh(x, target):
    """log(cosh(x - target)), which neither overflows nor cancels in this form."""
    size = abs(x - target)
    return size + m.softplus(-2.0 * size) - 0.6931471805599453


def main() -> None:
    x, target = arrays(2)
    value, dx = log_cosh.value_and_grad(x, target)
    print(f"loss {value:.6f}, dx {dx.shape}, largest {abs(dx).max():.2e}")
    fastgrad.check(log_cosh, dtypes=["float32", "bfloat16"]).raise_if_failed()

    leaves = tensors(x, target)

    def ours():
        return log_cosh.value_and_grad(x, target)

    def autodiff():
        import torch

        size = (leaves[0] - leaves[1]).abs()
        result = (size + torch.nn.functional.softplus(-2.0 * size) - 0.6931471805599453).mean()
        torch.autograd.grad(result, leaves[0])

    report("log_cosh", ours, autodiff)


if __name__ == "__main__":
    main()
