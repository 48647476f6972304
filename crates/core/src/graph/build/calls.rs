//! What a runtime or driver call does, told from its name, for CUDA and HIP alike.

/// The calls that the replay rules tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum CallClass {
    /// Launches a kernel or a memset.
    Launch,
    /// Launches a CUDA or HIP graph.
    GraphLaunch,
    /// Copies.
    Copy,
    /// Waits for the device.
    DeviceSync,
    /// Waits for a stream.
    StreamSync,
    /// Waits for an event.
    EventSync,
    /// Frees device memory, which waits for the device.
    Free,
    /// Makes a stream wait for an event.
    StreamWait,
    /// Anything else.
    Other,
}

impl CallClass {
    /// The class of the call named `name`.
    pub(super) fn of(name: &str) -> Self {
        let name = name.split('(').next().unwrap_or(name);
        let call = ["cuda", "hip", "cu"].iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
        let call = call.split("_v").next().unwrap_or(call);
        match call {
            "DeviceSynchronize" | "CtxSynchronize" | "ThreadSynchronize" => Self::DeviceSync,
            "StreamSynchronize" => Self::StreamSync,
            "EventSynchronize" => Self::EventSync,
            "Free" | "MemFree" => Self::Free,
            "StreamWaitEvent" => Self::StreamWait,
            _ if call.starts_with("GraphLaunch") => Self::GraphLaunch,
            _ if call.starts_with("Memcpy") => Self::Copy,
            _ if call.starts_with("Memset") || is_kernel_launch(call) => Self::Launch,
            _ => Self::Other,
        }
    }

    /// Whether it puts work on the device.
    pub(super) fn launches(self) -> bool {
        matches!(self, Self::Launch | Self::GraphLaunch | Self::Copy)
    }
}

/// Whether the call named `name` launches a captured graph: all its work with one call.
pub fn launches_graph(name: &str) -> bool {
    CallClass::of(name) == CallClass::GraphLaunch
}

fn is_kernel_launch(call: &str) -> bool {
    call.contains("LaunchKernel") || call.contains("LaunchCooperative") || call == "Launch"
}

#[cfg(test)]
mod tests {
    use super::CallClass;

    #[test]
    fn both_vendors_calls_are_told_apart_by_name() {
        for (name, class) in [
            ("cudaLaunchKernelExC", CallClass::Launch),
            ("hipExtModuleLaunchKernel", CallClass::Launch),
            ("cuLaunchKernel", CallClass::Launch),
            ("cudaMemsetAsync", CallClass::Launch),
            ("hipGraphLaunch", CallClass::GraphLaunch),
            ("hipMemcpyWithStream", CallClass::Copy),
            ("cudaMemcpyAsync_v3020", CallClass::Copy),
            ("cudaFree", CallClass::Free),
            ("cudaFreeAsync", CallClass::Other),
            ("cudaEventQuery", CallClass::Other),
            ("cudaStreamWaitEvent", CallClass::StreamWait),
            ("cuCtxSynchronize", CallClass::DeviceSync),
        ] {
            assert_eq!(CallClass::of(name), class, "{name}");
        }
    }
}
