//! One model on two GPUs: the device time of one predicted from the other.

use std::path::Path;

use crate::device::DeviceProfile;
use crate::graph::BuildOptions;
use crate::scenario::Scenario;
use crate::session::{Engine, Loaded, SessionError};
use crate::trace::OpenOptions;

use super::sources::Sources;
use super::{Answer, Constants, Row, bands, operators};

const FAMILY: &str = "GPU swap, device time";
const TARGET: f64 = 0.12;
const GPUS: [&str; 2] = ["H100-SXM", "MI300X"];

/// Checks each pair both ways.
pub(super) fn check(engine: &Engine, sources: &Sources, answer: &mut Answer) {
    for (h100, mi300) in &sources.pairs {
        let open = |path: &Path| -> Result<Loaded, SessionError> {
            let mut jobs = engine.load(&[path.to_path_buf()], &OpenOptions::default(), &BuildOptions::default())?;
            Ok(jobs.swap_remove(0))
        };
        match (open(h100), open(mi300)) {
            (Ok(h100), Ok(mi300)) => {
                answer.rows.extend(row(engine, &h100, &mi300, GPUS[1]));
                answer.rows.extend(row(engine, &mi300, &h100, GPUS[0]));
            }
            (Err(error), _) | (_, Err(error)) => answer.not_checked.push(format!("GPU swap: {error}")),
        }
    }
    answer.sum_up(FAMILY, TARGET);
}

/// The models' constant for instructions was chosen after seeing these traces.
fn row(engine: &Engine, from: &Loaded, to: &Loaded, gpu: &str) -> Option<Row> {
    let scenario = Scenario::parse([format!("swap-gpu {gpu}").as_str()]).ok()?;
    let device_ns =
        |loaded: &Loaded, scenario: &Scenario| engine.evaluate(loaded, scenario, 0).summary.kernel_only_ns.0 as f64;
    let unchanged = device_ns(from, &Scenario::default());
    let swapped = engine.evaluate(from, &scenario, 0);
    let got = swapped.summary.kernel_only_ns.0 as f64;
    let pair = (device_ns(to, &Scenario::default()), got);
    let bandwidth = |device: &DeviceProfile| device.bandwidth().0;
    let (here, there) = (from.context.devices.first()?, engine.catalog.find(gpu).ok()?);
    let scaled = unchanged * bandwidth(&here.profile) / bandwidth(there);
    let row = Row::new(FAMILY, format!("{} to {gpu}", from.title), pair, TARGET, (&from.title, Constants::Seen));
    let band = bands::around(got, bands::of_device(&swapped));
    let parts = operators::parts([&*from.replay], [&swapped], [&*to.replay]);
    Some(row.against(scaled, unchanged).within(band).of(parts))
}
