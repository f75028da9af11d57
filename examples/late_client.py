"""A late client joins, another leaves: both exactly, without asking the others again."""

from sklearn.datasets import load_digits

import safle

features, labels = load_digits(return_X_y=True)
encoder = safle.make_encoder(safle.declared_range(0, 16, feature_dim=64), units=256)
first, second, late = (
    safle.count(encoder, features[start:stop], labels[start:stop])
    for start, stop in ((0, 500), (500, 900), (900, 1400))
)
test, truth = features[1400:], labels[1400:]


def report(when: str, total: safle.Statistics) -> safle.Model:
    """Solve and say how good it is."""
    model = safle.Model.of(encoder, safle.solve(total))
    right = (model.predict(test) == truth).mean()
    print(f"{when:28} {total.sample_count:5} samples {right:6.1%}  model {model.digest[:12]}")
    return model


total = first + second
report("two clients", total)
total = total + late
report("a late one joins", total)
total = total - second
unlearned = report("the second withdraws", total)
never = report("had it never been there", first + late)
assert unlearned.digest == never.digest
print("the last two are the same file, byte for byte")
