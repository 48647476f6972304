//! Captures that differ in what one step changes: the time of the device's work, which a profiler leaves alone and hosts do not scatter.

use color_eyre::eyre::Result;

use retime::session::Engine;

use super::captures::{BATCH_LIMIT, Predicted};
use super::manifest::Capture;
use super::{Answer, Constants, Row};

/// A step, and how the id of what it predicts differs from that of what it starts from: the first part replaced by the second.
struct Variant {
    family: &'static str,
    step: &'static str,
    ids: [&'static str; 2],
}

const VARIANTS: [Variant; 9] = [
    Variant { family: "tf32, device time", step: "mixed-precision tf32", ids: ["-fp32-", "-tf32-"] },
    Variant { family: "bf16, device time", step: "mixed-precision bf16", ids: ["-fp32-", "-bf16-"] },
    Variant { family: "fused optimizer, device time", step: "fuse-optimizer", ids: ["-b", "-optimplfused-b"] },
    Variant { family: "fused bags, device time", step: "fuse-embedding-bags", ids: ["-b", "-fused-b"] },
    Variant { family: "accumulation, device time", step: "accumulate 2", ids: ["-b", "-accumulate2-b"] },
    Variant { family: "accumulation, device time", step: "accumulate 4", ids: ["-b", "-accumulate4-b"] },
    Variant {
        family: "recomputation, device time",
        step: "checkpoint phase=forward segments=12",
        ids: ["-b", "-checkpoint1-b"],
    },
    Variant { family: "H100 to H200, device time", step: "swap-gpu H200", ids: ["-cuda", "-h200"] },
    Variant { family: "H200 to H100, device time", step: "swap-gpu H100-SXM", ids: ["-h200", "-cuda"] },
];

/// Steps of which the whole iteration is known, without a profiler: what they change is the host's.
const OF_HOSTS: [Variant; 1] =
    [Variant { family: "one graph per thread, whole iteration", step: "cuda-graph", ids: ["-b", "-graph1-b"] }];

/// Geometric mean that is aimed at.
const TARGET: f64 = 0.08;
const BATCH: &str = "batch, device time";

/// Predicts captures with work on a device from others of the same model, at other batches and with the steps of [`VARIANTS`].
///
/// # Errors
/// None of its own: the lines of the steps are known.
pub(crate) fn check(engine: &Engine, captures: &[Capture], answer: &mut Answer) -> Result<()> {
    let with_device = || captures.iter().filter(|capture| capture.device_ns() > 0.0);
    for from in with_device() {
        for to in with_device().filter(|to| to.series() == from.series() && to.batch != from.batch) {
            let check = format!("{} {} → {}", from.series(), from.batch, to.batch);
            let row = row(engine, BATCH, &format!("resize-batch {}", to.batch), check, (from, to))?;
            answer.rows.push(row);
        }
    }
    answer.sum_up(BATCH, TARGET);
    for (at, Variant { family, step, ids: [own, other] }) in VARIANTS.into_iter().enumerate() {
        for from in with_device() {
            let id = from.id.replacen(own, other, 1);
            let Some(to) = with_device().find(|to| to.id == id && id != from.id) else { continue };
            answer.rows.push(row(engine, family, step, from.series(), (from, to))?);
        }
        if VARIANTS.get(at + 1).is_none_or(|next| next.family != family) {
            answer.sum_up(family, TARGET);
        }
    }
    for Variant { family, step, ids: [own, other] } in OF_HOSTS {
        for from in with_device() {
            let id = from.id.replacen(own, other, 1);
            let Some(to) = with_device().find(|to| to.id == id && id != from.id) else { continue };
            let got = Predicted::of(engine, &from.steps, step)?;
            let constants = (from.id.as_str(), Constants::HeldOut);
            let row = Row::new(family, from.series(), (to.wall_ns, got.ns), BATCH_LIMIT, constants);
            answer.rows.push(row.against(from.wall_ns, from.wall_ns).over(from.steps.len()));
        }
        answer.sum_up(family, TARGET);
    }
    Ok(())
}

fn row(engine: &Engine, family: &str, step: &str, check: String, (from, to): (&Capture, &Capture)) -> Result<Row> {
    let got = Predicted::of(engine, &from.steps, step)?;
    let (before, batches) = (from.device_ns(), to.batch as f64 / from.batch as f64);
    let row =
        Row::new(family, check, (to.device_ns(), got.device_ns()), BATCH_LIMIT, (from.id.as_str(), Constants::HeldOut));
    Ok(row.against(before * batches, before).of(got.parts(from, to)).over(from.steps.len()))
}
