"""Private sums: clients send masked values, and keyholders open nothing but their sum.

``y = x + mask_1 + ... + mask_m`` modulo ``2^32`` or ``2^64``, with a mask for every keyholder from
a fresh seed that is sealed to it. The server adds up every y, each keyholder adds up its masks of
the same clients, and the difference is the exact sum: the very bytes that plain contributions add
up to.

Examples
--------
The operator declares a round. Everybody reads it, and checks all other files against it:

>>> from tempfile import TemporaryDirectory
>>> from safle import DeclaredRange, count, make_encoder
>>> from safle.private import *
>>> encoder = make_encoder(DeclaredRange(0, 1, feature_dim=1), "linear")
>>> operator, board, *clients = map(PrivateKey.new, ["operator", "board", "a", "b", "c"])
>>> parties = {"clients": [key.public for key in clients], "keyholders": [board.public]}
>>> signed = declare_round(operator, StatisticsSpace.of(encoder, ["ill"], 100), **parties)
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
...     with History(f"{folder}/history.sqlite", new=True) as history:
...         answer = answer_request(request, board, history).to_bytes(board)
>>> total.open([KeyholderAnswer.from_bytes(answer, private_round)]).sample_count
3
"""

from typing import TYPE_CHECKING

from safle.basics.imports import define_public_names, require_package

if TYPE_CHECKING:
    from safle.private.keyholder import History as History
    from safle.private.keyholder import answer_request as answer_request
    from safle.private.keys import PrivateKey as PrivateKey
    from safle.private.keys import PublicKey as PublicKey
    from safle.private.messages import Gathering as Gathering
    from safle.private.messages import KeyholderAnswer as KeyholderAnswer
    from safle.private.messages import Masked as Masked
    from safle.private.messages import MaskedSum as MaskedSum
    from safle.private.messages import Request as Request
    from safle.private.messages import mask as mask
    from safle.private.rehearsal import add_privately as add_privately
    from safle.private.round import PrivateRound as PrivateRound
    from safle.private.round import declare_round as declare_round
    from safle.private.spaces import EvaluationSpace as EvaluationSpace
    from safle.private.spaces import HistogramSpace as HistogramSpace
    from safle.private.spaces import StatisticsSpace as StatisticsSpace

require_package("cryptography.hazmat.primitives.hpke", "safle[private]", "a private sum")
define_public_names(__name__)
