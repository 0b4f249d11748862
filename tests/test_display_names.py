"""Short names of systems: what is left of a name, and how systems with the same one are told apart."""

import pytest

from limner.core.display_names import display_name, display_names

CLIP = "clip-vit-base-patch32"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (f"clip(model=/data/long path/{CLIP})", CLIP),
        (f"clip(model=/data/{CLIP}, device=cpu) + csls(k=5)", f"{CLIP} + csls(k=5)"),
        (f"openai/{CLIP}", CLIP),
        (f"openai/{CLIP}@refs/pr/1", CLIP),
        (f"openai/{CLIP}(device=cpu)", CLIP),
        ("hf-hub:laion/CLIP-ViT", "CLIP-ViT"),
        ("clip-a/", "clip-a"),
        ("./clip-a", "clip-a"),
        ("C:\\models\\clip", "clip"),
        ("/tmp/x y/S.npy", "S"),
        ("facebook/4m-base", "4m-base"),
        ("a/b/c.v2", "c.v2"),
        ("open-clip(model=ViT-B-32, weights=laion2b)", "ViT-B-32"),
        ("aligned(images=timm(model=timm/vit_small), texts=minilm)", "aligned(vit_small, minilm)"),
    ],
)
def test_a_model_is_called_by_the_last_part_of_its_place(name, short):
    assert display_name(name) == short


@pytest.mark.parametrize(
    "name",
    [
        *(
            "histograms",
            "towers(epochs=5)",
            "my_encoders:clip",
            "BLIP (ft=coco)",
            "ours (large), lr=1e-4",
            "",
            "(",
            "a)",
        ),
        *("ViT-B/32", "ViT-L/14@336px", "CLIP ViT-B/32", "SigLIP ViT-B/16", "ViT-B-32/laion2b_s34b_b79k", "I, T"),
    ],
)
def test_a_name_that_is_no_place_stays(name):
    assert display_name(name) == name


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["clip(model=/a/x/vit)", "clip(model=/a/y/vit)"], ("x/vit", "y/vit")),
        ([f"clip(model={CLIP}, device=cpu)", f"clip(model={CLIP}, device=cuda)"],
         (f"{CLIP} (device=cpu)", f"{CLIP} (device=cuda)")),
        (["clip(model=vit)", "clip(model=vit, precision=float16)"], ("vit", "vit (precision=float16)")),
        (["clip(model=a/v)", "siglip(model=a/v)"], ("v (clip)", "v (siglip)")),
        (["vit", "b/vit"], ("vit", "b/vit")),
        (["ours", "theirs", "ours"], ("ours (1)", "theirs", "ours (2)")),
        (["a/vit", "b/vit", "a/vit"], ("a/vit (1)", "b/vit", "a/vit (2)")),
    ],
)  # fmt: skip
def test_systems_with_the_same_short_name_are_told_apart(names, short):
    assert display_names(names) == short
