use super::*;
use crate::cost::operators::{GemmSize, LookupSize, gemm_work, lookup_work, movement_work};
use crate::cost::work::CollectiveKind;
use crate::device::Catalog;
use crate::graph::DType;

fn gemm(m: u64) -> Work {
    gemm_work(GemmSize { batch: 1, m, n: 4096, k: 1024 }, DType::Bf16, false, 0)
}

fn placed<'a>(work: &'a Work, device: &'a DeviceProfile) -> Placed<'a> {
    Placed { work: Some(work), device }
}

#[test]
fn what_did_not_change_keeps_its_measured_duration_to_the_nanosecond() {
    let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
    let h100 = catalog.find("H100").unwrap();
    let work = gemm(512);
    for ns in [0, 1, 12_345, 987_654_321] {
        let kept = models.predict(Some(DurNs(ns)), placed(&work, h100), placed(&work.clone(), h100));
        assert_eq!(kept, Prediction::measured(DurNs(ns)));
    }
    let unknown = Placed { work: None, device: h100 };
    assert_eq!(models.predict(Some(DurNs(77)), unknown, unknown), Prediction::measured(DurNs(77)));
}

#[test]
fn a_larger_product_is_anchored_to_its_measurement() {
    let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
    let mi300x = catalog.find("MI300X").unwrap();
    let (small, large) = (gemm(4096), gemm(8192));
    let grown = models.predict(Some(DurNs(500_000)), placed(&small, mi300x), placed(&large, mi300x));
    assert_eq!(grown.provenance, Provenance::Anchored);
    assert!((800_000..1_100_000).contains(&grown.duration.0), "{grown:?}");
    assert!(grown.error > 0.0 && grown.error < 0.2);
}

#[test]
fn unknown_work_on_a_new_device_keeps_its_time_and_says_so() {
    let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
    let (v100, h100) = (catalog.find("V100").unwrap(), catalog.find("H100").unwrap());
    let moved =
        models.predict(Some(DurNs(5_000)), Placed { work: None, device: v100 }, Placed { work: None, device: h100 });
    assert_eq!((moved.duration, moved.provenance), (DurNs(5_000), Provenance::Unmodelled));
}

#[test]
fn a_faster_device_is_faster_at_large_work_of_every_kind() {
    let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
    let (v100, h200) = (catalog.find("V100").unwrap(), catalog.find("H200").unwrap());
    let lookup = LookupSize { batch: 65_536, rows: 1_000_000, tables: 26, pooling: 20.0, dim: 128 };
    for work in [
        gemm_work(GemmSize { batch: 1, m: 8192, n: 8192, k: 8192 }, DType::Fp32, false, 0),
        movement_work(Family::Elementwise, 1 << 30, 1 << 30),
        lookup_work(&lookup, false, DType::Fp32, DType::Int64),
        lookup_work(&lookup, true, DType::Fp32, DType::Int64),
    ] {
        let time = |device| models.estimate(&work, device).unwrap().duration;
        assert!(time(v100).0 > 2 * time(h200).0, "{work:?}");
    }
}

#[test]
fn every_device_gives_finite_times_for_odd_work() {
    let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
    let lookups = [(0, 0, 0.0, 0), (1, 1, 0.0, 3), (512, 1, 1.0, 5)].map(|(batch, rows, pooling, dim)| {
        lookup_work(&LookupSize { batch, rows, tables: 1, pooling, dim }, true, DType::Fp32, DType::Int64)
    });
    let products = [(0, 0, 0), (1, 1, 1), (1, 0, 7), (3, 5, u64::from(u32::MAX))]
        .map(|(m, n, k)| gemm_work(GemmSize { batch: 1, m, n, k }, DType::Fp8, false, 0));
    let collective = |ranks, bytes| Work {
        shape: Shape::Collective { kind: CollectiveKind::AllToAll, ranks },
        ..movement_work(Family::Collective, bytes, bytes)
    };
    let odd = [
        collective(0, 0),
        collective(1, 5),
        collective(1024, 1 << 40),
        movement_work(Family::Movement, 0, u64::MAX / 2),
    ];
    for device in catalog.iter() {
        for work in lookups.iter().chain(&products).chain(&odd) {
            let estimate = models.estimate(work, device).unwrap();
            assert!(
                estimate.duration >= DurNs::ZERO && estimate.error > -1e-9 && estimate.error.is_finite(),
                "{}: {work:?}",
                device.id
            );
        }
    }
}

#[test]
fn changing_a_figure_of_a_device_changes_what_is_remembered_of_it() {
    let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
    let base = catalog.find("A100").unwrap();
    let mut fast = DeviceProfile::clone(base);
    fast.scale_memory_bandwidth(2.0);
    let work = movement_work(Family::Movement, 1 << 30, 1 << 30);
    let time = |device: &DeviceProfile| models.estimate(&work, device).unwrap().duration.0 as f64;
    assert!((time(base) / time(&fast) - 2.0).abs() < 0.01);
}

#[test]
fn a_model_that_misses_the_measured_kernel_is_asked_for_a_ratio_only() {
    let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
    let (h100, h200) = (catalog.find("H100").unwrap(), catalog.find("H200").unwrap());
    let work = movement_work(Family::Elementwise, 1 << 32, 1 << 31);
    let model = models.estimate(&work, h100).unwrap().duration;
    let measured = model.scale(0.25);
    let moved = models.predict(Some(measured), placed(&work, h100), placed(&work, h200));
    assert_eq!(moved.provenance, Provenance::Anchored);
    assert!(moved.duration <= measured, "{moved:?} against {measured}");
}

#[test]
fn a_card_of_little_power_computes_far_below_its_peak_on_vector_units_only() {
    let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
    let limited = DeviceProfile {
        id: "unheard of".to_owned(),
        lineage: Vec::new(),
        ..DeviceProfile::clone(catalog.find("L4").unwrap())
    };
    let unlimited = DeviceProfile { power_per_peak: None, ..limited.clone() };
    let slower = |dtype| {
        let work = gemm_work(GemmSize { batch: 1, m: 8192, n: 8192, k: 8192 }, dtype, false, 0);
        let time = |device| models.estimate(&work, device).unwrap().duration.0 as f64;
        time(&limited) / time(&unlimited)
    };
    assert!(slower(DType::Fp32) > 1.3, "{}", slower(DType::Fp32));
    assert!((slower(DType::Bf16) - 1.0).abs() < 1e-9);
}
