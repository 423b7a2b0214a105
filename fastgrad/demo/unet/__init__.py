"""A small diffusion U-Net of PyTorch's modules, trained as it is and patched.

Run it with ``make demo-torch`` or ``python -m fastgrad.demo.unet``. Read it in this order:

- ``network``: the U-Net, stock PyTorch, and how it denoises at every level of noise;
- ``training``: the loop, and what it measures;
- ``sides``: both trainings, in a process each, step by step in turn;
- ``report``: the table and the picture.
"""
