"""The main job on real input: a patch denoiser trained on two photographs, with NumPy alone.

Run it with ``make demo`` or ``python -m fastgrad.demo``. Read it in this order:

- ``photographs``: the two photographs, the patches to train on, the crop that is held out;
- ``denoiser``: the network, with its backward written by hand over fastgrad's gradients;
- ``tape``: the same network in composed autodiff (HIPS autograd);
- ``training``: the loop that both run, each in a process of its own, and what it measures;
- ``report``: the table and the picture.
"""
