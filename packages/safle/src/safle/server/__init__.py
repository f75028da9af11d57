"""At the server: the store of contributions, their admission, and their sums."""

from typing import TYPE_CHECKING

from safle.basics.imports import define_public_names

if TYPE_CHECKING:
    from safle.server.admission import Admission as Admission
    from safle.server.admission import Limits as Limits
    from safle.server.card import write_card as write_card
    from safle.server.contribution import Contribution as Contribution
    from safle.server.contribution import check_client as check_client
    from safle.server.store import Store as Store
    from safle.server.summing import read_total as read_total
    from safle.server.summing import sum_files as sum_files

define_public_names(__name__)
