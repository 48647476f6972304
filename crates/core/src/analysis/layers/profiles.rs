//! Runs side by side: across batch sizes, models, frameworks and systems [Li 2019 Tables 6 to 9].

use std::collections::BTreeMap;

use serde::Serialize;

use crate::device::DeviceProfile;
use crate::units::DurNs;

use super::analyses::{KernelSum, Stage, model, stages};
use super::batches::optimal_batch;
use super::levels::Recorded;
use super::table::{Layer, LayerTable};

/// A run with what it is a run of.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// Name of its trace.
    pub name: String,
    /// Where it ran.
    pub device: &'a DeviceProfile,
    /// What its profiler recorded; `None` without a trace.
    pub recorded: Option<Recorded>,
    /// Its layers and kernels.
    pub table: LayerTable,
}

impl Run<'_> {
    /// Whether its times are comparable with those of `other`: the same model on the same device, recorded in the same detail.
    pub fn is_like(&self, other: &Self) -> bool {
        self.table.is_of_model(&other.table) && self.device.id == other.device.id && self.recorded == other.recorded
    }
}

/// Runs of one model on one device, recorded in one detail: a row of Tables 6, 8 and 9.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Profile {
    /// Name of the first run's trace.
    pub name: String,
    /// Where they ran.
    pub device: String,
    /// What was recorded; `None` without a trace.
    pub recorded: Option<String>,
    /// How many.
    pub runs: usize,
    /// By batch size (Table 7).
    pub batch_sizes: Vec<BatchRow>,
    /// The batch size worth taking; `None` where no two sizes tell.
    pub optimal_batch: Option<u64>,
    /// Latency of one sample; `None` where no run has batch size 1.
    pub online_latency_ns: Option<DurNs>,
    /// That over the first profile's.
    pub online_latency_ratio: Option<f64>,
    /// Samples per second at the best batch size.
    pub max_throughput: Option<f64>,
    /// That over the first profile's.
    pub max_throughput_ratio: Option<f64>,
    /// The batch size of all that follows: the optimal one, else the one with the most throughput.
    pub batch: Option<u64>,
    /// Time of the iteration.
    pub latency_ns: DurNs,
    /// Share of the layers' latency that is convolution; `None` where no layer was recorded.
    pub convolution_share: Option<f64>,
    /// All kernels together; their share of the latency is what the device is busy.
    pub model: KernelSum,
    /// Which third of the layers has most of what.
    pub stages: Vec<Stage>,
}

/// Runs at one batch size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BatchRow {
    /// The size; `None` where not known.
    pub batch: Option<u64>,
    /// How many.
    pub runs: usize,
    /// Trimmed mean of their iterations.
    pub latency_ns: DurNs,
    /// Samples of an iteration, which may run on several batches.
    pub samples: Option<f64>,
    /// Samples per second.
    pub throughput: Option<f64>,
    /// All kernels together.
    pub model: KernelSum,
}

/// The runs side by side: those that are alike make one profile, in the order of the first run of each.
///
/// # Arguments
/// `latency`: the largest batch within it is the optimal one, as in [`optimal_batch`].
///
/// # Returns
/// Each with the layers and kernels at its batch size.
pub fn profiles(runs: &[Run<'_>], latency: Option<DurNs>) -> Vec<(Profile, LayerTable)> {
    let mut groups: Vec<Vec<&Run<'_>>> = Vec::new();
    for run in runs {
        match groups.iter_mut().find(|group| group[0].is_like(run)) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    let mut profiles: Vec<(Profile, LayerTable)> = groups.iter().filter_map(|group| profile(group, latency)).collect();
    let first = profiles.first().map(|(first, _)| (first.online_latency_ns, first.max_throughput));
    let (online, throughput) = first.unwrap_or_default();
    for (profile, _) in profiles.iter_mut().skip(1) {
        let latencies = profile.online_latency_ns.zip(online).filter(|(_, first)| first.0 > 0);
        profile.online_latency_ratio = latencies.map(|(own, first)| own.secs() / first.secs());
        let rates = profile.max_throughput.zip(throughput).filter(|(_, first)| *first > 0.0);
        profile.max_throughput_ratio = rates.map(|(own, first)| own / first);
    }
    profiles
}

fn profile(group: &[&Run<'_>], target: Option<DurNs>) -> Option<(Profile, LayerTable)> {
    let first = group.first()?;
    let tables = by_batch(group);
    let row = |(&batch, (runs, table)): (&Option<u64>, &(usize, LayerTable))| BatchRow {
        batch,
        runs: *runs,
        latency_ns: table.latency,
        samples: table.samples,
        throughput: table.samples.filter(|_| table.latency.0 > 0).map(|samples| samples / table.latency.secs()),
        model: model(table, first.device),
    };
    let rows: Vec<BatchRow> = tables.iter().map(row).collect();
    let known: Vec<(u64, DurNs)> = rows.iter().filter_map(|row| Some((row.batch?, row.latency_ns))).collect();
    let rate = |row: &BatchRow| row.throughput.unwrap_or(0.0);
    let fastest = rows.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    let optimal = optimal_batch(&known, target);
    let shown = rows.iter().find(|row| optimal.is_some() && row.batch == optimal).unwrap_or(fastest);
    let (_, table) = tables.get(&shown.batch)?;
    let profile = Profile {
        name: first.name.clone(),
        device: first.device.id.clone(),
        recorded: first.recorded.map(Recorded::name),
        runs: group.len(),
        optimal_batch: optimal,
        online_latency_ns: rows.iter().find(|row| row.batch == Some(1)).map(|row| row.latency_ns),
        online_latency_ratio: None,
        max_throughput: fastest.throughput,
        max_throughput_ratio: None,
        batch: shown.batch,
        latency_ns: table.latency,
        convolution_share: convolution_share(&table.layers),
        model: shown.model.clone(),
        stages: stages(&table.layers),
        batch_sizes: rows,
    };
    Some((profile, table.clone()))
}

/// The runs of each batch size as one, and how many there are.
fn by_batch(group: &[&Run<'_>]) -> BTreeMap<Option<u64>, (usize, LayerTable)> {
    let mut tables: BTreeMap<Option<u64>, Vec<LayerTable>> = BTreeMap::new();
    for run in group {
        tables.entry(run.table.batch).or_default().push(run.table.clone());
    }
    tables.into_iter().map(|(batch, runs)| (batch, (runs.len(), LayerTable::merged(&runs)))).collect()
}

/// The share of the latency of all layers that layers have whose operator is a convolution, forward or backward.
fn convolution_share(layers: &[Layer]) -> Option<f64> {
    let sum = |chosen: fn(&Layer) -> bool| -> f64 {
        layers.iter().filter(|layer| chosen(layer)).map(|layer| layer.latency_ns).sum::<DurNs>().secs()
    };
    let all = sum(|_| true);
    (all > 0.0).then(|| sum(|layer| layer.kind.to_ascii_lowercase().contains("conv")) / all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::roofline::Load;
    use crate::device::Catalog;
    use crate::graph::OperatorId;

    fn table(batch: u64, ms: i64, kinds: &[&str]) -> LayerTable {
        let layer = |(index, kind): (usize, &&str)| Layer {
            index,
            name: (*kind).to_owned(),
            kind: (*kind).to_owned(),
            phase: "forward",
            shape: Vec::new(),
            latency_ns: DurNs(ms * 1_000_000 / kinds.len() as i64),
            kernel_ns: DurNs::ZERO,
            memory_bytes: 0,
            load: Load::default(),
            bound: None,
            operator: OperatorId(index as u32),
        };
        let layers = kinds.iter().enumerate().map(layer).collect();
        LayerTable {
            layers,
            kernels: Vec::new(),
            latency: DurNs(ms * 1_000_000),
            batch: Some(batch),
            samples: Some(batch as f64),
        }
    }

    #[test]
    fn a_model_has_its_sizes_but_for_the_batch() {
        let of = |batch: u64, shapes: &[&[u64]]| {
            let mut table = table(batch, 1, &["aten::addmm", "aten::relu", "aten::addmm"]);
            for (layer, shape) in table.layers.iter_mut().zip(shapes) {
                layer.shape = shape.to_vec();
            }
            table
        };
        let small = of(64, &[&[64, 512], &[64, 512], &[512]]);
        assert!(small.is_of_model(&of(64, &[&[64, 512], &[64, 512], &[512]])));
        assert!(small.is_of_model(&of(256, &[&[256, 512], &[256, 512], &[512]])));
        assert!(small.is_of_model(&of(256, &[&[], &[], &[]])), "not recorded");
        assert!(!small.is_of_model(&of(64, &[&[64, 4096], &[64, 4096], &[4096]])), "wider");
        assert!(!small.is_of_model(&of(256, &[&[256, 1024], &[256, 1024], &[1024]])));
        let unknown = |mut table: LayerTable| {
            table.batch = None;
            table
        };
        assert!(unknown(small.clone()).is_of_model(&of(256, &[&[256, 512], &[256, 512], &[512]])));
        assert!(!unknown(small).is_of_model(&of(256, &[&[256, 1024], &[256, 1024], &[1024]])));
    }

    #[test]
    fn models_devices_and_levels_are_profiles_of_their_own_and_compared_with_the_first() {
        let catalog = Catalog::builtin().unwrap();
        let (v100, a100) = (catalog.find("V100").unwrap(), catalog.find("A100").unwrap());
        let deep = Recorded { kernels: true, operators: true, ..Recorded::default() };
        let run = |name: &str, device, recorded, table| Run { name: name.to_owned(), device, recorded, table };
        let net = ["aten::conv2d", "aten::relu"];
        let runs = [
            run("net", v100, Some(deep), table(1, 10, &net)),
            run("net", v100, Some(deep), table(2, 12, &net)),
            run("net", v100, Some(deep), table(2, 14, &net)),
            run("net", v100, Some(deep), table(4, 26, &net)),
            run("net", a100, Some(deep), table(1, 5, &net)),
            run("net", a100, Some(deep), table(2, 5, &net)),
            run("net", v100, Some(Recorded::default()), table(1, 8, &[])),
            run("other", v100, Some(deep), table(4, 20, &["aten::addmm", "aten::relu", "aten::relu"])),
        ];
        let found: Vec<Profile> = profiles(&runs, None).into_iter().map(|(profile, _)| profile).collect();
        let named: Vec<_> = found
            .iter()
            .map(|it| (it.name.as_str(), it.device.as_str(), it.runs, it.optimal_batch, it.batch))
            .collect();
        assert_eq!(
            named,
            [
                ("net", v100.id.as_str(), 4, Some(2), Some(2)),
                ("net", a100.id.as_str(), 2, Some(2), Some(2)),
                ("net", v100.id.as_str(), 1, None, Some(1)),
                ("other", v100.id.as_str(), 1, None, Some(4)),
            ]
        );
        // 2 samples in 13 ms, the mean of 12 and 14; 2 in 5 ms on the other device.
        assert_eq!((found[0].latency_ns, found[0].batch_sizes[1].runs), (DurNs(13_000_000), 2));
        assert!((found[1].max_throughput_ratio.unwrap() - 13.0 / 5.0).abs() < 1e-9);
        assert_eq!((found[0].online_latency_ratio, found[1].online_latency_ratio), (None, Some(0.5)));
        assert_eq!((found[0].convolution_share, found[2].convolution_share), (Some(0.5), None));
        let (within, table) = profiles(&runs, Some(DurNs(11_000_000))).swap_remove(0);
        assert_eq!((within.optimal_batch, table.batch, table.latency), (Some(1), Some(1), DurNs(10_000_000)));
    }
}
