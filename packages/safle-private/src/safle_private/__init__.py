"""Private sums: clients send masked values, and keyholders open only their sum.

``y = x + mask_1 + ... + mask_m`` modulo ``2^32`` or ``2^64``, with a mask for every keyholder from
a fresh seed that is sealed to it. The server adds up every y, each keyholder adds up its masks of
the same clients, and the difference is the exact sum, with the same bytes as the sum of plain
contributions.

Examples
--------
The operator declares a round. Everybody reads it, and checks all other files against it:

>>> from tempfile import TemporaryDirectory
>>> from safle import Statistics, count, declared_range, make_encoder
>>> from safle_private import *
>>> encoder = make_encoder(declared_range(0, 1, feature_dim=1), "linear")
>>> operator, board, *clients = map(PrivateKey.new, ["operator", "board", "a", "b", "c"])
>>> parties = {"clients": [key.public for key in clients], "keyholders": [board.public]}
>>> zero = Statistics.empty(encoder.space, ["ill"])
>>> signed = declare_round(operator, zero, 100, **parties)
>>> private_round = PrivateRound.load(signed.data, operator.public)

Clients mask their counts and send them, and the server adds them up:

>>> gathering = Gathering(private_round)
>>> for key, value in zip(clients, [0.1, 0.5, 0.9]):
...     sent = mask(private_round, key, count(encoder, [[value]], ["ill"])).to_bytes()
...     gathering.add(Masked.from_bytes(sent, private_round))
>>> total = MaskedSum.from_bytes(gathering.finish().to_bytes(), private_round)

Every keyholder answers the server's request, and the sum opens:

>>> request = Request.from_bytes(total.request.to_bytes(), private_round)
>>> with TemporaryDirectory() as folder:
...     history = History(f"{folder}/history", new=True)
...     answer = answer_request(request, board, history).to_bytes(board)
>>> total.open([KeyholderAnswer.from_bytes(answer, private_round)]).sample_count
3

Differential privacy: noisy sums, and the ledger of what they spent.

>>> from safle import LinearEncoder, count, declared_range
>>> from safle_private import Ledger, Sensitivity, epsilon_of, plan_noise, publish
>>> encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=8), norm_clip=2)
>>> Sensitivity.of(encoder.layout)
Sensitivity(gram=Fraction(16, 1), cross=Fraction(4, 1), counts=Fraction(1, 1))
>>> total = count(encoder, [[0.1, 0.9] * 4, [0.2, 0.4] * 4], ["ill", "well"])
>>> privacy = plan_noise(encoder.layout, epsilon=1, delta=1e-5)
>>> publish(total, privacy, ["ill", "well"]).privacy.promise
'epsilon 1, delta 1e-05'

A ledger notes each release of the same data before its noise is drawn, and adds them up:

>>> with TemporaryDirectory() as folder:
...     ledger = Ledger(f"{folder}/releases.jsonl")
...     for _ in range(2):
...         noisy = ledger.publish(total, ["ill", "well"], 1, 1e-5, calibration="declared")
>>> noisy.privacy.promise
'epsilon 1, delta 1e-05; epsilon 1.46 with all 2 releases'
>>> f"{epsilon_of(2 * noisy.privacy.rho, delta=1e-5):.2f}"
'1.46'
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
