"""The commands that safle-lab adds: ``safle demo``, ``experiment``, ``report``, ``attack``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from safle.basics import atomic
from safle.cli import (
    COUNT,
    FILE,
    FOLDER,
    POSITIVE,
    Session,
    command,
    encoder_file,
    option,
    seed_option,
    written,
)
from safle.errors import InvalidInput, SafleError
from safle_lab.experiments import EXPERIMENTS

if TYPE_CHECKING:
    from safle_lab.attack import Attack
    from safle_lab.experiments.data import DataSet

ALL = "all"
FEATURES = (
    "Labelled features with the splits train and test, or of training samples with --test. "
    "Several are one of each client; for 'backbones', one of each backbone. Without, "
    "scikit-learn's digits."
)
TEST = "The test samples, where --features has no splits; for 'backbones', one for each."
CLIENTS = (
    "The column (.csv, .parquet) or array (.npz, .safetensors) that names the client of each "
    "training sample: the scenario 'real'."
)
TEXTS = "Embeddings of texts, labelled with the class that each describes: for TOFA."
OUT = "Where results go; by default NAME-results, after the features file."
METHOD = "A Python file with a method of your own, which is run beside the others."
DEVICE = "Where methods that use torch run: cpu, gpu, or gpu:1 for the second card."
SETTINGS = "TOML with what differs from the defaults; a saved one repeats its run."


DEMO_OUT = "Where the page, results and the federation's files go."
ALPHA = "Dirichlet parameter: the smaller, the more unequal the clients."


@command("safle demo --out demo-report", panel="Try it")
@option("--out folder", DEMO_OUT, "DIR", type=FOLDER, default="demo-report")
@option("--clients", "Clients to split over.", "N", type=COUNT, default=100)
@option("--alpha", ALPHA, "A", type=POSITIVE, default=0.1)
@seed_option
def demo(session: Session, /, folder: Path, clients: int, alpha: float, seed: int) -> None:
    """Run one round on scikit-learn's digits, through real files, and show what it gives.

    Splits the digits over very unequal clients, lets each count its own file, sums and
    solves: with a linear encoder (AFL), with the paper's (SAFLe) and with our default. Then
    does the same with a single client and in another order, and compares the models' bytes.
    The result is one page to show to others.
    """
    from threadpoolctl import threadpool_limits

    from safle_lab.demo.running import run_demo

    # Matrix products are small here: a second BLAS thread mostly waits, and delays kernels.
    with threadpool_limits(1, "blas"):
        results = run_demo(folder, clients=clients, alpha=alpha, seed=seed, announce=session.note)
    columns = ("method", "accuracy", "balanced", "MB per client", "seconds")
    figures = [
        [
            result.method,
            f"{result.accuracy:.1%}",
            f"{result.balanced_accuracy:.1%}",
            f"{result.megabytes_per_client:.3f}",
            f"{result.seconds:.1f}",
        ]
        for result in results
    ]
    session.table(columns, figures)
    session.text(["The same data, split differently:"])
    digests = [(r.method, how, digest[:16]) for r in results for how, digest in r.digests.items()]
    session.table(["method", "split", "model digest"], digests)
    session.text([f"to look at and to show: {folder / 'index.html'}"])
    if not all(result.same_model for result in results):
        raise SafleError("equal data gave different models")
    session.text(["identical model bytes for every split"])


@command(
    "safle experiment table1 --features cifar10.safetensors --out results",
    "safle experiment all && safle report digits-results",
    "safle experiment table1 --features train.safetensors --test test.safetensors",
    "safle experiment table1 --features a.npz --features b.npz --test test.npz",
    "safle experiment table1 --method my_method.py",
    panel="Try it",
)
@click.argument(
    "name",
    type=click.Choice([*EXPERIMENTS, ALL]),
    help="Which experiment; 'all' runs one after another.",
)
@option("--features features_paths", FEATURES, "FILE", type=FILE, multiple=True)
@option("--test test_paths", TEST, "FILE", type=FILE, multiple=True)
@option("--clients clients_in", CLIENTS, "COLUMN", default="", show_default="by scenario")
@option("--texts texts_path", TEXTS, "FILE", type=FILE)
@option("--out folder", OUT, "DIR", type=FOLDER)
@option("--method method_paths", METHOD, "FILE.py", type=FILE, multiple=True)
@option("--settings settings_path", SETTINGS, "FILE", type=FILE)
@option("--device", DEVICE, "NAME", default="cpu")
def experiment(
    session: Session,
    /,
    name: str,
    features_paths: tuple[Path, ...],
    test_paths: tuple[Path, ...],
    clients_in: str,
    texts_path: Path | None,
    folder: Path | None,
    method_paths: tuple[Path, ...],
    settings_path: Path | None,
    device: str,
) -> None:
    """Run an experiment of the paper: the same features for every method.

    table1: methods in non-IID scenarios. bucketing: three strategies. backbones: several
    features files. rounds, communication: accuracy against exchanges and megabytes.
    clients: 100 to 1000 of them. sparsity: table sizes. noise: wrong labels. ridge: its
    effect and automatic choice. unlearning: clients that leave.

    Settings are chosen on a part of the training samples, never on the test set. Every
    figure is kept as soon as it is measured: run the same command again after an
    interruption and it goes on. `safle report DIR` makes a page of the results.
    """
    from safle_lab.baselines import add_method
    from safle_lab.experiments.data import load_digits
    from safle_lab.experiments.loading import describe_classes
    from safle_lab.experiments.running import load_settings, run_experiment, with_method
    from safle_lab.experiments.summary import lines_by_client, lines_of

    small = not features_paths
    data = _load(name, features_paths, test_paths, clients_in) or [load_digits()]
    target = folder or Path(f"{data[0].name}-results")
    if texts_path:
        data = [describe_classes(data_set, texts_path) for data_set in data]
    added_methods = [add_method(path).name for path in method_paths]
    settings = load_settings(
        settings_path,
        small=small,
        class_count=data[0].class_count,
        real=data[0].clients is not None,
    )
    for method in added_methods:
        settings = with_method(settings, method)
    atomic.make_folder(target)
    for chosen in EXPERIMENTS if name == ALL else (name,):
        needs_second_backbone = chosen == "backbones" and small
        second_backbone = [load_digits(pooled=True)] if needs_second_backbone else []
        files = [*data, *second_backbone]
        with session.progress(chosen) as advance:
            result = run_experiment(chosen, files, settings, target, advance, device)
        session.text([f"{result['title']}: {result['question']}"])
        session.table(*lines_of(result["summary"]))
        for title, lines in lines_by_client(result["rows"]).items():
            session.text([title])
            session.table(*lines)
    session.text([f"results: {target}/; next: safle report {target}"])


def _load(
    name: str, features: Sequence[Path], tests: Sequence[Path], clients_in: str
) -> list[DataSet]:
    """The data of the files: for 'backbones' of each file, else of all together."""
    from safle_lab.experiments.loading import load_features

    groups = [[file] for file in features]
    if name != "backbones" and features:
        groups = [[*features]]
    if len(tests) not in (0, len(groups)) or (clients_in and not features):
        raise InvalidInput(
            f"{len(features)} --features and {len(tests)} --test for '{name}'; expected one --test "
            "beside all features, for 'backbones' one beside each, or none; and --clients only "
            "with --features"
        )
    beside: Sequence[Path | None] = tests or [None] * len(groups)
    return [
        load_features(files, test, clients_in=clients_in)
        for files, test in zip(groups, beside, strict=True)
    ]


@command("safle experiment all --out results", "safle report results", panel="Try it")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR", help="Where results are.")
@written("-o --output", "The page to write; by default DIR/report.html.")
def report(session: Session, /, folder: Path, output: Path | None) -> None:
    """Make one self-contained HTML page of all results in a folder.

    Tables and figures as in the paper, the paper's own figures beside them where there
    are any, what differs and why, settings and versions. The page needs no network and
    prints well.
    """
    from safle_lab.report import write_report

    if not folder.is_dir():
        raise InvalidInput(f"{folder}: no such directory; expected the --out of 'safle experiment'")
    target = output or folder / "report.html"
    names = write_report(folder, target)
    session.facts(str(target), {"experiments": ", ".join(names)})


OUTPUT = "Also write the samples that were found: a .npz file of codes and labels."
MOST = "Most samples to try lattice reduction on: 40 take seconds, 100 take minutes."


@command("safle attack a.stats --encoder encoder.safetensors -o found.npz", panel="At a client")
@click.argument("contribution", type=FILE, help="A client's statistics file, or a sum of some.")
@encoder_file()
@option("--most", MOST, "N", type=click.IntRange(min=0), default=40)
@written("-o --output", OUTPUT)
def attack(
    session: Session,
    /,
    contribution: Path,
    encoder_path: Path,
    most: int,
    output: Path | None,
) -> None:
    """Work samples out of a plain contribution, as its receiver could.

    It finds samples exactly: those with a class or a code to themselves, those that remain when
    the first are subtracted, those that counts of pairs of symbols give when they are joined, and a
    small number by lattice reduction (extra attack). A masked
    contribution gives it nothing to work with. Run it on your own file before you send it.
    """
    from safle import load_encoder, peek_file_type, read
    from safle_lab.attack import attack as run_attack

    if output is not None and output.suffix.lower() != ".npz":
        raise click.UsageError(f"{output}: expected a name that ends in .npz")
    if peek_file_type(contribution) == "masked contribution":
        nothing = "nothing: every number in it is under a mask, and as good as drawn at random"
        session.facts(f"{contribution}: attacked", {"reconstructed": nothing})
        return
    encoder = load_encoder(encoder_path)
    result = run_attack(read(contribution, space=encoder.space), most_reduced=most)
    if output is not None:
        result.save(output)
    session.facts(f"{contribution}: attacked", describe_attack(result))


def describe_attack(result: Attack) -> dict[str, object]:
    """How many samples were reconstructed, how, and what is known about the others."""
    facts: dict[str, object] = {
        "samples": f"{result.samples:,}",
        "reconstructed": f"{result.found:,} of {result.samples:,}, exactly: every code and "
        "the class",
        "by their class": f"{result.by_class:,} that had one to themselves",
        "by a code": f"{result.by_code:,} that had one to themselves",
        "by lattice": f"{result.by_lattice:,} from the products of all columns",
    }
    facts["by pairs"] = f"{result.by_join:,} from counts of pairs of symbols"
    if len(result.unlabelled):
        facts["but the class"] = (
            f"{len(result.unlabelled):,} more from counts of pairs: every code, and not the class"
        )
    if result.close:
        facts["nearly"] = (
            f"{result.close:,} more, in classes so small that the class mean is close to each "
            "sample"
        )
    if result.untried:
        facts["not tried"] = (
            f"{result.untried:,} more, not more than the columns: lattice reduction usually finds "
            "them; raise --most, or install the extra attack"
        )
    if others := result.samples - result.found - len(result.unlabelled) - result.untried:
        facts["not found"] = f"{others:,} others, which does not prove that nobody can"
    return facts
