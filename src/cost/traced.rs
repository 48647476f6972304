//! Kernels of traces against the cost models: what every traced kernel took, and what the models say of it unseen.
//!
//! Knows graphs, not where their traces came from.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::device::DeviceProfile;
use crate::graph::{ExecutionGraph, TaskKind};

use super::calibrate::{ErrorSummary, summarise};
use super::classify::{family_of_task, work_of_task};
use super::models::CostModels;
use super::parts::{divided, kernel_parts};
use super::roofline;
use super::work::{Family, Shape, Work};

/// One kernel, copy or fill as it was traced.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedKernel<'a> {
    /// Its name.
    pub name: String,
    /// Its family; with the work unknown, by names alone.
    pub family: Family,
    /// What it had to do, as far as known.
    pub work: Option<Work>,
    /// Where it ran.
    pub device: &'a DeviceProfile,
    /// How long, in µs.
    pub us: f64,
}

/// Errors of one family on one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TracedRow {
    /// The family; gradients of attention and lookups apart.
    pub family: String,
    /// Device by id.
    pub device: String,
    /// Kernels traced.
    pub kernels: usize,
    /// Time of all of them in µs.
    pub measured_us: f64,
    /// Part of that time whose work no model covers.
    pub unmodelled_share: f64,
    /// What the models say of the rest, over what it took.
    pub predicted_over_measured: f64,
    /// Errors by kernel.
    pub errors: ErrorSummary,
    /// Those of the plain roofline.
    pub roofline: ErrorSummary,
    /// Kernels whose predictions miss by most time, all calls of a name together.
    pub worst: Vec<Missed>,
}

/// All calls of one kernel whose predictions miss.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Missed {
    /// Its name.
    pub name: String,
    /// Calls.
    pub count: usize,
    /// What they took in µs.
    pub measured_us: f64,
    /// What they were to take in µs.
    pub predicted_us: f64,
}

/// How many kernels of a family are named.
const NAMED: usize = 3;

/// The kernels, copies and fills of `graph`; `devices` by rank, in its order, `None` where the device is not known.
/// Collectives are left out: their time is that of waiting too.
///
/// # Complexity
/// O(tasks), each with a look-up of its work.
pub fn traced_kernels<'a>(graph: &ExecutionGraph, devices: &[Option<&'a DeviceProfile>]) -> Vec<TracedKernel<'a>> {
    let parts = kernel_parts(graph);
    let mut found = Vec::new();
    for node in graph.tasks.node_indices() {
        let task = &graph.tasks[node];
        let is_wanted = matches!(task.kind, TaskKind::Kernel | TaskKind::Memcpy | TaskKind::Memset);
        let rank = graph.lanes.get(task.lane.0 as usize).map_or(0, |lane| lane.rank.0 as usize);
        let Some(device) = devices.get(rank).copied().flatten().filter(|_| is_wanted && task.measured.0 > 0) else {
            continue;
        };
        let whole = work_of_task(graph, task, |id| {
            let operands = graph.operators.get(id.0 as usize)?.operands?;
            graph.operands.get(operands.0 as usize)
        });
        let work = whole.map(|whole| divided(whole, parts[node.index()]));
        let family = work.as_ref().map_or_else(|| family_of_task(graph, task), |work| work.family);
        let name = graph.names.get(task.name).to_owned();
        found.push(TracedKernel { name, family, work, device, us: task.measured.0 as f64 / 1e3 });
    }
    found
}

/// Family of a row: gradients that have a model of their own are told apart.
fn row_family(kernel: &TracedKernel<'_>) -> String {
    let is_backward = kernel.work.as_ref().is_some_and(|work| {
        matches!(work.shape, Shape::Attention { backward: true, .. } | Shape::Embedding { backward: true, .. })
    });
    if is_backward { format!("{} backward", kernel.family.name()) } else { kernel.family.name().to_owned() }
}

/// Errors of `models` on `kernels` by family and device; none of them was fitted to.
pub fn traced_table(models: &CostModels, kernels: &[TracedKernel<'_>]) -> Vec<TracedRow> {
    let mut groups: BTreeMap<(String, &str), Vec<&TracedKernel<'_>>> = BTreeMap::new();
    for kernel in kernels {
        groups.entry((row_family(kernel), &kernel.device.id)).or_default().push(kernel);
    }
    groups.into_iter().map(|((family, device), kernels)| row(models, family, device, &kernels)).collect()
}

fn row(models: &CostModels, family: String, device: &str, kernels: &[&TracedKernel<'_>]) -> TracedRow {
    let predicted = |kernel: &TracedKernel<'_>| {
        let estimate = models.estimate(kernel.work.as_ref()?, kernel.device)?;
        Some(estimate.duration.0 as f64 / 1e3)
    };
    let pairs: Vec<(&TracedKernel<'_>, f64)> =
        kernels.iter().filter_map(|kernel| Some((*kernel, predicted(kernel)?))).collect();
    let measured_us: f64 = kernels.iter().map(|kernel| kernel.us).sum();
    let covered_us: f64 = pairs.iter().map(|(kernel, _)| kernel.us).sum();
    let predicted_us: f64 = pairs.iter().map(|(_, us)| us).sum();
    let roofline_us = |kernel: &TracedKernel<'_>| {
        let work = kernel.work.as_ref();
        work.map_or(0.0, |work| roofline::roofline_us(work, kernel.device))
    };
    TracedRow {
        family,
        device: device.to_owned(),
        kernels: kernels.len(),
        measured_us,
        unmodelled_share: 1.0 - covered_us / measured_us.max(f64::MIN_POSITIVE),
        predicted_over_measured: if covered_us > 0.0 { predicted_us / covered_us } else { 0.0 },
        errors: summarise(pairs.iter().map(|(kernel, us)| (*us, kernel.us))),
        roofline: summarise(pairs.iter().map(|(kernel, _)| (roofline_us(kernel), kernel.us))),
        worst: worst(&pairs),
    }
}

/// The names that miss by most time, most first.
fn worst(pairs: &[(&TracedKernel<'_>, f64)]) -> Vec<Missed> {
    let mut by_name: BTreeMap<&str, (Missed, f64)> = BTreeMap::new();
    for (kernel, us) in pairs {
        let none = Missed { name: kernel.name.clone(), count: 0, measured_us: 0.0, predicted_us: 0.0 };
        let (missed, off) = by_name.entry(&kernel.name).or_insert((none, 0.0));
        missed.count += 1;
        missed.measured_us += kernel.us;
        missed.predicted_us += us;
        *off += (us - kernel.us).abs();
    }
    let mut all: Vec<(Missed, f64)> = by_name.into_values().collect();
    all.sort_by(|(a, off_a), (b, off_b)| off_b.total_cmp(off_a).then_with(|| a.name.cmp(&b.name)));
    all.into_iter().take(NAMED).map(|(missed, _)| missed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::operators::movement_work;
    use crate::device::Catalog;

    #[test]
    fn a_row_counts_what_no_model_covers_and_names_the_worst() {
        let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
        let device = catalog.find("V100").unwrap();
        let work = movement_work(Family::Elementwise, 400_000_000, 400_000_000);
        let us = models.estimate(&work, device).unwrap().duration.0 as f64 / 1e3;
        let kernel = |name: &str, work: Option<Work>, us| TracedKernel {
            name: name.to_owned(),
            family: Family::Elementwise,
            work,
            device,
            us,
        };
        let kernels =
            [kernel("right", Some(work.clone()), us), kernel("slow", Some(work), 2.0 * us), kernel("?", None, us)];
        let table = traced_table(&models, &kernels);
        assert_eq!((table.len(), table[0].kernels, table[0].errors.n), (1, 3, 2));
        assert!((table[0].unmodelled_share - 0.25).abs() < 1e-9);
        assert!((table[0].predicted_over_measured - 2.0 / 3.0).abs() < 1e-9);
        assert!((table[0].errors.mape - 0.25).abs() < 1e-9);
        assert_eq!((table[0].worst[0].name.as_str(), table[0].worst[0].count), ("slow", 1));
    }
}
