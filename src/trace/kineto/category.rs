//! The names that profilers have given to kinds of events, 2020 to 2026.

use crate::trace::Category;

/// What a `cat` stands for; `None` for one that no PyTorch profiler writes.
pub fn of(cat: &str) -> Option<Category> {
    Some(match cat {
        "cpu_op" | "Operator" | "operator" | "hpu_op" => Category::Operator,
        "user_annotation" => Category::Annotation,
        "cuda_runtime"
        | "cuda_driver"
        | "Runtime"
        | "hip_runtime"
        | "hip_driver"
        | "xpu_runtime"
        | "xpu_driver"
        | "mtia_runtime"
        | "glow_runtime"
        | "privateuse1_runtime"
        | "privateuse1_driver" => Category::Runtime,
        "kernel" | "Kernel" | "mtia_ccp_events" => Category::Kernel,
        "gpu_memcpy" | "Memcpy" => Category::Memcpy,
        "gpu_memset" | "Memset" => Category::Memset,
        "gpu_user_annotation" => Category::GpuAnnotation,
        "cuda_sync" => Category::Sync,
        "python_function" => Category::Python,
        "cpu_instant_event" => Category::Memory,
        "overhead" => Category::Overhead,
        "cuda_profiler_range" => Category::CounterRange,
        "Trace" | "ac2g" | "fwdbwd" | "async" | "async_cpu_to_gpu" | "async_gpu" | "collective_comm" => Category::Other,
        _ => return None,
    })
}

/// The 2021 schema files annotations under operators; these are the framework's own.
pub fn is_annotation_name(name: &str) -> bool {
    name.starts_with("ProfilerStep#") || name.starts_with("Optimizer.") || name.starts_with("enumerate(DataLoader)")
}

/// The kind of an event without `cat` (2020): its process tells.
pub fn of_process(pid: &str) -> Option<Category> {
    match pid {
        "\"CPU functions\"" => Some(Category::Operator),
        "\"CUDA functions\"" => Some(Category::Kernel),
        _ => None,
    }
}
