//! Memory that libraries of products take for themselves, as PyTorch gives it to them (its `CUDABlas.cpp` and
//! `CublasHandlePool.cpp`): a piece that stays with the handle, and one for the length of each product with a bias.

use crate::cost::operators::bare;
use crate::graph::OperatorId;
use crate::units::{Bytes, TimeNs};

use super::callers::end;
use super::parameters::arguments;
use super::sources::Rank;
use super::{AFTER, BEFORE, Buffer, Holds};

/// Stays with the handle of cuBLAS: eight pieces of 4 MiB on chips of compute capability 9.0 and 10, before two of 4 MiB and eight
/// of 16 KiB. hipBLAS takes its own from the driver.
const CUBLAS_HOPPER: u64 = 8 * 4096 * 1024;
const CUBLAS: u64 = (2 * 4096 + 8 * 16) * 1024;
/// During a product with a bias, which cuBLASLt does in one kernel; hipBLASLt is given more.
const CUBLAS_LT: u64 = 1024 * 1024;
const HIPBLAS_LT: u64 = 76 * 1024 * 1024;

/// Names of devices whose compute capability is 9.0 or 10.
const HOPPER: [&str; 6] = ["H100", "H200", "H20", "GH200", "B100", "B200"];

/// What libraries take on the rank's device while the operators `ids` run; nothing on a host.
pub(super) fn of(rank: Rank<'_>, ids: &[OperatorId]) -> Vec<Buffer> {
    let Some(device) = &rank.part.device else { return Vec::new() };
    let graph = rank.graph;
    let is_amd = device.name.contains("AMD") || device.name.contains("Instinct");
    let name = |id: OperatorId| bare(graph.names.get(graph.operators[id.0 as usize].name));
    let products = ["addmm", "mm", "bmm", "baddbmm", "addbmm"];
    let of_products: Vec<OperatorId> = ids.iter().copied().filter(|&id| products.contains(&name(id))).collect();
    let whole = |bytes, from: TimeNs, until: TimeNs| Buffer {
        holds: Holds::Other,
        bytes: Bytes(bytes),
        from,
        until,
        operator: None,
    };
    let mut buffers = Vec::new();
    if !of_products.is_empty() && !is_amd {
        let is_hopper = HOPPER.iter().any(|name| device.name.contains(name));
        buffers.push(whole(if is_hopper { CUBLAS_HOPPER } else { CUBLAS }, BEFORE, AFTER));
    }
    let with_bias = |id: &&OperatorId| {
        let bias = arguments(graph, **id).first().and_then(|bias| bias.dims());
        name(**id) == "addmm" && bias.is_some_and(|dims| dims.len() == 1)
    };
    let lt = if is_amd { HIPBLAS_LT } else { CUBLAS_LT };
    let start = |id: OperatorId| graph.operators[id.0 as usize].start;
    buffers.extend(of_products.iter().filter(with_bias).map(|&id| whole(lt, start(id), end(graph, id))));
    buffers
}
