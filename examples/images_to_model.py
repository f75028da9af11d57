"""Images in class folders to a model: `python examples/images_to_model.py [FOLDER] [BACKBONE]`.

Without a folder it draws one: scikit-learn's digits as PNG files. The backbone is the
default or an ONNX file; features never touch the disk.
"""

import sys
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

import safle
from safle_images.backbones import DEFAULT, extract, load_backbone
from safle_images.readers import open_images


def draw_digits(folder: Path, count: int = 150) -> Path:
    """Class folders of small PNG files."""
    digits = load_digits()
    for i in range(count):
        place = folder / str(digits.target[i])
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray((digits.images[i] * 15).astype(np.uint8)).resize((64, 64)).save(
            place / f"{i}.png"
        )
    return folder


folder = Path(sys.argv[1]) if len(sys.argv) > 1 else draw_digits(Path(mkdtemp(), "digits"))
images = open_images(folder)
backbone = load_backbone(sys.argv[2] if len(sys.argv) > 2 else DEFAULT)
print(f"{images.description}; {backbone.name} gives {backbone.feature_dim} features")

batches = list(extract(images.records(), backbone))
features = np.concatenate([batch.features for batch in batches])
labels = np.array([label for batch in batches for label in batch.labels])
# Every third image stands for a public sample that sets the scale, every other third tests.
encoder = safle.make_encoder(safle.public_sample(features[::3]), units=512)
encoder = encoder.declare(source=backbone.source)  # features of another backbone are refused
model = safle.Model.of(encoder, safle.solve(safle.count(encoder, features[1::3], labels[1::3])))
right = model.predict(features[2::3]) == labels[2::3]
print(f"{right.mean():.1%} of {len(right)} test images right")
