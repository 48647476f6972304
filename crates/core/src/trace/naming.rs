//! What file names say: which rank a file is of, and which files belong together.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// Words before the number of a rank.
const RANK_WORDS: [&str; 6] = ["rank", "worker", "eg", "gpu", "device", "r"];
/// Words of names that say what kind of file it is, not of which run.
const KIND_WORDS: [&str; 13] =
    ["json", "gz", "pt", "trace", "kineto", "et", "eg", "pytorch", "chakra", "tar", "tgz", "execution", "profiler"];

/// The rank a file name states: a number right after a word for ranks (`rank-3`, `worker2_step`, `x-ws2-r1.json`).
pub(super) fn rank(path: &Path) -> Option<u32> {
    let name = file_name(path);
    let words: Vec<&str> = words(&name).collect();
    let number = |text: &str| text.parse::<u32>().ok();
    let joined = words.iter().find_map(|word| RANK_WORDS.iter().find_map(|prefix| number(word.strip_prefix(prefix)?)));
    joined.or_else(|| words.windows(2).find_map(|pair| number(pair[1]).filter(|_| RANK_WORDS.contains(&pair[0]))))
}

/// A file's folder and its name without digits: equal for the ranks of one recording.
pub(super) fn family(path: &Path) -> (PathBuf, String) {
    let name = file_name(path).chars().filter(|c| !c.is_ascii_digit()).collect();
    (folder(path), name)
}

/// A file's folder and its name without words for the kind of file: equal for a profiler trace and its execution trace.
pub(super) fn recording(path: &Path) -> (PathBuf, String) {
    let name = file_name(path);
    let words: Vec<&str> = words(&name).filter(|word| !KIND_WORDS.contains(word)).collect();
    (folder(path), words.join("-"))
}

/// What a file is called without the ending of what it is packed in.
pub(super) fn unpacked(path: &Path) -> Cow<'_, Path> {
    let is_packed = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gz"));
    if is_packed { Cow::Owned(path.with_extension("")) } else { Cow::Borrowed(path) }
}

/// The folder of a file, or of the archive it is in.
pub(super) fn folder(path: &Path) -> PathBuf {
    let text = path.to_string_lossy();
    let archive = [".tar.gz:", ".tgz:", ".tar:"].iter().find_map(|ending| text.find(ending)).map(|at| &text[..at]);
    Path::new(archive.unwrap_or(&text)).parent().map(Path::to_owned).unwrap_or_default()
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default()
}

fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_read_from_the_names_in_use() {
        let shown = |name: &str| rank(Path::new(name));
        assert_eq!(shown("a/rank-1.json.gz"), Some(1));
        assert_eq!(shown("x.tar.gz:d/worker2_step_12.1694128201554.pt.trace.json"), Some(2));
        assert_eq!(shown("dlrm_eg_3.json"), Some(3));
        assert_eq!(shown("dlrm-b128-ws2-r1.et.json.gz"), Some(1));
        assert_eq!(shown("workers4.pt.trace.json.gz"), None);
        assert_eq!(shown("h100.json.gz"), None);
    }

    #[test]
    fn files_of_one_recording_share_a_family_or_a_stem() {
        let family_of = |name: &str| family(Path::new(name));
        assert_eq!(family_of("d/19488.16989.pt.trace.json.gz"), family_of("d/19489.16990.pt.trace.json.gz"));
        assert_ne!(family_of("d/a0.json"), family_of("e/a1.json"));
        let recording_of = |name: &str| recording(Path::new(name));
        assert_eq!(recording_of("d/mlp-b64.et.json.gz"), recording_of("d/mlp-b64.kineto.json.gz"));
        assert_eq!(recording_of("d/add_et.json"), recording_of("d/add_trace.json.gz"));
        assert_ne!(recording_of("d/mlp-b64.et.json.gz"), recording_of("d/mlp-b256.kineto.json.gz"));
        assert_eq!(folder(Path::new("a/b.tar.gz:c/d.json")), Path::new("a"));
    }
}
