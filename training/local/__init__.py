"""A laptop's stand-in for the GPU half of the stack, so that SkyRL's own trainer runs where there is no GPU.

Nothing here is imported by the deployed entry. Each module says what of the real stack it replaces and what
therefore is NOT rehearsed.
"""
