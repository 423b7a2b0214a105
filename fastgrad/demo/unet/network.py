"""A U-Net that denoises a picture at any level of noise, of stock modules alone.

The denoiser is that of Karras et al., "Elucidating the Design Space of Diffusion-Based Generative
Models", arXiv:2206.00364: the network sees a picture scaled to unit variance and the logarithm of its
noise, and its output is mixed with the picture so that its target has unit variance as well.
"""

import math

import torch
from torch import Tensor, nn

from fastgrad.bench.torch_modules.blocks import ResBlock

DEVIATION = 0.25
"""Of the pixels of the photographs, which span 1."""

GROUPS = 8
"""Groups of channels that are normalised."""


class UNet(nn.Module):
    """Three resolutions, a residual block on each on the way down and on the way up.

    Parameters
    ----------
    channels : int
        Of the finest resolution; the coarser ones have twice as many.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        wide, embedding = 2 * channels, 4 * channels
        self.embed = nn.Sequential(
            nn.Linear(channels, embedding), nn.SiLU(), nn.Linear(embedding, embedding)
        )
        self.enter = nn.Conv2d(3, channels, 3, padding=1)

        def block(inner: int, outer: int) -> ResBlock:
            return ResBlock(inner, outer, embedding, GROUPS)

        self.down = nn.ModuleList([block(channels, channels), block(channels, wide)])
        self.shrink = nn.ModuleList(
            [nn.Conv2d(count, count, 3, stride=2, padding=1) for count in (channels, wide)]
        )
        self.middle = block(wide, wide)
        self.up = nn.ModuleList([block(2 * wide, wide), block(wide + channels, channels)])
        self.grow = nn.Upsample(scale_factor=2)
        self.leave = nn.Sequential(
            nn.GroupNorm(GROUPS, channels), nn.SiLU(), nn.Conv2d(channels, 3, 3, padding=1)
        )
        self._channels = channels

    def forward(self, x: Tensor, level: Tensor) -> Tensor:
        """The output for pictures with one level of noise each."""
        embedding = self.embed(_waves(level, self._channels))
        h = self.enter(x)
        skips = []
        for block, shrink in zip(self.down, self.shrink, strict=True):
            h = block(h, embedding)
            skips.append(h)
            h = shrink(h)
        h = self.middle(h, embedding)
        for block in self.up:
            h = block(torch.cat([self.grow(h), skips.pop()], dim=1), embedding)
        return self.leave(h)


def _waves(level: Tensor, count: int) -> Tensor:
    """Cosines and sines of a number at `count / 2` frequencies."""
    frequencies = torch.exp(torch.linspace(0, math.log(100), count // 2))
    angles = level[:, None] * frequencies
    return torch.cat([angles.cos(), angles.sin()], dim=1)


def loss(network: nn.Module, clean: Tensor, noise: Tensor, sigma: Tensor) -> Tensor:
    """Mean squared error of the network's output, whose target has unit variance."""
    of_picture, of_output = _mixture(sigma)
    noisy = clean + sigma[:, None, None, None] * noise
    target = (clean - of_picture * noisy) / of_output
    return (_output(network, noisy, sigma) - target).square().mean()


def denoise(network: nn.Module, noisy: Tensor, sigma: Tensor) -> Tensor:
    """The pictures without their noise."""
    of_picture, of_output = _mixture(sigma)
    with torch.no_grad():
        return of_picture * noisy + of_output * _output(network, noisy, sigma)


def _output(network: nn.Module, noisy: Tensor, sigma: Tensor) -> Tensor:
    scale = (sigma.square() + DEVIATION**2).rsqrt()
    output: Tensor = network(noisy * scale[:, None, None, None], sigma.log() / 4)
    return output


def _mixture(sigma: Tensor) -> tuple[Tensor, Tensor]:
    """The shares of the noisy picture and of the network's output in the denoised picture."""
    total = sigma.square() + DEVIATION**2
    of_picture, of_output = DEVIATION**2 / total, sigma * DEVIATION * total.rsqrt()
    return of_picture[:, None, None, None], of_output[:, None, None, None]
