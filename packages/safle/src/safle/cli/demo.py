"""``safle demo``: a whole federation on data that comes with scikit-learn."""

from pathlib import Path

from threadpoolctl import threadpool_limits

from safle.cli import options as opt
from safle.cli.session import Session, command
from safle.demo.demo import run_demo
from safle.errors import SafleError

OUT = "Where the page, results and the federation's files go."


@command("safle demo --out demo-report")
@opt.option("--out folder", OUT, "DIR", type=opt.FOLDER, default="demo-report")
@opt.option("--clients", "Clients to split over.", "N", type=opt.COUNT, default=100)
@opt.alpha_option("Dirichlet parameter: the smaller, the more unequal the clients.")
@opt.seed_option
def demo(session: Session, /, folder: Path, clients: int, alpha: float, seed: int) -> None:
    """Run one round on scikit-learn's digits, through real files, and show what it gives.

    Splits the digits over very unequal clients, lets each count its own file, sums and
    solves: with a linear encoder (AFL), with the paper's (SAFLe) and with our default. Then
    does the same with a single client and in another order, and compares the models' bytes.
    What came out is one page to show to others.
    """
    # Its products are small: a second thread of the BLAS mostly waits, and keeps kernels waiting.
    with threadpool_limits(1, "blas"):
        results = run_demo(folder, clients=clients, alpha=alpha, seed=seed, say=session.note)
    figures = [
        (
            r.method,
            f"{r.accuracy:.1%}",
            r.rounds,
            f"{r.megabytes_per_client:.3f}",
            f"{r.seconds:.1f}",
        )
        for r in results
    ]
    session.table(["method", "accuracy", "rounds", "MB per client", "seconds"], figures)
    session.text(["The same data, split differently:"])
    digests = [(r.method, how, digest[:16]) for r in results for how, digest in r.digests.items()]
    session.table(["method", "split", "model digest"], digests)
    same = all(result.same_model for result in results)
    verdict = ["identical model bytes for every split"] if same else []
    session.text([*verdict, f"to look at and to show: {folder / 'index.html'}"])
    if not same:
        raise SafleError("equal data gave different models")
