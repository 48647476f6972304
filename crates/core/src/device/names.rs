//! Names of devices as people write them: what counts as the same name, and which known ones a mistyped one is near.

/// Lower case without separators.
pub(super) fn comparable(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Up to three ids whose names (`known`: in comparable form, with the id) are like `name`, the nearest first.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let wanted = comparable(name);
    let mut ranked: Vec<(usize, &str)> = known.map(|(known, id)| (distance(&wanted, known), id)).collect();
    ranked.sort_unstable();
    let mut nearest: Vec<String> = Vec::new();
    for (_, id) in ranked {
        if !nearest.iter().any(|found| found == id) {
            nearest.push(id.to_owned());
        }
    }
    nearest.truncate(3);
    nearest
}

/// Edit distance, where leaving characters of `known` away costs little: `h1` is near `h100sxm`.
fn distance(wanted: &str, known: &str) -> usize {
    let known: Vec<char> = known.chars().collect();
    let mut row: Vec<usize> = (0..=known.len()).collect();
    for (i, typed) in wanted.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], 4 * (i + 1));
        for (j, &letter) in known.iter().enumerate() {
            let change = if typed == letter { 0 } else { 5 };
            let best = (diagonal + change).min(row[j] + 1).min(row[j + 1] + 4);
            diagonal = std::mem::replace(&mut row[j + 1], best);
        }
    }
    row.last().copied().unwrap_or(0)
}
