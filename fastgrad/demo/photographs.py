"""The two photographs that scikit-learn ships, cut into noisy patches."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

Pixels = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Photograph:
    """Pixels in [-0.5, 0.5], and the square of them that no training patch touches."""

    name: str
    pixels: Pixels
    top: int
    left: int
    size: int

    @property
    def crop(self) -> Pixels:
        """The held-out square."""
        return self.pixels[self.top : self.top + self.size, self.left : self.left + self.size]

    def touches_crop(
        self, rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64], patch: int
    ) -> npt.NDArray[np.bool_]:
        """Whether the patches with these upper left corners overlap the held-out square."""
        beside = (columns + patch <= self.left) | (columns >= self.left + self.size)
        return ~(beside | (rows + patch <= self.top) | (rows >= self.top + self.size))


def load_photographs() -> list[Photograph]:
    """Load the pagoda and the flower; the crops lie on a roof's edge and on the petals."""
    from sklearn.datasets import load_sample_images

    china, flower = (
        image.astype(np.float32) / np.float32(255) - np.float32(0.5)
        for image in load_sample_images().images
    )
    return [
        Photograph("pagoda", china, top=120, left=250, size=144),
        Photograph("flower", flower, top=120, left=250, size=144),
    ]


def sample_patches(
    photographs: list[Photograph], count: int, patch: int, rng: np.random.Generator
) -> Pixels:
    """Draw `count` patches, as many from each photograph, as rows of a matrix."""
    shares = [len(part) for part in np.array_split(np.arange(count), len(photographs))]
    patches = [
        _sample(photo, share, patch, rng) for photo, share in zip(photographs, shares, strict=True)
    ]
    return np.concatenate(patches)


def _sample(photo: Photograph, count: int, patch: int, rng: np.random.Generator) -> Pixels:
    height, width, channels = photo.pixels.shape
    corners = np.empty((0, 2), np.int64)
    while len(corners) < count:
        drawn = rng.integers((height - patch + 1, width - patch + 1), size=(count, 2))
        outside = ~photo.touches_crop(drawn[:, 0], drawn[:, 1], patch)
        corners = np.concatenate([corners, drawn[outside]])[:count]
    windows = _windows(photo.pixels, patch)
    return windows[corners[:, 0], corners[:, 1]].reshape(count, patch * patch * channels)


def add_noise(clean: Pixels, sigma: float, rng: np.random.Generator) -> Pixels:
    """Gaussian noise of standard deviation `sigma` (the pixels span 1) on top of `clean`."""
    return clean + np.float32(sigma) * rng.standard_normal(clean.shape, dtype=np.float32)


def brightness(patches: Pixels) -> Pixels:
    """The mean of each patch: the network sees patches without it, as a column to add again."""
    return patches.mean(axis=1, keepdims=True)


def split(picture: Pixels, patch: int, step: int) -> Pixels:
    """Cut a picture, reflected at its edges, into a patch at every `step` pixels, as rows."""
    rim = patch - step
    padded = np.pad(picture, ((rim, patch), (rim, patch), (0, 0)), mode="reflect")
    windows = _windows(padded, patch)[::step, ::step]
    return windows.reshape(-1, patch * patch * picture.shape[2])


def join(patches: Pixels, shape: tuple[int, ...], patch: int, step: int) -> Pixels:
    """Put the patches of `split` back in their places: the mean where they overlap."""
    height, width, channels = shape
    rim = patch - step
    total = np.zeros((height + rim + patch, width + rim + patch, channels), np.float32)
    count = np.zeros((*total.shape[:2], 1), np.float32)
    tiles = iter(patches.reshape(-1, patch, patch, channels))
    for row in range(0, total.shape[0] - patch + 1, step):
        for column in range(0, total.shape[1] - patch + 1, step):
            total[row : row + patch, column : column + patch] += next(tiles)
            count[row : row + patch, column : column + patch] += 1
    inside = (slice(rim, rim + height), slice(rim, rim + width))
    return total[inside] / count[inside]


def psnr(picture: Pixels, original: Pixels) -> float:
    """Peak signal-to-noise ratio in decibels; both pictures are clipped to what can be shown."""
    error = np.clip(picture, -0.5, 0.5) - original
    return float(-10 * np.log10(np.mean(np.square(error, dtype=np.float64))))


def _windows(pixels: Pixels, patch: int) -> npt.NDArray[Any]:
    """View of every patch of the picture: (row, column, patch row, patch column, channel)."""
    return sliding_window_view(pixels, (patch, patch), axis=(0, 1)).transpose(0, 1, 3, 4, 2)
