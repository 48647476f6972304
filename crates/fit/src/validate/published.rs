//! Errors that papers print of their own kernel models, to stand beside ours. Theirs are on their own measurements, which are not public.

use super::ValidationRow;

/// Geometric mean of the absolute error by kernel on V100, TITAN Xp and P100 [Lin 2022, Table IV]: family, and model where a family has
/// several.
const BY_GPU: [(&str, &str, [f64; 3]); 6] = [
    ("linear", "", [0.0580, 0.0892, 0.0759]),
    ("batched-gemm", "", [0.0580, 0.0892, 0.0759]),
    ("embedding forward", "embedding-plain", [0.1146, 0.1281, 0.0863]),
    ("embedding forward", "embedding-enhanced", [0.0927, 0.1188, 0.0642]),
    ("embedding backward", "embedding-plain", [0.0953, 0.0831, 0.1249]),
    ("embedding backward", "embedding-enhanced", [0.0739, 0.0557, 0.0842]),
];

/// The devices of the paper, each with others of the same chip.
const GPUS: [&[&str]; 3] = [&["V100", "V100-PCIe"], &["TITAN-Xp"], &["P100"]];

/// The same of collectives among four A100 [Lin 2024, Table I].
const COLLECTIVES: [(&str, &str, f64); 2] =
    [("all-to-all x4", "NVLink3", 0.0525), ("all-reduce x4", "NVLink3", 0.0498)];

/// The geometric mean that a paper prints of its model of such a kernel on that GPU or interconnect; `None` where none does.
pub fn published_gmae(row: &ValidationRow) -> Option<f64> {
    let gpu = GPUS.iter().position(|chip| chip.contains(&row.device.as_str()));
    let of_gpu = |gpu: usize| {
        let is_row = |(family, model, _): &&(&str, &str, _)| *family == row.family && [row.model, ""].contains(model);
        BY_GPU.iter().find(is_row).map(|(.., errors)| errors[gpu])
    };
    let collective = || COLLECTIVES.iter().find(|(family, link, _)| *family == row.family && *link == row.device);
    gpu.and_then(of_gpu).or_else(|| collective().map(|(.., error)| *error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::shipped_errors;
    use retime_core::cost::models::CostModels;

    #[test]
    fn the_papers_errors_stand_beside_ours_of_the_same_kernels_and_gpus_alone() {
        let rows = shipped_errors(&CostModels::builtin().unwrap());
        let of = |family: &str, device: &str| {
            rows.iter().find(|row| row.family == family && row.device == device).and_then(published_gmae)
        };
        assert_eq!([of("linear", "P100"), of("batched-gemm", "V100-PCIe")], [Some(0.0759), Some(0.0580)]);
        assert_eq!([of("linear", "T4"), of("softmax", "P100")], [None, None]);
        assert_eq!(of("all-to-all x4", "NVLink3"), Some(0.0525));
    }
}
