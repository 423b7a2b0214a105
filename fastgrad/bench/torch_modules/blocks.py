"""Two blocks of networks, of stock modules alone."""

from __future__ import annotations

from torch import Tensor, nn

_GROUPS = 32


class ResBlock(nn.Module):
    """A residual block of Stable Diffusion's U-Net, written as there (`openaimodel.py`)."""

    def __init__(
        self, channels: int, out_channels: int, embedding: int, groups: int = _GROUPS
    ) -> None:
        super().__init__()
        self.in_layers = nn.Sequential(
            nn.GroupNorm(groups, channels),
            nn.SiLU(),
            nn.Conv2d(channels, out_channels, 3, padding=1),
        )
        self.emb_layers = nn.Sequential(nn.SiLU(), nn.Linear(embedding, out_channels))
        self.out_layers = nn.Sequential(
            nn.GroupNorm(groups, out_channels),
            nn.SiLU(),
            nn.Dropout(0.0),
            nn.Conv2d(out_channels, out_channels, 3, padding=1),
        )
        same = channels == out_channels
        self.skip = nn.Identity() if same else nn.Conv2d(channels, out_channels, 1)

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        h = self.in_layers(x)
        h = h + self.emb_layers(embedding)[:, :, None, None]
        return self.skip(x) + self.out_layers(h)


class Bottleneck(nn.Module):
    """A bottleneck of ResNet-50, written as in torchvision, its norms over groups of channels."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.norm1 = nn.GroupNorm(_GROUPS, width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(_GROUPS, width)
        self.conv3 = nn.Conv2d(width, channels, 1, bias=False)
        self.norm3 = nn.GroupNorm(_GROUPS, channels)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.norm1(self.conv1(x)))
        out = self.relu(self.norm2(self.conv2(out)))
        return self.relu(self.norm3(self.conv3(out)) + x)
