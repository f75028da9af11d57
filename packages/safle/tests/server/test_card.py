"""The model card: says what is known, says what is not, and lets no name become markup."""

from __future__ import annotations

import pytest

from safle import LinearEncoder, Model, count, declared_range, solve
from safle.errors import InvalidInput
from safle.server.card import write_card
from safle.server.limits import Contribution

HOSTILE = "ill|<b>\n# all good"


@pytest.fixture(scope="module")
def model() -> Model:
    encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=1))
    labels = ["well", "well", HOSTILE, HOSTILE]
    return Model.of(encoder, solve(count(encoder, [[0.1], [0.2], [0.8], [0.9]], labels)))


def test_a_card_names_sites_samples_figures_and_digests(model: Model) -> None:
    sites = [
        Contribution("north", "a" * 64, 1300, 10, ("well",)),
        Contribution("south", "b" * 64, 200, 10, (HOSTILE,)),
    ]
    card = write_card(model, sites=sites, mode="plain", figures={"accuracy": "97 %"})
    assert "1,500 samples of 2 sites" in card
    assert f"| north | 1,300 | well | `{'a' * 64}` |" in card
    assert "| accuracy | 97 % |" in card
    assert model.digest in card
    assert model.encoder.fingerprint in card
    assert "Plain contributions" in card


def test_a_name_stays_a_name(model: Model) -> None:
    card = write_card(model)
    assert r"ill\|\<b\> \# all good" in card
    assert "\n# all" not in card


def test_card_says_what_was_not_stated(model: Model) -> None:
    card = write_card(model)
    assert card.count("was not stated") == 2
    assert "Nothing was measured" in card


def test_sites_of_another_model_are_refused(model: Model) -> None:
    with pytest.raises(InvalidInput, match="1 classes and the model knows 2"):
        write_card(model, sites=[Contribution("north", "a" * 64, 13, 10, ("well",))])


def test_a_card_of_a_sum_invents_no_site(model: Model) -> None:
    card = write_card(model, samples=2482)
    assert "2,482 samples. Sites: not stated: the sum does not name them." in card
    assert "| site |" not in card
    alone = [Contribution("north", "a" * 64, 13, 10, model.class_names)]
    assert "13 samples of 1 site.\n" in write_card(model, sites=alone)


def test_a_figure_that_names_a_class_becomes_no_markup(model: Model) -> None:
    assert r"| never predicted | \<b\> |" in write_card(model, figures={"never predicted": "<b>"})
