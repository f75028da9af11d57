"""ViT-B/16: Dosovitskiy et al., An Image is Worth 16x16 Words, 2020; torchvision's."""

from collections import OrderedDict

import torch
from torch import nn

from safle_images.backbones.architectures.base import Classifier

PATCH, PATCHES, WIDTH, HEADS, LAYERS = 16, 14 * 14, 768, 12, 12
EPSILON = 1e-6


class Attention(nn.Module):
    """Self-attention, written out: torch's own has a fast path that cannot be exported."""

    def __init__(self) -> None:
        super().__init__()
        self.in_proj_weight = nn.Parameter(torch.zeros(3 * WIDTH, WIDTH))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * WIDTH))
        self.out_proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Tokens, (batch, tokens, width), mixed by what they ask of each other."""
        joint = nn.functional.linear(x, self.in_proj_weight, self.in_proj_bias)
        query, key, value = (
            part.unflatten(2, (HEADS, WIDTH // HEADS)).transpose(1, 2)
            for part in joint.chunk(3, dim=2)
        )
        scores = query @ key.transpose(2, 3) * (WIDTH // HEADS) ** -0.5
        return self.out_proj((scores.softmax(dim=3) @ value).transpose(1, 2).flatten(2))


class EncoderBlock(nn.Module):
    """Attention and a perceptron, each behind a normalisation and beside a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(WIDTH, eps=EPSILON)
        self.self_attention = Attention()
        self.ln_2 = nn.LayerNorm(WIDTH, eps=EPSILON)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH),
            nn.GELU(),
            nn.Dropout(0.0),
            nn.Linear(4 * WIDTH, WIDTH),
            nn.Dropout(0.0),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Tokens -> tokens."""
        x = x + self.self_attention(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    """Positions, then all blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.zeros(1, PATCHES + 1, WIDTH))
        blocks = [(f"encoder_layer_{index}", EncoderBlock()) for index in range(LAYERS)]
        self.layers = nn.Sequential(OrderedDict(blocks))
        self.ln = nn.LayerNorm(WIDTH, eps=EPSILON)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Tokens -> tokens."""
        return self.ln(self.layers(x + self.pos_embedding))


class VitB16(Classifier):
    """768 features: the class token behind the last normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_proj = nn.Conv2d(3, WIDTH, PATCH, stride=PATCH)
        self.class_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.encoder = Encoder()
        self.heads = nn.Sequential(OrderedDict(head=nn.Linear(WIDTH, 1000)))

    def embed(self, images: torch.Tensor) -> torch.Tensor:
        patches = self.conv_proj(images).flatten(2).transpose(1, 2)
        first = self.class_token.expand(patches.shape[0], -1, -1)
        return self.encoder(torch.cat([first, patches], dim=1))[:, 0]

    def score(self, features: torch.Tensor) -> torch.Tensor:
        return self.heads(features)

    def _load_from_state_dict(
        self, state_dict: dict[str, torch.Tensor], prefix: str, *rest: object
    ) -> None:
        # The published weights are older than torchvision's names for the perceptron.
        for name in list(state_dict):
            current = name.replace(".mlp.linear_1.", ".mlp.0.").replace(".linear_2.", ".3.")
            if current != name:
                state_dict[current] = state_dict.pop(name)
        super()._load_from_state_dict(state_dict, prefix, *rest)
