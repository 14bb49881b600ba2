#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads the text exposition format of Prometheus, and fails at whatever its
description does not allow: https://prometheus.io/docs/instrumenting/exposition_formats

A metric's samples stand together behind its HELP and TYPE, no sample comes
twice, buckets are cumulative and end with +Inf, which is the count."""
import re
import sys

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)$")
TYPES = {"counter", "gauge", "histogram", "summary"}
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"),
            "summary": ("", "_sum", "_count")}


def fail(nr, why):
    sys.exit(f"line {nr}: {why}")


def check_histogram(nr, name, samples):
    series = {}
    for (metric, labels), value in samples.items():
        rest = tuple(x for x in labels if x[0] != "le")
        at = series.setdefault(rest, {"buckets": []})
        if metric == name + "_bucket":
            at["buckets"].append((float(dict(labels)["le"]), value))
        else:
            at[metric[len(name):]] = value
    for at in series.values():
        bounds = [x[0] for x in at["buckets"]]
        counts = [x[1] for x in at["buckets"]]
        if bounds != sorted(set(bounds)) or counts != sorted(counts):
            fail(nr, f"{name}: buckets out of order: {at['buckets']}")
        if bounds[-1] != float("inf") or counts[-1] != at["_count"]:
            fail(nr, f"{name}: +Inf is not the count")
        if "_sum" not in at:
            fail(nr, f"{name}: no sum")


def check_summary(nr, name, samples):
    for (metric, labels), value in samples.items():
        labels = dict(labels)
        if metric == name and not 0 <= float(labels.pop("quantile")) <= 1:
            fail(nr, f"{name}: a quantile out of its range")
        for suffix in ("_sum", "_count"):
            if (name + suffix, tuple(sorted(labels.items()))) not in samples:
                fail(nr, f"{name}{labels}: no {suffix}")


def finish(nr, metric):
    if not metric:
        return
    name, kind, samples = metric["name"], metric["type"], metric["samples"]
    if not kind or not samples:
        fail(nr, f"{name}: no TYPE or no sample")
    if kind == "histogram":
        check_histogram(nr, name, samples)
    elif kind == "summary":
        check_summary(nr, name, samples)
    elif kind == "counter" and not name.endswith("_total"):
        fail(nr, f"{name}: a counter ends in _total")


def comment(nr, line, metric, seen):
    words = line.split(" ", 3)
    if len(words) < 4 or words[0] != "#" or not re.fullmatch(NAME, words[2]):
        fail(nr, f"no comment of the format: {line}")
    if words[1] == "HELP":
        finish(nr, metric)
        if words[2] in seen:
            fail(nr, f"{words[2]} comes twice")
        seen.add(words[2])
        return {"name": words[2], "type": None, "samples": {}}
    if words[1] != "TYPE" or words[3] not in TYPES:
        fail(nr, f"neither HELP nor a TYPE: {line}")
    if not metric or metric["name"] != words[2] or metric["type"] \
            or metric["samples"]:
        fail(nr, f"a TYPE out of its place: {line}")
    metric["type"] = words[3]
    return metric


def sample(nr, line, metric):
    found = SAMPLE.match(line)
    if not found or not metric:
        fail(nr, f"no sample, or of nothing: {line}")
    labels = tuple(sorted(re.findall(LABEL, found[2] or "")))
    if len(dict(labels)) != len(labels):
        fail(nr, f"a label twice: {line}")
    allowed = [metric["name"] + x
               for x in SUFFIXES.get(metric["type"], ("",))]
    if found[1] not in allowed:
        fail(nr, f"{found[1]} among those of {metric['name']}")
    try:
        value = float(found[found.lastindex])
    except ValueError:
        fail(nr, f"no number: {line}")
    if (found[1], labels) in metric["samples"]:
        fail(nr, f"twice: {line}")
    metric["samples"][found[1], labels] = value


def main():
    text = sys.stdin.read()
    if not text.endswith("\n"):
        sys.exit("the last line has no end")
    metric, seen, nr = None, set(), 0
    for nr, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            metric = comment(nr, line, metric, seen)
        elif line:
            sample(nr, line, metric)
    finish(nr, metric)
    print(f"{len(seen)} metrics")
    return 0 if seen else 1


sys.exit(main())
