"""Input that cannot be used, said as one sentence."""

from __future__ import annotations

SENTENCES = {
    "text_empty": "Type something to translate: this text has no tokens in it.",
    "text_too_long": "The text may have {limit} characters, this one has {length}.",
    "tokens_too_many": "The model reads at most {limit} tokens, this text has {length}.",
    "task_unknown": "There is no task {name!r}, expected one of: {known}.",
    "checkpoint_missing": (
        "There is no trained model for {name!r}: make it with "
        "`python -m transformer train {name} --out checkpoints/{name}`."
    ),
    "device_unknown": "There is no {name!r} device on this machine, found: {known}.",
    "trace_invalid": "This is not a trace file of Glassformer: {reason}.",
    "trace_version": "This trace file has version {version}, this program reads version {expected}.",
    "checkpoint_invalid": "This is not a model of Glassformer: {reason}.",
    "training_diverged": (
        "The loss became {loss} in step {step} at a learning rate of {rate}: lower the rate or warm up longer. "
        "The weights of step {kept} are kept."
    ),
    "training_missing": "There is no interrupted training in {folder}: leave --resume out to start one.",
    "training_invalid": "The training saved in {folder} cannot go on: {reason}.",
    "file_too_large": "The file may have {limit} MB, this one has {size}.",
    "pairs_unwanted": "The task {name} draws its own pairs: leave --pairs out.",
    "pairs_wanted": (
        "Sentence pairs are needed: give a file with --pairs, or the folder that holds {name} in {variable}. "
        "manythings.org/anki offers such files."
    ),
    "pairs_missing": "The file of pairs {path} cannot be read.",
    "pairs_encoding": "The file of pairs {path} is not UTF-8 text.",
    "pairs_columns": (
        "{path} holds no pairs: tab-separated lines were expected, with a header of split, en and {target}, "
        "or English and its translation first."
    ),
    "pairs_too_few": "Training needs pairs in the splits train and valid; {path} has none in one of them.",
    "reference_empty": "Give a reference to compare with: this one has no tokens in it.",
    "reference_too_long": "The reference may have {limit} characters, this one has {length}.",
    "reference_tokens": "The model writes at most {limit} tokens besides <eos>, this reference has {length}.",
    "own_pairs_empty": "There are no pairs yet: paste lines of a source, a tab and a target, or choose a file.",
    "own_pairs_none": (
        "No line could be used as a pair: a source, one tab and a target were expected on each of {n} lines "
        "(no tab or too many cells: {columns}, an empty side: {empty}, too long: {long})."
    ),
    "own_pairs_unreadable": "None of the {n} sources can be read: each needs from 1 to {limit} tokens.",
    "own_pairs_header": "The first line names columns, but not the two that are needed: {source} and {target}.",
    "own_pairs_binary": "{name} is not a text file: save the pairs as tab-separated text.",
    "own_pairs_encoding": "{name} is not UTF-8 text: save it once more with the encoding UTF-8.",
    "own_pairs_file": "The file {name} cannot be read: choose it once more.",
    "search_unknown": "There is no search {name!r}, expected one of: {known}.",
    "search_setting": "{name} must be a number from {smallest} to {largest}, got {value!r}.",
    "run_cannot_go_on": "None of the models here made this run, so it cannot be continued: decode a text first.",
    "token_unknown": "The vocabulary of this model has no “{token}”: choose one of its {n} tokens.",
    "token_several": "“{token}” is {n} tokens for this model: put in one at a time.",
    "step_unknown": "This run has the steps 1 to {n}, and {step} is none of them.",
    "branch_unknown": "That is no place in the tree of this text.",
    "setting_range": "{name}: a number from {lowest} to {highest} is needed, got {value}.",
    "setting_whole": "{name}: a whole number from {lowest} to {highest} is needed, got {value}.",
    "setting_choice": "{name}: one of {choices} is needed, got {value}.",
    "heads_do_not_divide": (
        "The width d_model is shared out evenly among the heads, and {d_model} cannot be divided by {n_heads}: "
        "take {lower} or {higher}, or another number of heads."
    ),
    "training_refused": "A training cannot be done with these settings: {reason}.",
    "training_running": "A training of yours is running, at step {step}: stop it first.",
    "training_line_full": "{n} trainings are waiting in line already: try again in a few minutes.",
    "no_own_model": "There is no model of yours yet: train one, or open one from its two files.",
    "upload_count": "Choose the two files of a model together, model.safetensors and meta.json; got {n}.",
    "upload_names": "A model is a .safetensors file and a .json file, got: {names}.",
    "upload_pickle": (
        "{name} is a pickle: opening one runs whatever program its author put into it, so this page never does. "
        "Save the weights as safetensors."
    ),
    "disk_full": "The server has no room for more files just now: try again in an hour.",
    "fault_unknown": "There is no fault {name!r}, expected one of: {known}.",
    "faults_contradict": (
        "The faults {first} and {second} cannot be on together: each makes something else of the same part."
    ),
    "mask_shape": "The painted mask {name} does not fit the text: {expected} is needed, got {got}.",
    "surgery_twice": "Layer {layer}, head {head} of {kind} attention is changed twice: choose one change for it.",
    "surgery_future": "Query {query} cannot be given key {key}: that token is not written yet when the query asks.",
}


class InputError(ValueError):
    """What a person gave cannot be used. ``code`` names the sentence, ``values`` fill it in.

    The page shows the same sentence in its own language, looked up by ``code``.
    """

    def __init__(self, code: str, **values: object) -> None:
        self.code = code
        self.values = values
        super().__init__(SENTENCES[code].format(**values))


class CommandError(Exception):
    """A command line that cannot be followed, said as one sentence."""
