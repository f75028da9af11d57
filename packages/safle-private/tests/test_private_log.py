"""Whoever opens a sum, or publishes one, has it in the log before the file is there."""

from __future__ import annotations

import hashlib

import numpy as np

from safle import declared_range, make_encoder
from safle.site.log import read_log, site_log


def test_private_open_and_publish_are_logged(safle, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAFLE_LOG", str(tmp_path / "log.jsonl"))
    encoder = make_encoder(declared_range(0, 1, feature_dim=2), "linear", norm_clip=2)
    encoder.save("encoder.safetensors")
    for name in ("operator", "a", "b", "c", "board"):
        safle("private", "keys", name, "-o", f"{name}.key")
    who = [word for name in "abc" for word in ("--client", f"{name}.pub")]
    told = ("--round", "round.private", "--operator", "operator.pub")
    what = ("--encoder", "encoder.safetensors", "--classes", "ill,well", "--most-total-samples", 99)
    keys = ("--keyholder", "board.pub", "--key", "operator.key")
    safle("private", "round", *what, *who, *keys, "-o", "round.private")
    generator = np.random.default_rng(0)
    for name in "abc":
        labels = np.array(["ill", "well"] * 4)
        np.savez(f"{name}.npz", features=generator.uniform(0, 1, (8, 2)), labels=labels)
        own = ("--encoder", "encoder.safetensors", *told, "--key", f"{name}.key")
        safle("count", f"{name}.npz", *own, "-o", f"{name}.masked")
    sums = [f"{name}.masked" for name in "abc"]
    safle("private", "sum", *sums, *told, "--request", "request.ask", "-o", "sum.masked")
    own = ("--key", "board.key", "--history", "board.history", "--new-history", "--yes")
    safle("private", "answer", "request.ask", *told, *own, "-o", "board.answer")
    safle("private", "open", "sum.masked", "board.answer", *told, "-o", "total.stats")
    noise = ("--epsilon", 1, "--delta", 1e-5, "--classes", "ill,well", "--calibration", "declared")
    safle("publish", "total.stats", *noise, "-o", "noisy.stats")
    # With the first file, its encoder was accepted.
    assert read_log(site_log())[1]["event"] == "accepted"
    events = [event for event in read_log(site_log()) if event["event"] != "accepted"]
    assert [event["event"] for event in events] == [
        *["sent"] * 3,
        *["received"] * 3,
        *["opened"] * 2,
        "written",
    ]
    # Both ends name a file by the same digest.
    assert [event["sha256"] for event in events[:3]] == [event["sha256"] for event in events[3:6]]
    assert [event["who"] for event in events[3:6]] == ["a", "b", "c"]
    *_, answered, opened, published = events
    assert (answered["who"], answered["note"]) == ("board", "a sum of 3 clients")
    assert opened["note"] == "statistics of a, b, c"
    assert opened["sha256"] == hashlib.sha256((tmp_path / "total.stats").read_bytes()).hexdigest()
    assert published["note"] == "noisy statistics, epsilon 1 and delta 1e-05"
    sent = events[0]["sha256"]
    twice = ("private", "sum", *sums, "a.masked", *told, "--request", "r.ask", "-o", "s.masked")
    assert "a is in already" in safle(*twice, code=1)
    own = ("--key", "a.key", "--history", "a.history", "--yes")
    said = safle("private", "answer", "request.ask", *told, *own, "-o", "a.answer", code=1)
    assert said.startswith("error: a's key is not a keyholder's of this round")
    assert not (tmp_path / "a.history").exists()
    *_, doubled, denied = read_log(site_log())
    assert (doubled["event"], doubled["sha256"]) == ("refused", sent)
    assert (denied["event"], denied["who"], denied["sha256"]) == (
        "refused",
        "a",
        answered["sha256"],
    )
    assert (
        published["sha256"] == hashlib.sha256((tmp_path / "noisy.stats").read_bytes()).hexdigest()
    )
