"""A forger who knows the algebra: true statistics, and files with other numbers in them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from safle import Statistics, count, encode
from safle.errors import SafleError
from safle.statistics.gram import Triangle
from support.data_sets import fixed_encoder
from support.forging import CHANGES, Forgery, forge


def true_statistics(kind, seed, widen=1):
    """Small true statistics in both forms: many samples, few, one, repeated, all alike."""
    generator = np.random.default_rng(seed)
    result = []
    for samples, features_each in ((24, 3), (3, 12), (1, 10), (5, 16), (2, 14)):
        width = widen * features_each
        encoder = fixed_encoder(kind, width, buckets=2, group_size=2)
        features = generator.normal(size=(samples, width))
        if samples == 2:
            features[1] = features[0]
        names = np.array(["well", "ill", "só"])[generator.integers(0, 3, samples)]
        labels = names if generator.random() < 0.5 else generator.integers(-1, 2, samples)
        result.append((encoder, count(encoder, features, labels)))
    return result


@dataclass
class Sums:
    """Statistics as arrays that can be changed."""

    true: Statistics
    names: list
    counts: np.ndarray
    cross: np.ndarray
    gram: np.ndarray
    parts: list
    """Grams of classes, where they are counted."""

    @staticmethod
    def of(s):
        names, parts = list(s.class_names), [part.gram_square() for part in s.by_class]
        return Sums(s, names, +s.class_counts, s.cross.copy(), s.gram_square(), parts)

    def to_bytes(self):
        return encode(self.as_statistics())

    def as_statistics(self):
        whole = replace(
            self.true,
            class_names=tuple(self.names),
            class_counts=self.counts,
            cross=self.cross,
            gram=packed(self.gram),
            by_class=(),
        )
        parts = enumerate(map(packed, self.parts))
        return replace(
            whole, by_class=tuple(whole.of_class(k).with_gram(gram) for k, gram in parts)
        )

    @property
    def seen(self):
        return len(self.true.codes)

    def put(self, i, j, value):
        self.gram[i, j] = self.gram[j, i] = value


def packed(square):
    gram = square[np.triu_indices(len(square))]
    fits = np.abs(gram).max(initial=0) < 2**31
    return Triangle(gram.astype(np.int32 if fits else np.int64), len(square))


def two(generator, size):
    return generator.integers(0, max(size, 1), 2)


def nudge_gram(g, s):
    i, j = two(g, len(s.gram))
    with np.errstate(over="ignore"):
        s.put(i, j, s.gram[i, j] + np.int64(g.choice(CHANGES)))


def nudge_cross(g, s):
    flat = s.cross.reshape(-1)
    with np.errstate(over="ignore"):
        flat[g.integers(len(flat))] += np.int64(g.choice(CHANGES))


def nudge_counts(g, s):
    with np.errstate(over="ignore"):
        s.counts[g.integers(len(s.counts))] += np.int64(g.choice(CHANGES))


def swap_entries(g, s):
    (i, j), (k, m) = two(g, len(s.gram)), two(g, len(s.gram))
    first, second = s.gram[i, j], s.gram[k, m]
    s.put(i, j, second)
    s.put(k, m, first)


def swap_rows(g, s):
    """Whose products are they? Two columns change places in the gram, not in the class sums."""
    i, j = two(g, len(s.gram))
    order = np.arange(len(s.gram))
    order[[i, j]] = j, i
    s.gram = s.gram[np.ix_(order, order)]


def move_class(g, s):
    """A class's sums become another's, with or without its samples."""
    a, b = two(g, len(s.counts))
    moved = s.cross[:, b] if g.random() < 0.5 else s.cross[:, b] // 2
    s.cross[:, a], s.cross[:, b] = s.cross[:, a] + moved, s.cross[:, b] - moved
    if g.random() < 0.3:
        s.counts[a], s.counts[b] = s.counts[a] + s.counts[b] - 1, 1


def shift_class_sum(g, s):
    """Totals stay: what one class loses another gains."""
    (a, b), row = two(g, len(s.counts)), g.integers(len(s.cross))
    change = int(g.choice([1, 2, 3, 50, 5_000, 32_767]))
    s.cross[row, a] += change
    s.cross[row, b] -= change


def rename_class(g, s):
    like = "zz" if isinstance(s.names[0], str) else 99
    s.names[g.integers(len(s.names))] = [like, like, like, s.names[0], "", -5][g.integers(6)]


def merge_classes(g, s):
    if len(s.names) > 1:
        s.names = s.names[:-1]
        s.counts = np.append(s.counts[:-2], s.counts[-2] + s.counts[-1])
        s.cross = np.column_stack([s.cross[:, :-2], s.cross[:, -2] + s.cross[:, -1]])
        s.parts = [*s.parts[:-2], s.parts[-2] + s.parts[-1]] if s.parts else []


def split_class(g, s):
    """The last class in two, each sum on its own: a split that samples rarely have."""
    last, share = s.cross[:, -1], g.random()
    part = np.rint(last * share).astype(np.int64) + (g.integers(-1, 2) if g.random() < 0.3 else 0)
    count = int(np.rint(s.counts[-1] * share))
    s.names = [*s.names, s.names[-1] * 2 + 1 if isinstance(s.names[-1], int) else s.names[-1] + "é"]
    s.counts = np.append(s.counts[:-1], [count, s.counts[-1] - count])
    s.cross = np.column_stack([s.cross[:, :-1], part, last - part])
    if s.parts:
        half = np.rint(s.parts[-1] * share).astype(np.int64)
        s.parts = [*s.parts[:-1], half, s.parts[-1] - half]


def scale_counts(g, s):
    s.counts = s.counts * int(g.choice([2, 3, 10**6, 2**33]))


def scale_all(g, s):
    factor = int(g.choice([2, 3, -1]))
    s.counts, s.cross, s.gram = factor * s.counts, factor * s.cross, factor * s.gram
    s.parts = [factor * part for part in s.parts]


def scale_gram(g, s):
    s.gram = s.gram * int(g.choice([2, -1, 4, 0]))


def scale_cross(g, s):
    s.cross = s.cross * int(g.choice([2, -1, 4, 0]))


def mix_samples(g, s):
    """Half of a column's products are those of another column."""
    i, j = two(g, len(s.gram))
    half = g.random(len(s.gram)) < 0.5
    s.gram[i, half] = s.gram[half, i] = s.gram[j, half]


def rotate_columns(g, s):
    """Another column's class sums: the totals no longer belong to the products."""
    chosen = slice(s.seen, None) if g.random() < 0.5 else slice(0, s.seen)
    s.cross[chosen] = np.roll(s.cross[chosen], 1, axis=0)


def make_indefinite(g, s):
    """Three columns that are all each other's opposite: every entry within its bounds."""
    chosen = g.permutation(len(s.gram))[:3]
    for i, j in zip(chosen, np.roll(chosen, 1), strict=True):
        bound = np.sqrt(abs(float(s.gram[i, i]) * float(s.gram[j, j])))
        s.put(i, j, int(g.choice([-0.99, -0.6, 0.99]) * min(bound, 2.0**62)))


def move_pairs(g, s):
    """Four pairs of codes, their margins kept."""
    ends = s.true.offsets
    if len(ends) > 2 and (wide := np.flatnonzero(np.diff(ends) > 1)).size > 1:
        a, b = g.choice(wide, 2, replace=False)
        (i, j), (k, m) = (g.permutation(np.arange(ends[e], ends[e + 1]))[:2] for e in (a, b))
        for row, column, change in ((i, k, 1), (i, m, -1), (j, k, -1), (j, m, 1)):
            s.put(row, column, s.gram[row, column] + change)


def break_parity(g, s):
    row = g.integers(len(s.gram))
    s.gram[row, row] += int(g.choice([1, 1, 3, -1, 2]))


def lose_power(g, s):
    """Claimed samples of no power, and class sums as large as can be."""
    if len(s.gram) > s.seen:
        s.gram[s.seen :, s.seen :] = int(g.choice([0, 1]))
        s.cross[s.seen :] = g.choice([-32_767, 32_767, 0], s.cross[s.seen :].shape) * s.counts


def swap_signs(g, s):
    row = g.integers(len(s.gram))
    s.cross[row] *= -1
    if g.random() < 0.5:
        s.gram[row] *= -1
        s.gram[:, row] *= -1


MUTATIONS = [
    nudge_gram,
    nudge_cross,
    nudge_counts,
    swap_entries,
    swap_rows,
    move_class,
    shift_class_sum,
    rename_class,
    merge_classes,
    split_class,
    scale_counts,
    scale_all,
    scale_gram,
    scale_cross,
    mix_samples,
    rotate_columns,
    make_indefinite,
    move_pairs,
    break_parity,
    lose_power,
    swap_signs,
]


def swap_classes(g, s):
    """Whose gram is it? Two classes change places, not their sums."""
    a, b = two(g, len(s.parts))
    s.parts[a], s.parts[b] = s.parts[b], s.parts[a]


def change_class(g, s):
    """One class's products are changed; perhaps all still add up, here or in another class."""
    a, b = two(g, len(s.parts))
    own = Sums(s.true.by_class[0], s.names[a:], s.counts[a:], s.cross, s.parts[a].copy(), [])
    GRAM_MUTATIONS[g.integers(len(GRAM_MUTATIONS))](g, own)
    change, s.parts[a] = own.gram - s.parts[a], own.gram
    if g.random() < 0.3:
        s.parts[b] = s.parts[b] - change
    elif g.random() < 0.5:
        block = slice(s.true.layout.class_layout.dim)
        s.gram[block, block] += change


GRAM_MUTATIONS = [
    nudge_gram,
    swap_entries,
    swap_rows,
    scale_gram,
    mix_samples,
    make_indefinite,
    break_parity,
]
CLASS_MUTATIONS = [swap_classes, *[change_class] * len(MUTATIONS)]


def forge_sums(generator, statistics):
    """A whole file of changed sums, written as an honest client would; None if it cannot be."""
    sums = Sums.of(statistics)
    for _ in range(generator.integers(1, 3)):
        mutations = MUTATIONS + (CLASS_MUTATIONS if sums.parts else [])
        with np.errstate(over="ignore"):
            mutations[generator.integers(len(mutations))](generator, sums)
    try:
        return sums.to_bytes()
    except (SafleError, ValueError, TypeError, OverflowError, IndexError, ZeroDivisionError):
        return None


def forgeries(generator, bases, files):
    """(encoder, file), so many of them."""
    made, parts = 0, [Forgery.of(encode(true)) for _, true in bases]
    while made < files:
        place = int(generator.integers(len(bases)))
        encoder, true = bases[place]
        if generator.random() < 0.5:
            data = forge_sums(generator, true)
            if data is None:
                continue
        else:
            data = forge(generator, parts[place]).to_bytes()
        made += 1
        yield encoder, data
