//! Where Python code stands, without what only says whose machine it was recorded on.

use std::borrow::Cow;

/// Folders after which a path says which library's code it is.
const LIBRARIES: [&str; 2] = ["site-packages/", "dist-packages/"];

/// A stack, its frames parted by `;` or line breaks, with every path shortened (see [`shortened`]).
pub(super) fn stack(text: &str) -> Cow<'_, str> {
    if !text.contains('/') && !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.split_inclusive([';', '\n']).map(shortened).collect())
}

/// `/home/x/lib/python3.7/site-packages/torch/nn/functional.py(1847): linear` → `torch/nn/functional.py(1847): linear`.
///
/// Outside of libraries the folder and the file stay: `/home/x/work/dlrm/train.py(7): main` → `dlrm/train.py(7): main`.
/// Paths that are relative already stay as they are.
pub(super) fn shortened(frame: &str) -> Cow<'_, str> {
    let start = frame.len() - frame.trim_start().len();
    let is_absolute = frame[start..].starts_with(['/', '\\', '~']) || frame[start..].get(1..3).is_some_and(is_drive);
    let path_end = frame.find('(').unwrap_or(frame.len());
    let path = &frame[..path_end];
    if let Some(library) = LIBRARIES.iter().find_map(|folder| path.rfind(folder).map(|at| at + folder.len())) {
        return Cow::Borrowed(&frame[library..]);
    }
    if !is_absolute {
        return Cow::Borrowed(frame);
    }
    let standard = path.find("/python3").and_then(|at| Some(at + 1 + path[at + 1..].find('/')? + 1));
    let folder = || path.rmatch_indices(['/', '\\']).take(2).last().map(|(at, _)| at + 1);
    let from = standard.filter(|_| path.contains("/lib/python3")).or_else(folder).unwrap_or(start);
    Cow::Borrowed(&frame[from.min(path_end)..])
}

/// `:\` or `:/`, as after the letter of a drive.
fn is_drive(text: &str) -> bool {
    matches!(text, ":\\" | ":/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_keep_library_folder_file_and_line() {
        for (frame, short) in [
            (
                "/home/x/lib/python3.7/site-packages/torch/nn/functional.py(1847): linear",
                "torch/nn/functional.py(1847): linear",
            ),
            ("/usr/lib/python3.10/threading.py(973): run", "threading.py(973): run"),
            ("/home/x/work/dlrm/train.py(7): main", "dlrm/train.py(7): main"),
            ("C:\\Users\\x\\dlrm\\train.py(7): main", "dlrm\\train.py(7): main"),
            ("/train.py(7): main", "train.py(7): main"),
            ("torch/nn/functional.py(1847): linear", "torch/nn/functional.py(1847): linear"),
            ("<built-in method a/b of type>", "<built-in method a/b of type>"),
            ("/tmp/torchinductor_x/ab/cab.py", "ab/cab.py"),
            ("~/x.py(1): é", "x.py(1): é"),
        ] {
            assert_eq!(shortened(frame), short);
        }
    }

    #[test]
    fn stacks_keep_their_separators() {
        let text = "/a/b/c.py(1): f;/a/site-packages/d.py(2): g\nh.py(3): i";
        assert_eq!(stack(text), "b/c.py(1): f;d.py(2): g\nh.py(3): i");
        assert_eq!(stack("a.py(1): f;b.py(2): g"), "a.py(1): f;b.py(2): g");
    }
}
