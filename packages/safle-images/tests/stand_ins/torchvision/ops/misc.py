"""What timm asks instances for."""

from __future__ import annotations

import torch


class FrozenBatchNorm2d(torch.nn.Module):
    """No network here has one."""
