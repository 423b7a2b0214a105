"""Functions with the signatures of `torch.nn.functional`, computed by fastgrad's kernels."""

from ._activations import *  # noqa: F403
from ._activations import __all__ as _activations
from ._dropout import *  # noqa: F403
from ._dropout import __all__ as _dropout
from ._gated import *  # noqa: F403
from ._gated import __all__ as _gated
from ._losses import *  # noqa: F403
from ._losses import __all__ as _losses
from ._norms import *  # noqa: F403
from ._norms import __all__ as _norms

__all__ = sorted([*_activations, *_dropout, *_gated, *_losses, *_norms])
