"""Languages by measures: loaders of tiny folders, values against plain evaluation, the macro mean and its interval."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
from limner.cli import app
from limner.core.errors import LimnerError, UnknownName
from limner.datasets.multilingual import load_crossmodal, load_xtd10
from limner.evaluation.diagnostics.breakdown import MACRO, evaluate_languages


def xtd10(folder, *, images=4):
    for place, language in (("MIC", "de"), ("MIC", "en"), ("STAIR", "jp"), ("XTD10", "zh")):
        (folder / place).mkdir(exist_ok=True, parents=True)
        text = "".join(f"{language} {n}\n" for n in range(images))
        (folder / place / f"test_1kcaptions_{language}.txt").write_text(text)
    (folder / "XTD10" / "test_image_names.txt").write_text("".join(f"COCO_{n}.jpg\n" for n in range(images)))
    return folder


def crossmodal(folder):
    rows = [
        {"image/key": "a", "image/locale": "de", "en": {"caption": ["one", "two"]}, "de": {"caption": ["eins"]}},
        {"image/key": "b", "image/locale": "hi", "en": {"caption": ["three"]}, "de": {"caption": ["drei"]}},
    ]
    (folder / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_xtd10(tmp_path):
    loaded = limner.load(xtd10(tmp_path))
    assert loaded.name == "xtd10" and len(loaded.images) == 4 and list(loaded.splits) == ["test"]
    assert sorted(set(loaded.texts.field("language"))) == ["de", "en", "ja", "zh"]
    assert loaded.texts.values[loaded.texts.ids.index("COCO_2.jpg#ja")] == "jp 2"
    assert set(load_xtd10(tmp_path, languages=["zh"]).texts.field("language")) == {"zh"}
    with pytest.raises(UnknownName, match="language 'fr' of XTD10"):
        load_xtd10(tmp_path, languages=["fr"])
    (tmp_path / "MIC" / "test_1kcaptions_de.txt").write_text("only one\n")
    with pytest.raises(LimnerError, match="1 captions for the 4 images"):
        load_xtd10(tmp_path)


def test_crossmodal(tmp_path):
    loaded = limner.load(crossmodal(tmp_path))
    assert loaded.name == "crossmodal-3600" and loaded.judgements.counts.tolist() == [3, 2]
    assert loaded.texts.values[loaded.texts.ids.index("a.jpg#en1")] == "two"
    assert list(loaded.images.field("locale")) == ["de", "hi"]
    for bad, message in (
        ('{"en": {"caption": ["x"]}}', "no 'image/key'"),
        ('{"image/key": "a"}', "no captions by language"),
        ('{"image/key": "a", "en": {"caption": "x"}}', "expected a list of texts"),
    ):
        (tmp_path / "captions.jsonl").write_text(bad + "\n")
        with pytest.raises(LimnerError, match=message):
            load_crossmodal(tmp_path)


def world(languages=("de", "en", "fr"), *, images=30, seed=0, equal_scores=False):
    rng = np.random.default_rng(seed)
    ids = [f"i{n}" for n in range(images)]
    names = [f"i{n}#{language}" for language in languages for n in range(images)]
    texts = limner.Items(names, names, {"language": [name.split("#")[1] for name in names]}, kind="text")
    pairs = limner.Judgements.from_pairs([(name.split("#")[0], name) for name in names])
    collection = limner.Collection("small", limner.Items(ids, [None] * images), texts, pairs)
    block = [rng.standard_normal((images, images)) + 1.5 * np.eye(images) for _ in languages]
    matrix = np.hstack([block[0]] * len(languages) if equal_scores else block)
    return collection, limner.Scores.from_matrix(matrix, ids, names)


def test_each_language_is_what_its_texts_alone_give():
    collection, scores = world()
    report = evaluate_languages(scores, collection, measures="R@1 MRR")
    for number, language in enumerate(("de", "en", "fr")):
        block = scores.matrix()[:, 30 * number : 30 * (number + 1)]
        for direction, ranked in (("i2t", block), ("t2i", block.T)):
            ranks = [1 + int((row > row[n]).sum()) for n, row in enumerate(ranked)]
            assert report.value(language, "R@1", direction=direction).estimate == pytest.approx(
                np.mean(np.equal(ranks, 1))
            )
            assert report.value(language, "MRR", direction=direction).estimate == pytest.approx(
                np.mean(1 / np.array(ranks))
            )
    for direction in ("i2t", "t2i"):
        values = [report.value(language, "R@1", direction=direction).estimate for language in ("de", "en", "fr")]
        assert report.value(MACRO, "R@1", direction=direction).estimate == pytest.approx(np.mean(values))
    assert [line.language for line in report.lines][-1] == MACRO and "macro mean" in str(report)


def test_languages_that_agree_make_no_interval_narrower():
    """The same images in three languages with the same scores: one language says as much as three."""
    collection, scores = world(equal_scores=True)
    report = evaluate_languages(scores, collection, measures="R@1")
    one, macro = report.value("de", "R@1"), report.value(MACRO, "R@1")
    assert macro.high - macro.low >= 0.9 * (one.high - one.low)
    independent = evaluate_languages(world(seed=1)[1], collection, measures="R@1").value(MACRO, "R@1")
    assert independent.high - independent.low < 0.9 * (one.high - one.low)


def test_the_macro_interval_covers():
    """200 worlds whose true macro mean is known from 200 others; nominal 95%."""
    reports = [evaluate_languages(world(images=12, seed=s)[1], world(images=12)[0], measures="R@1") for s in range(100)]
    estimates = [report.value(MACRO, "R@1") for report in reports]
    truth = np.mean([each.estimate for each in estimates])
    assert np.mean([each.low <= truth <= each.high for each in estimates]) >= 0.9


def test_from_the_shell(tmp_path):
    xtd10(tmp_path / "x", images=6)
    rng = np.random.default_rng(0)
    np.save(tmp_path / "i.npy", rng.standard_normal((6, 4)).astype(np.float32))
    np.save(tmp_path / "t.npy", rng.standard_normal((24, 4)).astype(np.float32))
    words = [
        "evaluate",
        f"languages:xtd10:{tmp_path / 'x'}",
        "--images",
        str(tmp_path / "i.npy"),
        "--texts",
        str(tmp_path / "t.npy"),
    ]
    done = CliRunner().invoke(app, [*words, "--json", "-o", str(tmp_path / "out.csv")])
    assert done.exit_code == 0, done.output
    lines = json.loads(done.stdout)["lines"]
    assert {line["language"] for line in lines} == {"de", "en", "ja", "zh", MACRO}
    assert (tmp_path / "out.csv").read_text().startswith("system,language,direction")
    for bad, status in ((["--measures", "MedR"], 3), (["-O", "field=nothing"], 3), (["-o", "x.pdf"], 3)):
        done = CliRunner().invoke(app, [*words, *bad])
        assert done.exit_code == status and "Traceback" not in done.output
    assert CliRunner().invoke(app, words[:2]).exit_code == 2


def test_languages_of_different_images_are_told():
    collection, scores = world(("de", "en"))
    names = [name for name in collection.texts.ids if not (name.endswith("#de") and name < "i2")]
    texts = collection.texts.subset(names)
    part = limner.Collection("part", collection.images, texts, collection.judgements.restrict(candidates=texts.ids))
    assert any("different images" in note for note in evaluate_languages(scores, part).notes)
