"""The plain trainer: GRPO on CPU with a tiny policy, as Ray actors; small enough to read in one sitting.

It stands in for SkyRL's trainer. Maze, rewards, evaluation and report know nothing of it.
"""
