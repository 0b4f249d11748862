"""limner explain probe: does a system read its captions? Hard negatives, compared with baselines that see no image."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.console import answer, progress, warn
from limner.cli.inputs import SYSTEM, SystemOptions, TrainOn, system_word, training_parts
from limner.cli.options import Json, Trust, by_ending, out_word, refuse_ending, saved, word

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
    image_folder: Annotated[Path | None, word("The folder of the images.", metavar="DIR")] = None,
    system: Annotated[str | None, system_word(f"The system: {SYSTEM}")] = None,
    train_on: TrainOn = None,
    images: Annotated[Path | None, word("Or embeddings of the images, with ids.", metavar="FILE")] = None,
    texts: Annotated[
        Path | None, word("Embeddings of the captions, in the order of -o FILE.jsonl.", metavar="FILE")
    ] = None,
    scores: Annotated[Path | None, word("Or a matrix of scores, images by captions: npy.", metavar="FILE")] = None,
    corpus: Annotated[
        str | None, word("A COLLECTION whose captions train the language model.", metavar="COLLECTION")
    ] = None,
    cases: Annotated[int, word("With scenes: number of cases.", metavar="N", min=1)] = 200,
    seed: Annotated[int, word("With scenes: random seed.", metavar="N", min=0)] = 0,
    name: Annotated[str | None, word("Name of the system in the table.")] = None,
    save: Annotated[
        list[Path] | None, out_word("Write it: .json .csv .md .tex .txt; the captions to encode: .jsonl. Repeatable.")
    ] = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Measure a system on hard negatives: pair accuracy, and text, image and group score.

    Every table has two baselines that see no image, a language model of captions and caption length: a subset that they
    solve does not test whether a system uses images. Without a system, only the baselines are shown.

    Examples:
      $ limner explain probe sugar-crepe/data --image-folder val2017 --system 'clip(model=DIR)'
      $ limner explain probe winoground.jsonl --image-folder images --system 'clip(model=DIR)'
      $ limner explain probe valse/ --corpus flickr8k:DIR
      $ limner explain probe scenes --system histograms
    """
    from limner.evaluation.tables import FORMATS
    from limner.explain.probe_results import probe as measured

    lists, files = by_ending(save, ".jsonl")
    refuse_ending(files, tuple(FORMATS), "probe")
    given = _probe(source, image_folder, cases, seed)
    warn(given.warnings)
    pairs = given.collection()
    written = [_listed(pairs, file) for file in lists]
    options = SystemOptions(images, texts, None, None, scores, (), system, trust)
    found, read = _scores(options, source, train_on, pairs), None if corpus is None else _captions(corpus)
    with progress(f"probing with {len(given.cases):,} cases", "cases") as told:
        made = measured(given, found, name=name or _name(options), corpus=read, progress=told)
    saved([*written, *(made.save(file) for file in files)])
    answer(str(made), made.describe(), as_json=as_json)


def _probe(source: str, folder: Path | None, cases: int, seed: int) -> Probe:
    from limner.datasets.probe_files import read_probe
    from limner.datasets.scenes.scene_probes import scenes_probe

    if source == "scenes" and not Path(source).exists():
        if folder is not None:
            raise typer.BadParameter("--image-folder with scenes: its images are generated; leave it out")
        return scenes_probe(cases, seed=seed)
    return read_probe(source, images=folder)


def _scores(options: SystemOptions, source: str, train_on: str | None, pairs: Collection) -> Any:
    if train_on is not None and options.system is None:
        raise typer.BadParameter("--train-on is for --system")
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
    return Path(str(options.system or options.scores or options.images or "system")).stem


def _captions(corpus: str) -> list[str]:
    from limner.cli.options import load

    return [str(text) for text in load(corpus, None).texts.values]


def _listed(pairs: Collection, file: Path) -> Path:
    from limner.core.files import write_text

    rows = zip(pairs.texts.ids, pairs.texts.values, strict=True)
    write_text(file, "".join(f"{json.dumps({'id': key, 'text': text}, ensure_ascii=False)}\n" for key, text in rows))
    return file
