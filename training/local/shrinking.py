"""Frames shrunk to one pixel a maze cell, computed from the layout: drawing a million would take too long.

Two of the filters by which an image processor shrinks a picture:
- `box` averages the pixels of a cell and mixes no cells, which a small model learns fastest;
- `bilinear` is known to both of Hugging Face's processors: PIL's, and torchvision's, which vLLM uses.
Both are linear, so a frame is the flat cells blended, plus the agent's disc blended into the cells around it.
"""

import functools
from collections.abc import Sequence
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from training.maze import (
    AGENT_COLOUR,
    AGENT_DISC,
    CELL_PIXELS,
    PATH_COLOUR,
    TARGET_COLOUR,
    WALL_COLOUR,
    Cell,
    Maze,
)


class Shrinking(StrEnum):
    """The filter; its name in capitals is PIL's."""

    BOX = "box"
    BILINEAR = "bilinear"


def shrunk_frames(maze: Maze, cells: Sequence[Cell], shrinking: Shrinking) -> NDArray[np.float64]:
    """The frames with the agent on each of `cells`, in shades of 0 to 255, shape (cells, size, size, 3).

    Within one shade of what the image processor makes of `render`, which rounds between its two passes.
    """
    colours = _flat_colours(maze)
    blend = _cell_weights(maze.size, shrinking)
    background = np.einsum("ij,jkc,lk->ilc", blend, colours, blend)
    shares = np.stack([_disc_weights(maze.size, row, column, shrinking) for row, column in cells])
    changes = np.array(AGENT_COLOUR) - np.stack([colours[cell] for cell in cells])
    frames: NDArray[np.float64] = np.round(background + shares[..., None] * changes[:, None, None])
    return frames


def _flat_colours(maze: Maze) -> NDArray[np.float64]:
    walls = np.array([[letter == "#" for letter in row] for row in maze.rows])
    colours = np.where(walls[..., None], WALL_COLOUR, PATH_COLOUR).astype(np.float64)
    colours[maze.target] = TARGET_COLOUR
    return colours


@functools.cache
def _pixel_weights(size: int, shrinking: Shrinking) -> NDArray[np.float64]:
    """What each pixel of a line of the picture gives to each cell; shape (size, 25 * size)."""
    pixels = np.arange(size * CELL_PIXELS) + 0.5
    centres = (np.arange(size) + 0.5) * CELL_PIXELS
    distance = np.abs(pixels[None] - centres[:, None]) / CELL_PIXELS
    if shrinking is Shrinking.BOX:
        weights = (distance < 0.5).astype(np.float64)
    else:
        # A triangle two cells wide: the bilinear filter, widened for shrinking as both processors do it.
        weights = np.clip(1 - distance, 0, None)
    return weights / weights.sum(1, keepdims=True)


@functools.cache
def _cell_weights(size: int, shrinking: Shrinking) -> NDArray[np.float64]:
    """What each flat cell of a line gives to each cell; shape (size, size)."""
    return _pixel_weights(size, shrinking).reshape(size, size, CELL_PIXELS).sum(2)


@functools.cache
def _disc_weights(size: int, row: int, column: int, shrinking: Shrinking) -> NDArray[np.float64]:
    """The share that the agent's disc on a cell takes of every cell; shape (size, size)."""
    weights = _pixel_weights(size, shrinking).reshape(size, size, CELL_PIXELS)
    return weights[:, row] @ AGENT_DISC @ weights[:, column].T
