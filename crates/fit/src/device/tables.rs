//! The files of a calibration as rows of one device, without times that cannot be.

use std::collections::BTreeSet;

use super::super::collectives::{CollectiveRow, collective_rows, is_collectives, left_out as collectives_left_out};
use super::super::formats::{family_uses, left_out};
use super::super::{FamilyUse, FitError, Measurement, lookup_measurements, measurements};
use retime_core::cost::work::{Shape, Work};
use retime_core::device::DeviceProfile;
use retime_core::stats;

/// What the files hold.
#[derive(Default)]
pub(super) struct Tables {
    /// Rows with the position of their file.
    kernels: Vec<(usize, Measurement)>,
    pub(super) collectives: Vec<CollectiveRow>,
    names: Vec<String>,
    pub(super) families: Vec<FamilyUse>,
    /// What the files say that no fit uses, each with its file.
    pub(super) unused: Vec<String>,
}

impl Tables {
    pub(super) fn read(files: &[(String, String)]) -> Result<Self, (String, FitError)> {
        let mut tables = Self { names: files.iter().map(|(name, _)| name.clone()).collect(), ..Self::default() };
        for (at, (name, text)) in files.iter().enumerate() {
            let failed = |error| (name.clone(), error);
            if is_collectives(text) {
                tables.collectives.extend(collective_rows(text).map_err(failed)?);
                tables.say_unused(name, collectives_left_out(text).map_err(failed)?);
            } else if let Some(rows) = lookup_measurements(text).map_err(failed)? {
                let (own, fetched): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.cached.is_none());
                if !fetched.is_empty() {
                    let what = format!("{} look-ups in tables of the host: their time is the link's", fetched.len());
                    tables.say_unused(name, vec![what]);
                }
                tables.kernels.extend(own.into_iter().map(|row| (at, row.kernel)));
            } else {
                let rows = measurements(text).map_err(failed)?;
                tables.say_unused(name, left_out(text, &rows).map_err(failed)?);
                tables.kernels.extend(rows.into_iter().map(|row| (at, row)));
                tables.families.extend(family_uses(text).map_err(failed)?);
            }
        }
        Ok(tables)
    }

    fn say_unused(&mut self, file: &str, what: Vec<String>) {
        self.unused.extend(what.into_iter().map(|what| format!("{file}: {what}")));
    }

    /// The device that is calibrated, as the files name it: the only one, or the one called `wanted`.
    pub(super) fn device(&self, wanted: Option<&str>) -> Result<String, FitError> {
        let kernels = self.kernels.iter().map(|(_, row)| row.device.as_str());
        let mut names: BTreeSet<&str> = kernels.collect();
        if names.is_empty() {
            names = self.collectives.iter().map(|row| row.system.as_str()).collect();
        }
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        match (&names[..], wanted) {
            ([], _) if !self.unused.is_empty() => Err(FitError::Nothing(self.unused.join("; "))),
            ([], _) => Err(FitError::Nothing("no row of an operator that a model covers".to_owned())),
            ([only], _) => Ok(only.clone()),
            (several, Some(wanted)) if several.iter().any(|name| name == wanted) => Ok(wanted.to_owned()),
            _ => Err(FitError::SeveralDevices { devices: names }),
        }
    }

    /// The collectives to fit: those of the system recorded as `recorded` where the files hold several, and what is said of the others.
    pub(super) fn collectives_of(&self, recorded: &str) -> (Vec<CollectiveRow>, Option<String>) {
        let systems: BTreeSet<&str> = self.collectives.iter().map(|row| row.system.as_str()).collect();
        if systems.len() < 2 {
            return (self.collectives.clone(), None);
        }
        let own: Vec<CollectiveRow> = self.collectives.iter().filter(|row| row.system == recorded).cloned().collect();
        let others = self.collectives.len() - own.len();
        (own, Some(format!("{others} rows of collectives of other systems than `{recorded}`")))
    }

    /// The rows of the device recorded as `recorded`, in µs that `device` can reach.
    pub(super) fn rows_of(&self, recorded: &str, device: &DeviceProfile) -> Result<RowsOfDevice, (String, FitError)> {
        let (mut rows, mut rounding, mut slower) = (Vec::new(), 0, Vec::new());
        for (file, row) in self.kernels.iter().filter(|(_, row)| row.device == recorded) {
            if let Some((times, than)) = impossible(row, device) {
                let (line, us) = (row.line, format!("{:.4}", row.us));
                let name = self.names.get(*file).cloned().unwrap_or_default();
                let times = if times < 1e6 { format!("{times:.0}") } else { format!("{times:.1e}") };
                return Err((name, FitError::Impossible { line, us, times, than }));
            }
            slower.push(row.us / roof_us(row, device));
            match row.clone().of_one_kernel(device) {
                Some(own) => rows.push(own),
                None => rounding += 1,
            }
        }
        let of = if rounding == 1 { "row of products" } else { "rows of products" };
        let left = (rounding > 0)
            .then(|| format!("{rounding} {of} in 8 bits: most of their time is the rounding of a factor"));
        let median = stats::median(&mut slower).filter(|&times| times > SLOW);
        let warning = median.map(|times| {
            format!(
                "half of the times are {times:.0} times as long as {} needs, or longer: is the unit right?",
                device.id
            )
        });
        Ok(RowsOfDevice { rows, left, warning })
    }
}

/// The rows of one device.
pub(super) struct RowsOfDevice {
    pub(super) rows: Vec<Measurement>,
    /// What is said of those that are not used.
    pub(super) left: Option<String>,
    /// What speaks against their times as a whole.
    pub(super) warning: Option<String>,
}

/// How many times slower than the roofline the median measurement may be before its unit is asked for: units are a thousand apart.
const SLOW: f64 = 100.0;

/// The longest that anything measured may take, in µs: an hour.
const LONGEST_US: f64 = 3.6e9;

/// How many times faster than the roofline a measurement may be: algorithms save at most a factor of four of the
/// arithmetic, caches about as much of the traffic.
const IMPOSSIBLE: f64 = 12.0;

/// How many times slower than the roofline a measurement may be, and the shortest that this is asked of: no kernel is so bad,
/// and what the host adds to a call stays below.
const ENDLESS: (f64, f64) = (10_000.0, 1e6);

/// How many times, and of what, the time of `row` is off where it cannot be.
fn impossible(row: &Measurement, device: &DeviceProfile) -> Option<(f64, String)> {
    let shortest = shortest_us(&row.work, device);
    if shortest / row.us > IMPOSSIBLE {
        return Some((shortest / row.us, format!("shorter than {} can be", device.id)));
    }
    let roof = roof_us(row, device);
    let is_endless = row.us > ENDLESS.1 && row.us > ENDLESS.0 * roof;
    (is_endless || row.us > LONGEST_US).then(|| (row.us / roof, format!("longer than {} needs", device.id)))
}

/// What the roofline gives a row with the start of a kernel.
fn roof_us(row: &Measurement, device: &DeviceProfile) -> f64 {
    shortest_us(&row.work, device) + device.kernel_start.secs() * 1e6
}

/// A time that nothing undercuts by much: arithmetic at peak, or traffic at the rate of the cache.
fn shortest_us(work: &Work, device: &DeviceProfile) -> f64 {
    if matches!(work.shape, Shape::Copy { .. } | Shape::Embedding { .. }) {
        return 1e6 * work.written.0 as f64 / device.l2_bandwidth.0.max(device.dram_bandwidth.0);
    }
    let arithmetic = work.flop.0 / device.peak_rate(work.computed_with()).0.max(1.0);
    let traffic = work.bytes().0 as f64 / device.l2_bandwidth.0.max(device.dram_bandwidth.0);
    1e6 * arithmetic.max(traffic)
}

/// Whether times are of whole calls: a tenth of them within 15 % of the shortest, which is longer than kernels take to start.
pub(super) fn are_whole_calls(rows: &[Measurement]) -> bool {
    let mut times: Vec<f64> = rows.iter().map(|row| row.us).collect();
    times.sort_by(f64::total_cmp);
    times.first().zip(times.get(times.len() / 10)).is_some_and(|(first, tenth)| *first > 15.0 && *tenth < 1.15 * first)
}
