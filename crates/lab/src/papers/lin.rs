//! Lin 2022 and 2024: embedding traffic, collective curves, and the end-to-end errors they report.

use retime_core::cost::collective::bus_factor;
use retime_core::cost::lookup::{HitRate, lookup_us};
use retime_core::cost::{CollectiveKind, Shape};
use retime_core::device::{BandwidthCurve, Catalog};
use retime_fit::csv::Table;

use super::{Check, Figure, Status};

pub(super) fn checks(catalog: &Catalog, figures: Option<&str>) -> Vec<Check> {
    let mut rows = lookups(catalog);
    rows.extend(CURVES.iter().flat_map(curve_checks));
    rows.extend(end_to_end(figures));
    rows
}

/// A warp's bytes are 32 + 64 + ⌈4L⌉ + L·⌈4D⌉ + ⌈4D⌉, rounded up to 32s: with L = 10 and D = 64 that is
/// 32 + 64 + 64 + 2560 + 256 = 2976, backward 5536. 1024 bags of 8 tables; a V100 delivers 816.953 GB/s.
fn lookups(catalog: &Catalog) -> Vec<Check> {
    let Ok(v100) = catalog.find("V100") else { return Vec::new() };
    let lookup = |pooling, backward| {
        let (tables, reuse) = (8, retime_core::cost::Reuse::Uniform);
        Shape::Embedding { batch: 1024, rows: 1_000_000, tables, pooling, dim: 64, backward, reuse }
    };
    let time = |shape: &Shape| lookup_us(shape, 4, HitRate::None, v100).unwrap_or(f64::NAN);
    let case = |what: &str, bytes_per_warp: f64, shape: &Shape| {
        let expected = 8192.0 * bytes_per_warp / 816.953e3;
        Check::number(format!("embedding lookup, plain, {what}, µs"), "Lin 2022 §III-B-1a", expected, time(shape), 1e-4)
    };
    vec![
        case("forward", 2976.0, &lookup(10.0, false)),
        case("backward", 5536.0, &lookup(10.0, true)),
        case("empty bags", 352.0, &lookup(0.0, false)),
    ]
}

/// The authors' fits, and what the printed equation gives at one size inside and one beyond the sigmoid, worked apart.
struct Curve {
    name: &'static str,
    kind: CollectiveKind,
    ranks: u32,
    fit: BandwidthCurve,
    /// log₂ of the size in bytes, and µs.
    inside: (i32, f64),
    beyond: (i32, f64),
}

const fn fit(
    log_m: [i32; 2],
    max_gb_s: f64,
    start_us: f64,
    [height, midpoint, steepness, base]: [f64; 4],
) -> BandwidthCurve {
    BandwidthCurve {
        start_us,
        m1_bytes: (1_u64 << log_m[0]) as f64,
        m2_bytes: (1_u64 << log_m[1]) as f64,
        max_gb_s,
        height,
        midpoint,
        steepness,
        base,
    }
}

const CURVES: [Curve; 5] = [
    Curve {
        name: "all-to-all, 4 V100, first fit",
        kind: CollectiveKind::AllToAll,
        ranks: 4,
        fit: fit([13, 27], 56.7134, 85.6, [5.978_782_16, 13.339_761_61, 0.225_514_25, -3.997_316_81]),
        inside: (20, 100.7198),
        beyond: (28, 3635.495),
    },
    Curve {
        name: "all-to-all, 4 V100, second fit",
        kind: CollectiveKind::AllToAll,
        ranks: 4,
        fit: fit([19, 29], 56.7134, 85.6, [2.049_547_79, 19.370_881_44, 0.506_135_66, -0.280_336_8]),
        inside: (24, 323.717),
        beyond: (30, 14_285.178),
    },
    Curve {
        name: "all-to-all, 8 V100",
        kind: CollectiveKind::AllToAll,
        ranks: 8,
        fit: fit([12, 24], 45.8154, 68.0, [5.883_874_59, 12.519_620_25, 0.231_385_83, -4.024_940_46]),
        inside: (18, 62.1768),
        beyond: (25, 708.835),
    },
    Curve {
        name: "all-reduce, 4 V100",
        kind: CollectiveKind::AllReduce,
        ranks: 4,
        fit: fit([12, 26], 75.6704, 84.2, [6.045_641_09, 12.704_174_28, 0.224_234_7, -3.941_648_57]),
        inside: (19, 94.704),
        beyond: (27, 2744.773),
    },
    Curve {
        name: "all-reduce, 8 V100",
        kind: CollectiveKind::AllReduce,
        ranks: 8,
        fit: fit([12, 25], 130.3734, 43.4, [6.677_701_76, 11.620_046_05, 0.193_229_59, -4.288_628_24]),
        inside: (18, 60.2021),
        beyond: (26, 944.201),
    },
];

/// A step at the boundary smaller than this is rounding.
const STEP: f64 = 0.005;

fn curve_checks(curve: &Curve) -> [Check; 5] {
    let source = "Lin 2024 §IV-A, authors' fit";
    let factor = bus_factor(curve.kind, curve.ranks);
    let published = |bytes: f64| curve.fit.published_us(bytes, factor);
    let at = |(log, expected): (i32, f64)| {
        Check::number(format!("{}, 2^{log} B, µs", curve.name), source, expected, published(2f64.powi(log)), 1e-5)
    };
    let edge = curve.fit.m2_bytes;
    let step = |time: &dyn Fn(f64) -> f64| time(edge) / time(edge * (1.0 - 1e-9)) - 1.0;
    let jump = Check::number(format!("{}, step at m₂", curve.name), source, 0.0, step(&published), STEP)
        .contradicted("the third region adds t_s and divides by BW_max; the sigmoid beside it has neither at m₂");
    let ours = |bytes: f64| curve.fit.transfer_us(bytes, factor);
    let joined = format!("{}, step at m₂ as predicted with", curve.name);
    let start = Check::number(format!("{}, 4 B, µs", curve.name), source, curve.fit.start_us, published(4.0), 0.0);
    [start, at(curve.inside), at(curve.beyond), jump, Check::number(joined, source, 0.0, step(&ours), 1e-6)]
}

/// Table V: geometric mean, least and largest error in percent over all GPUs, then V100, TITAN Xp, P100.
const TABLE_V: [(&str, &str, [[f64; 3]; 4]); 3] = [
    (
        "GPU active time",
        "err_gpu_active_pct",
        [[4.61, 0.41, 15.25], [2.69, 0.41, 7.82], [5.73, 1.18, 11.04], [6.37, 1.99, 15.25]],
    ),
    ("iteration", "err_e2e_pct", [[7.96, 0.09, 24.92], [7.56, 0.73, 21.96], [6.97, 0.09, 24.92], [9.59, 2.04, 22.76]]),
    (
        "iteration, shared overheads",
        "err_e2e_shared_overheads_pct",
        [[10.15, 0.75, 28.38], [6.92, 0.75, 20.79], [12.52, 1.13, 26.17], [12.09, 1.06, 28.38]],
    ),
];

/// The errors that the authors report of three DLRMs on three GPUs: beside them, where a table of Fig. 9 is given, what
/// its bars come to. Their traces are not public, so nothing here can be simulated.
fn end_to_end(figures: Option<&str>) -> Vec<Check> {
    let table = figures.and_then(|text| Table::parse(text).ok());
    let mut rows = Vec::new();
    for (what, column, scopes) in TABLE_V {
        for (scope, printed) in ["", "V100", "TITAN Xp", "P100"].into_iter().zip(scopes) {
            let bars = table.as_ref().map(|table| bars(table, column, scope)).unwrap_or_default();
            let ours = [geometric_mean(&bars), extreme(&bars, f64::min), extreme(&bars, f64::max)];
            let place = if scope.is_empty() { "overall" } else { scope };
            for ((statistic, expected), got) in ["mean", "least", "largest"].iter().zip(printed).zip(ours) {
                rows.push(Check {
                    class: super::Class::Model,
                    command: None,
                    name: format!("DLRM {what} error %, {place}, {statistic}"),
                    expected: Figure::Number(expected),
                    error: got.map(|got| got / expected - 1.0),
                    got: got.map_or(Figure::None, Figure::Number),
                    status: Status::Reported,
                    source: "Lin 2022 Table V, Fig. 9".to_owned(),
                    note: Some(
                        "errors the authors report; beside them what the bars read off Fig. 9 come to".to_owned(),
                    ),
                });
            }
        }
    }
    rows
}

/// Magnitudes in `column` of the rows of `gpu`, or of all; bars too short to see are left out.
fn bars(table: &Table, column: &str, gpu: &str) -> Vec<f64> {
    let rows = table.rows().filter(|row| gpu.is_empty() || row.text("gpu") == gpu);
    let magnitudes = rows.filter_map(|row| row.text(column).parse::<f64>().ok().map(f64::abs));
    magnitudes.filter(|&error| error > 0.0).collect()
}

fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logs: f64 = values.iter().map(|value| value.ln()).sum();
    (!values.is_empty()).then(|| (logs / values.len() as f64).exp())
}

fn extreme(values: &[f64], choose: fn(f64, f64) -> f64) -> Option<f64> {
    values.iter().copied().reduce(choose)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_of_a_figure_are_summed_up_by_gpu() {
        let table = Table::parse("gpu,err_e2e_pct\nV100,-4\nV100,1\nP100,9\nP100,0.0\n").unwrap();
        assert_eq!(geometric_mean(&bars(&table, "err_e2e_pct", "V100")), Some(2.0));
        assert_eq!(extreme(&bars(&table, "err_e2e_pct", ""), f64::max), Some(9.0));
        assert_eq!(bars(&table, "err_e2e_pct", "P100"), [9.0]);
        assert_eq!(geometric_mean(&bars(&table, "missing", "")), None);
    }
}
