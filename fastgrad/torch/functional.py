"""Functions with the signatures of `torch.nn.functional`, computed by fastgrad's kernels."""

from . import _activations, _dropout, _gated, _losses, _norms
from ._activations import *  # noqa: F403
from ._dropout import *  # noqa: F403
from ._gated import *  # noqa: F403
from ._losses import *  # noqa: F403
from ._norms import *  # noqa: F403

__all__: list[str] = []
__all__ += _activations.__all__
__all__ += _dropout.__all__
__all__ += _gated.__all__
__all__ += _losses.__all__
__all__ += _norms.__all__
