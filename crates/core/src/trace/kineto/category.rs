//! The names that profilers have given to kinds of events, 2020 to 2026.

use super::raw::Text;
use crate::trace::Category;

/// What a `cat` stands for; `None` for one that no PyTorch profiler writes.
pub(super) fn of(cat: &[u8]) -> Option<Category> {
    Some(match cat {
        b"cpu_op" | b"Operator" | b"operator" | b"hpu_op" => Category::Operator,
        b"user_annotation" => Category::Annotation,
        b"cuda_runtime"
        | b"cuda_driver"
        | b"Runtime"
        | b"hip_runtime"
        | b"hip_driver"
        | b"xpu_runtime"
        | b"xpu_driver"
        | b"mtia_runtime"
        | b"glow_runtime"
        | b"privateuse1_runtime"
        | b"privateuse1_driver" => Category::Runtime,
        b"kernel" | b"Kernel" | b"mtia_ccp_events" => Category::Kernel,
        b"gpu_memcpy" | b"Memcpy" => Category::Memcpy,
        b"gpu_memset" | b"Memset" => Category::Memset,
        b"gpu_user_annotation" => Category::GpuAnnotation,
        b"cuda_sync" => Category::Sync,
        b"python_function" => Category::Python,
        b"cpu_instant_event" => Category::Memory,
        b"overhead" => Category::Overhead,
        b"cuda_profiler_range" => Category::CounterRange,
        b"Trace" | b"ac2g" | b"fwdbwd" | b"async" | b"async_cpu_to_gpu" | b"async_gpu" | b"collective_comm" => {
            Category::Other
        }
        _ => return None,
    })
}

/// The 2021 schema files annotations under operators; these are the framework's own.
pub(super) fn is_annotation_name(name: Text<'_>) -> bool {
    // Most names are told by their first letter, so that they need not be read.
    if !matches!(name.plain().first(), Some(b'P' | b'O' | b'e' | b'\\')) {
        return false;
    }
    let name = name.decoded();
    ["ProfilerStep#", "Optimizer.", "enumerate(DataLoader)"].iter().any(|beginning| name.starts_with(beginning))
}

/// The kind of an event without `cat` (2020): its process tells.
pub(super) fn of_process(pid: &[u8]) -> Option<Category> {
    match pid {
        b"\"CPU functions\"" => Some(Category::Operator),
        b"\"CUDA functions\"" => Some(Category::Kernel),
        _ => None,
    }
}
