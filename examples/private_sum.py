"""A private sum: the server adds up files that it cannot read, and keyholders open the sum alone.

Three hospitals, two keyholders who both must answer. The result has the very bytes that plain
files would have given, and nobody ever saw one hospital's counts. Needs the extra
`private`. Over real machines the same steps are the commands `safle private ...`.
"""

from tempfile import TemporaryDirectory

import numpy as np
from sklearn.datasets import load_digits

import safle
from safle_private import (
    Gathering,
    History,
    PrivateKey,
    answer_request,
    declare_round,
    mask,
)

features, labels = load_digits(return_X_y=True)
encoder = safle.make_encoder(safle.declared_range(0, 16, feature_dim=64), "linear")
parts = np.array_split(np.arange(1500), 3)
counts = [safle.count(encoder, features[part], labels[part]) for part in parts]

# The operator declares who may take part, and that fewer than three files are never opened.
operator = PrivateKey.new("operator")
hospitals = [PrivateKey.new(name) for name in ("north", "east", "west")]
keyholders = [PrivateKey.new(name) for name in ("ministry", "university")]
private_round = declare_round(
    operator,
    safle.Statistics.empty(encoder.space, range(10)),
    most_total_samples=10_000,
    clients=[key.public for key in hospitals],
    keyholders=[key.public for key in keyholders],
    least_clients=3,
)

# Every hospital masks its counts: to anybody else the file is noise.
gathering = Gathering(private_round)
for key, own in zip(hospitals, counts, strict=True):
    masked = mask(private_round, key, own)
    sent = np.bincount(np.frombuffer(masked.to_bytes(), np.uint8), minlength=256)
    print(
        f"{key.name}: of {sent.sum():,} bytes each value occurs {sent.min()} to {sent.max()} times"
    )
    gathering.add(masked)
total = gathering.finish()

# Both keyholders look at who is in the sum, remember that they opened it, and answer.
answers = []
for key in keyholders:
    # In earnest a keyholder keeps one history for all rounds, and begins it once.
    with TemporaryDirectory() as folder:
        history = History(f"{folder}/history", new=True)
        answers.append(answer_request(total.request, key, history))
opened = total.open(answers)
same = opened == safle.sum_statistics(counts)
print(f"opened: {opened.sample_count} samples; equal to the plain sum: {same}")
model = safle.Model.of(encoder, safle.solve(opened))
print(f"accuracy {(model.predict(features[1500:]) == labels[1500:]).mean():.1%}")
