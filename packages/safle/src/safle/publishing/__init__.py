"""Differential privacy: noisy sums, and the ledger of what they spent.

Examples
--------
>>> from tempfile import TemporaryDirectory
>>> from safle import DeclaredRange, LinearEncoder, count
>>> from safle.publishing import Ledger, Sensitivity, epsilon_of, plan_noise, publish
>>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=8), norm_clip=2)
>>> Sensitivity.of(encoder.layout)
Sensitivity(gram=Fraction(16, 1), cross=Fraction(4, 1), counts=Fraction(1, 1))
>>> total = count(encoder, [[0.1, 0.9] * 4, [0.2, 0.4] * 4], ["ill", "well"])
>>> privacy = plan_noise(encoder.layout, epsilon=1, delta=1e-5)
>>> publish(total, privacy, ["ill", "well"]).privacy.promise
'epsilon 1, delta 1e-05'

A ledger notes each release of the same data before its noise is drawn, and adds them up:

>>> with TemporaryDirectory() as folder:
...     ledger = Ledger(f"{folder}/releases.sqlite")
...     for _ in range(2):
...         noisy = ledger.publish(total, ["ill", "well"], 1, 1e-5, calibration="declared")
>>> noisy.privacy.promise
'epsilon 1, delta 1e-05; epsilon 1.46 with all 2 releases'
>>> round(epsilon_of(2 * noisy.privacy.rho, delta=1e-5), 2)
1.46
"""

from typing import TYPE_CHECKING

from safle.basics.imports import define_public_names

if TYPE_CHECKING:
    from safle.publishing.ledger import Ledger as Ledger
    from safle.publishing.noise import Sensitivity as Sensitivity
    from safle.publishing.noise import epsilon_of as epsilon_of
    from safle.publishing.noise import plan_noise as plan_noise
    from safle.publishing.noise import publish as publish

define_public_names(__name__)
