//! What content that is no trace looks like, so that the error can say what to give instead.

use super::OpenError;
use std::path::Path;

const JSON_ADVICE: &str = "give the JSON (or .json.gz) that torch.profiler wrote";

/// First bytes → what they are and what to do.
const KINDS: [(&[u8], &str, &str); 11] = [
    (b"\x89PNG", "an image", "a picture of a timeline cannot be re-timed; give the trace it was made from"),
    (b"\xff\xd8\xff", "an image", "a picture of a timeline cannot be re-timed; give the trace it was made from"),
    (b"GIF8", "an image", "a picture of a timeline cannot be re-timed; give the trace it was made from"),
    (b"PAR1", "Parquet", "of Nsight Systems give the .sqlite that `nsys export --type sqlite` writes"),
    (b"PK\x03\x04", "a zip archive", "unpack it first, or pack with tar and gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed", "unpack it first with `zstd -d`"),
    (b"\xfd7zXZ", "xz-compressed", "unpack it first with `xz -d`"),
    (b"\x80\x02", "a Python pickle", "a memory snapshot or checkpoint holds no timeline; give the profiler's JSON"),
    (b"\x7fELF", "a program", JSON_ADVICE),
    (b"<", "HTML or XML", "this may be a saved web page instead of the file; download the raw file"),
    (b"version https://git-lfs", "a Git LFS pointer", "fetch the file itself with `git lfs pull`"),
];

/// The first attribute of a Chakra file's metadata, as protobuf writes it: a field of six characters.
const CHAKRA_METADATA: &[u8] = b"\x0a\x06schema";

/// How the names of planes begin in a file of XLA's profiler, a protobuf whose first field is a plane.
const XPLANES: [&[u8]; 2] = [b"/host:", b"/device:"];

/// What text of no known kind is called.
pub(super) const PLAIN_TEXT: &str = "plain text";

/// Names in the header line of rocprof's CSV output.
const ROCPROF: [&str; 3] = ["KernelName", "Kernel_Name", "BeginNs"];

/// The error for content that starts with `head` and is no JSON; `None` when nothing better can be said.
pub(super) fn not_a_trace(head: &[u8], path: &Path) -> Option<OpenError> {
    let error = |found, advice| OpenError::NotATrace { path: path.to_owned(), found, advice };
    if let Some((_, found, advice)) = KINDS.iter().find(|(magic, ..)| head.starts_with(magic)) {
        return Some(error(found, advice));
    }
    let first_line = String::from_utf8_lossy(head.split(|b| *b == b'\n').next()?);
    if ROCPROF.iter().any(|name| first_line.contains(name)) {
        return Some(error(
            "rocprof text",
            "give the Chrome-trace JSON of `rocprof --hip-trace` (results.json), the `*_kernel_trace.csv` of rocprofv3, or what torch.profiler wrote",
        ));
    }
    if head.windows(CHAKRA_METADATA.len()).any(|window| window == CHAKRA_METADATA) {
        return Some(error(
            "Chakra protobuf",
            "give the PyTorch execution trace (JSON, from ExecutionTraceObserver) that it was converted from",
        ));
    }
    let holds = |name: &&[u8]| head.windows(name.len()).any(|window| window == *name);
    let is_long_field = matches!(head, [b'\n', length, ..] if *length >= 0x80);
    if is_long_field && XPLANES.iter().any(holds) {
        return Some(error("XSpace protobuf of XLA's profiler", "give the .trace.json.gz that is written beside it"));
    }
    if head.contains(&0) {
        return Some(error("binary", JSON_ADVICE));
    }
    let text = head.iter().find(|b| !b.is_ascii_whitespace())?;
    (!matches!(text, b'{' | b'[')).then(|| error(PLAIN_TEXT, JSON_ADVICE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_kinds_of_files_are_named() {
        let shown = |head: &[u8]| not_a_trace(head, Path::new("f")).map(|error| error.to_string()).unwrap_or_default();
        assert!(shown(b"\"Index\",\"KernelName\",\"gpu-id\"\n0,").contains("rocprof"));
        assert!(shown(b"hello").contains("plain text"));
        assert!(shown(b"^\x12\x10\x0a\x06schema\xea\x01").contains("Chakra protobuf"));
        assert!(shown(b"\n\xa1\xf0\x08\x12\x0e/host:metadata").contains("XLA's profiler"));
        assert!(shown(b"PAR1\x15\x04").contains("nsys export"));
        assert_eq!(shown(b"\n{\"traceEvents\": [{\"name\": \"/host:cpu\""), "");
        assert!(shown(b"\0\x05\x16").contains("binary"));
        assert_eq!(shown(b"  {\"traceEvents\": ["), "");
    }
}
