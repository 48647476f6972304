//! Nsight's numbers → the words and numbers that the PyTorch profiler uses for the same things.

/// Bits of a global id that number the thread; those of the process are above them.
const THREAD_BITS: u32 = 24;
const THREAD: i64 = (1 << THREAD_BITS) - 1;

/// The global process id in a global thread id.
pub(super) fn process_of(global_thread: i64) -> i64 {
    global_thread & !THREAD
}

/// The process id in a global id.
pub(super) fn pid(global: i64) -> i64 {
    (global >> THREAD_BITS) & THREAD
}

/// The thread id in a global thread id.
pub(super) fn tid(global_thread: i64) -> i64 {
    global_thread & THREAD
}

/// A call's name without the version of its interface: `cudaLaunchKernel_v7000` → `cudaLaunchKernel`.
pub(super) fn call(name: &str) -> &str {
    match name.rsplit_once("_v") {
        Some((call, version)) if !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit()) => call,
        _ => name,
    }
}

/// A copy's name, by CUPTI's numbers of the kind of copy and of memory: `Memcpy HtoD (Pageable -> Device)`.
pub(super) fn copy(kind: u32, from: Option<i64>, to: Option<i64>) -> String {
    let kind = match kind {
        1 | 3 | 11 => "HtoD",
        2 | 4 | 12 => "DtoH",
        5..=8 | 13 => "DtoD",
        9 => "HtoH",
        10 => "PtoP",
        _ => "Unknown",
    };
    format!("Memcpy {kind} ({} -> {})", memory(from), memory(to))
}

/// A memset's name.
pub(super) fn set(kind: Option<i64>) -> String {
    format!("Memset ({})", memory(kind))
}

fn memory(kind: Option<i64>) -> &'static str {
    match kind {
        Some(0) => "Pageable",
        Some(1) => "Pinned",
        Some(2 | 5) => "Device",
        Some(3) => "Array",
        Some(4 | 6) => "Managed",
        _ => "Unknown",
    }
}

/// A synchronisation's name, by CUPTI's number of its type.
pub(super) fn synchronisation(kind: u32) -> &'static str {
    match kind {
        1 => "Event Sync",
        2 => "Stream Wait Event",
        3 => "Stream Sync",
        4 => "Context Sync",
        _ => "Unknown Sync",
    }
}

/// What `torch.autograd.profiler.emit_nvtx` writes of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operator<'a> {
    /// Its name.
    pub name: &'a str,
    /// Joins forward and backward.
    pub sequence: Option<i64>,
    /// Sizes of its inputs as a JSON array; empty where not recorded.
    pub sizes: &'a str,
}

/// Reads `aten::mm, seq = 3, op_id = 7, sizes = [[2, 3], [3, 4]], input_op_ids = […]`; `None` for any other range.
pub(super) fn operator(text: &str) -> Option<Operator<'_>> {
    const PARTS: [&str; 4] = [", seq = ", ", op_id = ", ", sizes = ", ", input_op_ids = "];
    let part = |at: usize| {
        let value = text.split_once(PARTS[at])?.1;
        let ends = PARTS.iter().filter_map(|next| value.find(next));
        Some(&value[..ends.min().unwrap_or(value.len())])
    };
    let (sequence, id) = (part(0).and_then(|text| text.parse().ok()), part(1));
    if sequence.is_none() && id.is_none() {
        return None;
    }
    let end = PARTS.iter().filter_map(|next| text.find(next)).min()?;
    Some(Operator { name: &text[..end], sequence, sizes: part(2).unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_lose_the_version_of_their_interface_only() {
        assert_eq!(call("cudaLaunchKernel_v7000"), "cudaLaunchKernel");
        assert_eq!(call("cuMemcpyHtoDAsync_v2"), "cuMemcpyHtoDAsync");
        assert_eq!(call("my_vector"), "my_vector");
    }

    #[test]
    fn global_ids_hold_process_and_thread() {
        let thread = (5 << 48) + (1_701_896 << 24) + 1_701_900;
        assert_eq!((pid(thread), tid(thread)), (1_701_896, 1_701_900));
        assert_eq!(pid(process_of(thread)), 1_701_896);
    }

    #[test]
    fn operators_are_told_from_other_ranges() {
        let text = "aten::mm, seq = 3, op_id = 7, sizes = [[2, 3], [3, 4]], input_op_ids = [(5,0)]";
        let found = Operator { name: "aten::mm", sequence: Some(3), sizes: "[[2, 3], [3, 4]]" };
        assert_eq!(operator(text), Some(found));
        assert_eq!(operator("aten::t, op_id = 8").map(|it| (it.name, it.sequence)), Some(("aten::t", None)));
        assert_eq!(operator("step 3, sizes = 4"), None);
    }
}
