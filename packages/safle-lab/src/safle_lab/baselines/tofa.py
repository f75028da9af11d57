"""TOFA: a Gaussian classifier of images and weighted texts, joined per sample, without training.

Zhang, Han, Feng, Zhang, Li, Jiang, Lin, Chen: "TOFA: Training-Free One-Shot Federated
Adaptation for Vision-Language Models", AAAI 2026 (arXiv 2511.16423).

Images: features of class c are ``N(w_c, S)``, with a normal-inverse-Wishart prior. Clients send
counts, sums and second moments. The server adds them up to the moments of the joint likelihood
L(D). Client k's posterior is ``L(D_k) L(D)^power prior``: it adds ``power`` times the joint moments
to its own. Its means and covariance give a Gaussian classifier with equal shares of the classes.

Texts: every class has several texts, and the first is plain ("a photo of a dog"). Client k scores
how well text t tells its class from the others, u_k(t); the server's score is
``r(t) = mean_k u_k(t_0) log(u_k(t) / u_k(t_0))``.

Joined: ``f = eta f_images + (1 - eta) f_texts`` with ``eta = a / (a + b)``, where a and b are the
largest probabilities by images and by texts.

What differs from the paper: the task has embeddings of texts, which the paper's clients have a
language model write. The definition of u and the weights are ours: u is ``p / (p + q)``, with the
mean probability of the class on samples of the class, p, and on other samples, q; texts that score
below the plain one are dropped, and ``exp(r)`` weights the others. A small shrinkage makes the
covariance invertible. Every client has a model of its own: accuracy is the mean over clients on all
test samples; the accuracy on a client's mix of classes, which the paper reports, is given beside
it.
"""

from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from safle.errors import SettingsError
from safle_lab.baselines.base import (
    Features,
    Labels,
    LinearModel,
    Method,
    MethodSettings,
    NotNegative,
    Positive,
    Result,
    SeparateModels,
    Task,
    message,
    one_hot,
)
from safle_lab.baselines.fedcgs import Array, Moments, gaussian_classifier


class Settings(MethodSettings, frozen=True):
    """The settings of TOFA.

    Attributes
    ----------
    power : exponent of the joint likelihood in a client's posterior; 0 leaves it out
    prior : weight of the prior, as a number of samples of every class at the mean feature
    shrinkage : share of the mean variance in place of the covariance
    scale : of cosines between images and texts before the softmax; CLIP's is 100
    """

    power: NotNegative = 1.0
    prior: Positive = 0.01
    shrinkage: Positive = 1e-3
    scale: Positive = 100.0


def to_unit_length(vectors: NDArray[np.floating]) -> Array:
    """Vectors of length one along the last axis, float64; CLIP compares directions."""
    exact = vectors.astype(np.float64)
    return exact / np.maximum(np.linalg.norm(exact, axis=-1, keepdims=True), 1e-12)


def posterior_classifier(evidence: Moments, centre: Array, settings: Settings) -> LinearModel:
    """The posterior's classifier; ``evidence`` are moments, ``centre`` is the prior's mean."""
    weight = evidence.counts + settings.prior
    means = (evidence.sums + settings.prior * centre) / weight[:, None]
    prior = settings.prior * len(weight) * np.outer(centre, centre)
    scatter = evidence.outer + prior - means.T @ (weight[:, None] * means)
    return gaussian_classifier(means, scatter / weight.sum(), settings.shrinkage)


def score_texts(features: Array, labels: Labels, texts: Array, scale: float) -> Array:
    """How well each text distinguishes its class from the others, u: (class_count, texts), up to 1.

    NaN where the client has no sample of the class. Features and texts are of unit length.
    """
    plain = scale * features @ texts[:, 0].T
    # The other classes by their plain texts: the logarithm of the sum without the class itself.
    total = logsumexp(plain, axis=1, keepdims=True)
    others = total + np.log(np.maximum(1 - np.exp(plain - total), 1e-12))
    members = one_hot(labels, len(texts))
    sample_counts, other_counts = members.sum(axis=0), (1 - members).sum(axis=0)
    scores = np.empty(texts.shape[:2])
    for number in range(texts.shape[1]):
        logits = scale * features @ texts[:, number].T
        chances = 1 / (1 + np.exp(np.clip(others - logits, -500, 500)))
        right = (members * chances).sum(axis=0) / np.maximum(sample_counts, 1)
        wrong = ((1 - members) * chances).sum(axis=0) / np.maximum(other_counts, 1)
        scores[:, number] = (right + 1e-12) / (right + wrong + 1e-12)
    scores[sample_counts == 0] = np.nan
    return scores


def weigh_texts(clients: Array) -> Array:
    """Weights of every class's texts, (class_count, texts), by all clients' scores of them, u."""
    plain = clients[..., :1]
    known = ~np.isnan(clients)
    gains = np.where(known, plain * np.log(clients / plain), 0.0)
    mean = gains.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.asarray(softmax(np.where(mean >= 0, mean, -np.inf), axis=1))


@dataclass(frozen=True)
class TwoBranches:
    """A client's model: its Gaussian classifier, and the joint texts, (class_count, dim)."""

    images: LinearModel
    texts: Array
    scale: float

    def decision_function(self, features: Features) -> Array:
        """Scores, (samples, class_count)."""
        directions = to_unit_length(features)
        image_scores = directions @ self.images.weights + self.images.intercept
        text_scores = self.scale * directions @ self.texts.T
        a, b = (
            softmax(scores, axis=1).max(axis=1, keepdims=True)
            for scores in (image_scores, text_scores)
        )
        trust = a / (a + b)
        scores: Array = trust * image_scores + (1 - trust) * text_scores
        return scores


def run(task: Task, settings: Settings) -> Result:
    """One round: moments and scores up, their sums and weights down."""
    if task.texts is None:
        raise SettingsError(
            "TOFA needs embeddings of texts that describe the classes, and the task has none; "
            "give them with --texts FILE"
        )
    texts = to_unit_length(task.texts)
    clients, scores = [], []
    for features, labels in task.clients(reporting=0.5):
        directions = to_unit_length(features)
        clients.append(Moments.of(directions, labels, task.class_count))
        scores.append(score_texts(directions, labels, texts, settings.scale))
    total = reduce(add, clients)
    weights = weigh_texts(np.array(scores))
    joint = to_unit_length(np.einsum("ct,ctd->cd", weights, texts))
    centre = total.sums.sum(axis=0) / total.counts.sum()
    shared = total.raised(settings.power)
    members = [
        TwoBranches(posterior_classifier(moments + shared, centre, settings), joint, settings.scale)
        for moments in clients
    ]
    up = len(message({**clients[0].as_message(), "scores": scores[0]}))
    down = len(message({**total.as_message(), "weights": weights}))
    content = message({f"{client}": model.images.weights for client, model in enumerate(members)})
    return Result(SeparateModels(members), content, bytes_up=up, bytes_down=down)


GRID = {"power": (0.01, 0.1, 1.0)}
METHOD = Method("tofa", "TOFA", "one-shot", run, Settings(), GRID, needs_texts=True)
