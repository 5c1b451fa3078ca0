"""The command line: ``python -m transformer info | run | evaluate | prove | train``, see ``--help`` of each.

What was asked for goes to stdout (one JSON object with ``--json``), progress and remarks go to stderr. Input that
cannot be used ends with one sentence on stderr and exit status 2.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from transformer.checkpoints import META_FILE, Checkpoint, load_checkpoint, shipped_checkpoint, shipped_names
from transformer.command_prove import follow_prove
from transformer.command_training import train
from transformer.devices import available_devices, checked_device
from transformer.errors import CommandError, InputError
from transformer.evaluation import write_all
from transformer.faults import FAULTS
from transformer.reports import evaluation_report, run_report
from transformer.search import SEARCHES, WIDEST_BEAM, Search
from transformer.tasks import TASKS, task
from transformer.trace_files import save_trace
from transformer.tracing import trace_text
from transformer.training_config import LARGEST_SEED

# Which search each flag belongs to.
SEARCH_FLAGS = {
    "beam_width": "beam", "length_penalty": "beam", "temperature": "sample", "top_k": "sample", "top_p": "sample",
    "repetition_penalty": "sample", "seed": "sample",
}
MOST_TEST_PAIRS = 100_000
TEST_SEED = 0  # which of the unseen sequences are taken; the split itself does not depend on it


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence instead of printing its usage."""

    def error(self, message: str) -> None:
        raise CommandError(f"{message[:1].upper()}{message[1:]} (see `{self.prog} --help`).")


def whole_number(smallest: int, largest: int | None = None) -> Callable[[str], int]:
    """A reader of whole numbers in a range, for argparse."""
    limits = f"of at least {smallest}" if largest is None else f"from {smallest} to {largest}"

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = smallest - 1
        if value < smallest or (largest is not None and value > largest):
            raise argparse.ArgumentTypeError(f"must be a whole number {limits}, got {text!r}")
        return value

    return read


def number(smallest: float, largest: float = math.inf, *, or_smallest: bool = True) -> Callable[[str], float]:
    """A reader of finite numbers in a range, for argparse; without ``or_smallest`` they lie above it."""
    limits = f"of at least {smallest:g}" if or_smallest else f"above {smallest:g}"
    limits += "" if largest == math.inf else f" and at most {largest:g}"

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        in_range = smallest <= value <= largest and (or_smallest or value > smallest)
        if not (math.isfinite(value) and in_range):
            raise argparse.ArgumentTypeError(f"must be a number {limits}, got {text!r}")
        return value

    return read


def build_parser() -> Parser:
    """The five commands and their flags."""
    parser = Parser(prog="python -m transformer", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", metavar="info | run | evaluate | prove | train", required=True)
    seed = whole_number(0, LARGEST_SEED)

    def command(name: str, help_text: str, follow: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=help_text, description=help_text, allow_abbrev=False)
        added.set_defaults(follow=follow)
        added.add_argument("--json", action="store_true", help="print one JSON object")
        return added

    def shared(added: argparse.ArgumentParser, *, reads_checkpoint: bool) -> None:
        added.add_argument("task", metavar="TASK", help=f"one of {', '.join(TASKS)}")
        added.add_argument("--device", default="cpu", help="cpu (default), cuda or mps")
        if reads_checkpoint:
            added.add_argument("--checkpoint", type=Path, metavar="DIR", help="use this model, not the shipped one")

    def search_flags(added: argparse.ArgumentParser) -> None:
        added.add_argument("--search", choices=SEARCHES, default="greedy", help="how the next token is chosen")
        added.add_argument("--beam-width", type=whole_number(1, WIDEST_BEAM), metavar="N", help="beam: default 4")
        added.add_argument("--length-penalty", type=number(0, 10), metavar="A", help="beam: default 0, none")
        added.add_argument("--temperature", type=number(0, 100), metavar="X", help="sample: default 1; 0 is greedy")
        added.add_argument("--top-k", type=whole_number(1), metavar="K", help="sample: only the K most probable")
        added.add_argument(
            "--top-p", type=number(0, 1, or_smallest=False), metavar="P", help="sample: only the best of P together"
        )
        added.add_argument("--repetition-penalty", type=number(1, 100), metavar="R", help="sample: default 1, none")
        added.add_argument("--seed", type=seed, metavar="S", help="sample: of the draws (default 0)")

    info = command("info", "Say what tasks there are, or describe one and its model.", follow_info)
    info.add_argument("task", metavar="TASK", nargs="?", help=f"one of {', '.join(TASKS)}")

    run = command("run", "Let the model write the target of a text.", follow_run)
    shared(run, reads_checkpoint=True)
    run.add_argument("text", metavar="TEXT", help='the source, e.g. "3 1 7 3 10 2"')
    search_flags(run)
    run.add_argument("--trace", type=Path, metavar="FILE.json", help="also save the whole run for the page to open")

    evaluate = command("evaluate", "Measure the model on pairs it never trained on.", follow_evaluate)
    shared(evaluate, reads_checkpoint=True)
    evaluate.add_argument("--pairs", type=Path, metavar="FILE.tsv", help="for tasks that do not make their own")
    evaluate.add_argument(
        "--limit", type=whole_number(1, MOST_TEST_PAIRS), metavar="N",
        help="how many pairs (default 1000, of a file all)",
    )
    search_flags(evaluate)

    proving = command(
        "prove", "Check on one text what must hold of the network; exit status 1 when something does not.",
        lambda arguments: follow_prove(arguments, chosen_checkpoint(arguments)),
    )
    shared(proving, reads_checkpoint=True)
    proving.add_argument("--text", metavar="TEXT", help="the source (default: the first example of the task)")
    proving.add_argument(
        "--fault", action="append", default=[], metavar="NAME",
        help=f"switch a bug on, as often as you like: {', '.join(FAULTS)}",
    )

    training = command("train", "Train a model from nothing; Ctrl-C stops it and --resume goes on.", train)
    shared(training, reads_checkpoint=False)
    training.add_argument("--pairs", type=Path, metavar="FILE.tsv", help="for tasks that do not make their own")
    training.add_argument("--out", type=Path, metavar="DIR", help="where the model goes (default runs/TASK)")
    training.add_argument("--steps", type=whole_number(1), metavar="N", help="how many at most")
    training.add_argument("--seed", type=seed, metavar="S", help="of every random number (default 0)")
    training.add_argument("--resume", action="store_true", help="go on with the training saved in DIR")
    return parser


def follow_info(arguments: argparse.Namespace) -> int:
    """``info``: every task, or one."""
    described = [describe(name) for name in ([task(arguments.task).name] if arguments.task else TASKS)]
    if arguments.json:
        print_json(described[0] if arguments.task else {"tasks": described, "devices": available_devices()})
        return 0
    for entry in described:
        model = entry["model"]
        lengths = " to ".join(map(str, entry["lengths"]))
        print(f"{entry['task']}: lengths {lengths}, judged by {entry['metric']}, e.g. {entry['examples'][0]!r}")
        if model is None:
            print("  no trained model")
        else:
            sizes = model["config"]
            print(
                f"  model of {model['n_parameters']:,} parameters: {sizes['n_encoder_layers']}+"
                f"{sizes['n_decoder_layers']} layers, {sizes['n_heads']} heads, d_model {sizes['d_model']}; "
                f"{model['steps']} steps from seed {model['seed']}"
            )
            for metric, measured in (model["metrics"] or {}).items():
                print(f"  {metric} {measured['value']:.4f} on {measured['n']} unseen sequences")
    return 0


def describe(name: str) -> dict:
    """A task and its shipped model, ready for JSON."""
    of_task = task(name)
    entry = {
        "task": name,
        "metric": of_task.metric,
        "lengths": [of_task.min_length, of_task.max_length],
        "examples": of_task.examples,
        "data": of_task.data,
        "model": None,
    }
    if name in shipped_names():
        checkpoint = shipped_checkpoint(name)
        entry["model"] = {
            "config": checkpoint.model.config.to_dict(),
            "n_parameters": checkpoint.n_parameters,
            **{key: checkpoint.meta.get(key) for key in ("seed", "steps", "trained_lengths", "metrics", "sha256")},
        }
    return entry


def follow_run(arguments: argparse.Namespace) -> int:
    """``run``: one text."""
    of_task = task(arguments.task)
    search = chosen_search(arguments)
    if arguments.trace is not None and (arguments.trace.is_dir() or not arguments.trace.absolute().parent.is_dir()):
        raise CommandError(f"No file can be written at {arguments.trace}.")
    device = checked_device(arguments.device)
    checkpoint = chosen_checkpoint(arguments)
    trace = trace_text(checkpoint, arguments.text, device=device, search=search)
    if arguments.trace is not None:
        save_trace(trace, arguments.trace)
    n_symbols = len(checkpoint.src_tokenizer.encode(arguments.text).ids)
    shortest, longest = checkpoint.meta.get("trained_lengths", [of_task.min_length, of_task.max_length])
    if n_symbols > longest:
        remark(f"The model was trained on {shortest} to {longest} tokens, this text has {n_symbols}.")
    if not trace.finished:
        remark(f"The model did not write <eos> within {len(trace.steps)} tokens.")
    if arguments.json:
        print_json(run_report(trace))
    else:
        print(trace.output_text)
    return 0


def follow_evaluate(arguments: argparse.Namespace) -> int:
    """``evaluate``: unseen pairs, of a synthetic task as many of each length as there are or can be."""
    search = chosen_search(arguments)
    device = checked_device(arguments.device)
    checkpoint = chosen_checkpoint(arguments)
    of_task = task(arguments.task).with_pairs(arguments.pairs)
    of_task = of_task.with_vocabularies(checkpoint.src_tokenizer, checkpoint.tgt_tokenizer)
    split = of_task.test_split(checkpoint.meta)
    pairs = of_task.pairs(split, arguments.limit or of_task.n_test, TEST_SEED)
    if not pairs:
        raise CommandError(f"There are no test pairs of {of_task.name}.")
    started = time.perf_counter()
    results = write_all(checkpoint.model_on(device), of_task, pairs, device, search)
    seconds = time.perf_counter() - started
    report = {**evaluation_report(of_task, results, device, seconds, split), "search": arguments.search}
    n_skipped = of_task.n_skipped
    if n_skipped:
        remark(f"{n_skipped} {'line was' if n_skipped == 1 else 'lines were'} left out: no pair of two short texts.")
    if arguments.json:
        print_json(report)
    else:
        for name, value in report["scores"].items():
            print(f"{name} {value:.4f} on {report['n']} unseen pairs ({report['seconds']:.1f} s on {device})")
        for length, part in report["by_length"].items():
            print(f"  length {length:>2}: exact match {part['value']:.4f} of {part['n']}")
    return 0


def chosen_search(arguments: argparse.Namespace) -> Search:
    """The search the flags ask for; a flag of another search is refused, for it would change nothing."""
    settings = {flag: getattr(arguments, flag) for flag in SEARCH_FLAGS if getattr(arguments, flag) is not None}
    for flag in settings:
        search = SEARCH_FLAGS[flag]
        if search != arguments.search:
            name = flag.replace("_", "-")
            raise CommandError(f"--{name} belongs to --search {search}, this is --search {arguments.search}.")
    return Search(arguments.search, **settings)


def chosen_checkpoint(arguments: argparse.Namespace) -> Checkpoint:
    """The shipped checkpoint, or that in ``--checkpoint DIR``, which must be of the same task."""
    if arguments.checkpoint is None:
        return shipped_checkpoint(task(arguments.task).name)
    if not (arguments.checkpoint / META_FILE).is_file():
        raise CommandError(f"There is no model in {arguments.checkpoint}: a folder with {META_FILE} was expected.")
    checkpoint = load_checkpoint(arguments.checkpoint)
    if checkpoint.task != task(arguments.task).name:
        raise CommandError(f"The model in {arguments.checkpoint} is of {checkpoint.task!r}, not {arguments.task!r}.")
    return checkpoint


def use_threads() -> None:
    """Let torch use GLASSFORMER_THREADS threads. These networks are small: by default at most two."""
    text = os.environ.get("GLASSFORMER_THREADS", "").strip()
    n_threads = int(text) if text.isdecimal() else 0
    if text and not 1 <= n_threads <= 1024:
        raise CommandError(f"GLASSFORMER_THREADS must be a whole number from 1 to 1024, got {text!r}.")
    torch.set_num_threads(n_threads or min(2, os.cpu_count() or 1))


def print_json(values: dict) -> None:
    print(json.dumps(values, ensure_ascii=False))


def remark(sentence: str) -> None:
    print(sentence, file=sys.stderr)


def main(words: list[str] | None = None) -> int:
    """Follow a command line and return its exit status: 0, 1 when a proof fails, 2 for input that cannot be used."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # any text can be typed, so any printed
    try:
        arguments = build_parser().parse_args(words)
        use_threads()
        return arguments.follow(arguments)
    except (CommandError, InputError) as error:
        remark(str(error))
    except BrokenPipeError:  # whoever read the output has enough of it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        remark(f"{error.filename or 'A file'} cannot be used: {error.strerror or error}.")
    return 2


if __name__ == "__main__":
    sys.exit(main())
