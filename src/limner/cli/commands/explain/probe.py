"""limner explain probe: does a system read its captions? Hard negatives, compared with baselines that see no image."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.attached_options import COMMAND_OPTIONS
from limner.cli.console import answer, progress, warn
from limner.cli.inputs import SYSTEM, SystemOptions, system_word, training_parts
from limner.cli.options import (
    Json,
    Loading,
    Trust,
    by_ending,
    named_options,
    number,
    out_word,
    refuse_ending,
    saved,
    word,
)
from limner.core.display_names import display_name

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.datasets.probe_files import Probe


def probe(
    source: Annotated[
        str,
        typer.Argument(
            metavar="PROBE",
            help="A file or folder in the format of SugarCrepe(++), ARO, VALSE, NegBench or Winoground; or scenes.",
        ),
    ],
    system: Annotated[str | None, system_word(f"The system: {SYSTEM}")] = None,
    images: Annotated[Path | None, word("Or embeddings of the images, with ids.", metavar="FILE")] = None,
    texts: Annotated[
        Path | None, word("Embeddings of the captions, in the order of -o FILE.jsonl.", metavar="FILE")
    ] = None,
    scores: Annotated[Path | None, word("Or a matrix of scores, images by captions: npy.", metavar="FILE")] = None,
    option: Loading = None,
    name: Annotated[str | None, word("Name of the system in the table.")] = None,
    save: Annotated[
        list[Path] | None, out_word("Write it: .json .csv .md .tex .txt; the captions to encode: .jsonl. Repeatable.")
    ] = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Measure a system on hard negatives: pair accuracy, and text, image and group score.

    Every table has two baselines that see no image, a language model of captions and caption length: a subset that they
    solve does not test whether a system uses images. Without a system, only the baselines are shown. -O images=DIR
    names the folder of the images, -O corpus=COLLECTION what trains the language model, -O train_on=COLLECTION what a
    system is trained on; scenes has -O cases=N and -O seed=N.

    Examples:
      $ limner explain probe sugar-crepe/data -O images=val2017 --model 'clip(model=DIR)'
      $ limner explain probe winoground.jsonl -O images=images --model 'clip(model=DIR)'
      $ limner explain probe valse/ -O corpus=flickr8k:DIR
      $ limner explain probe scenes --model histograms
    """
    from limner.evaluation.tables import FORMATS
    from limner.explain.probe_results import probe as measured

    lists, files = by_ending(save, ".jsonl")
    refuse_ending(files, tuple(FORMATS), "probe")
    probe_options = named_options(option, COMMAND_OPTIONS["probe"], of="probe")
    cases = _probe(source, probe_options)
    warn(cases.warnings)
    pairs = cases.collection()
    written = [_listed(pairs, file) for file in lists]
    options = SystemOptions(images, texts, (), scores, (), system, trust)
    source_of_scores = _scores(options, source, probe_options.get("train_on"), pairs)
    captions = _captions(str(probe_options["corpus"])) if "corpus" in probe_options else None
    with progress(f"probing with {len(cases.cases):,} cases", "cases") as step:
        result = measured(cases, source_of_scores, name=name or _name(options), corpus=captions, progress=step)
    saved([*written, *(result.save(file) for file in files)])
    answer(result, result.describe(), as_json=as_json)


def _probe(source: str, options: dict[str, Any]) -> Probe:
    from limner.datasets.probe_files import read_probe
    from limner.datasets.scenes.scene_probes import scenes_probe

    if source == "scenes" and not Path(source).exists():
        if "images" in options:
            raise typer.BadParameter("-O images with scenes: its images are generated; leave it out")
        return scenes_probe(number(options, "cases", 200), seed=number(options, "seed", 0))
    if "cases" in options or "seed" in options:
        raise typer.BadParameter("-O cases and -O seed are for scenes: a file has the cases that it has")
    return read_probe(source, images=Path(str(options["images"])) if "images" in options else None)


def _scores(options: SystemOptions, source: str, train_on: str | None, pairs: Collection) -> Any:
    if train_on is not None and options.system is None:
        raise typer.BadParameter("-O train_on is for --model")
    if not (options.images or options.texts or options.scores or options.system):
        return None
    if options.kind != "system":
        return options.open_on(pairs, pairs).scores
    from limner.systems.system_spec import divided

    spec = options.spec()
    trains = spec.is_trained_now or train_on is not None
    parts = training_parts(spec, source, train_on, pairs) if trains else divided(pairs, [spec], "all")
    return spec.on(parts, stage=progress).scores


def _name(options: SystemOptions) -> str:
    return display_name(str(options.system or options.scores or options.images or "system"))


def _captions(corpus: str) -> list[str]:
    from limner.cli.options import load

    return [str(text) for text in load(corpus, None).texts.values]


def _listed(pairs: Collection, file: Path) -> Path:
    from limner.core.files import write_text

    rows = zip(pairs.texts.ids, pairs.texts.values, strict=True)
    write_text(file, "".join(f"{json.dumps({'id': key, 'text': text}, ensure_ascii=False)}\n" for key, text in rows))
    return file
