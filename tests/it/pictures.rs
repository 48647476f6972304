//! The pictures of the guide: what the program draws of the bundled sample today. `INSTA_UPDATE=always` writes them anew.
#![cfg(feature = "tui")]

use std::fs;
use std::path::Path;

use crate::screen_samples::open;

/// Each picture with the keys that lead to it.
const PICTURES: [(&str, (u16, u16), &str); 7] = [
    ("first-screen", (110, 30), ""),
    ("what-if", (110, 30), ":mixed-precision bf16<enter>"),
    ("board", (110, 30), "t<down>"),
    ("sweep", (110, 30), "6"),
    ("memory", (110, 30), ":mixed-precision bf16<enter>F"),
    ("layers", (110, 30), ":mixed-precision bf16<enter>Ls"),
    ("roofline", (110, 30), ":mixed-precision bf16<enter>5"),
];

/// A picture is not to weigh more.
const MOST_BYTES: usize = 60_000;

#[test]
fn the_pictures_of_the_guide_are_what_the_screen_shows() {
    let folder = tempfile::tempdir().unwrap();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/pictures");
    for (name, size, keys) in PICTURES {
        let mut screen = open("vgg13-train-h100", size, &[]);
        let file = folder.path().join(format!("{name}.svg"));
        screen.press(keys).unwrap();
        screen.settle();
        // The board has its letters for filtering.
        let write = format!(":export {}<enter>", file.display());
        screen.press(&write).unwrap();
        screen.settle();
        let drawn = fs::read_to_string(&file).unwrap();
        assert!(drawn.len() < MOST_BYTES, "{name} has {} bytes", drawn.len());
        let path = kept.join(format!("{name}.svg"));
        if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
            fs::create_dir_all(&kept).unwrap();
            fs::write(&path, &drawn).unwrap();
        }
        let known = fs::read_to_string(&path).unwrap_or_default();
        assert!(known == drawn, "docs/pictures/{name}.svg is not what the screen shows: INSTA_UPDATE=always writes it");
    }
}
