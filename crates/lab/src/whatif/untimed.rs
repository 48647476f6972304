//! Execution traces alone: what the models say of a step of which only operators and sizes are known, on the GPU that it was recorded on.

use retime::session::Engine;
use retime_core::device::DeviceKind;
use retime_core::graph::IterationChoice;
use retime_core::scenario::Scenario;

use super::manifest::Capture;
use super::{Answer, Constants, Row, bands, open};

const FAMILY: &str = "execution trace alone, device time";
const LIMIT: f64 = 0.20;
/// Error aimed at for device time that nothing was measured of.
const AIM: f64 = 0.10;

/// Checks all captures beside which an execution trace was recorded. In which precision operators compute is in none: that of the capture
/// is given.
pub(crate) fn check(engine: &Engine, captures: &[Capture], answer: &mut Answer) {
    for capture in captures {
        match row(engine, capture) {
            Ok(row) => answer.rows.extend(row),
            Err(error) => answer.not_checked.push(format!("{FAMILY}, {}: {error}", capture.id)),
        }
    }
    answer.sum_up(FAMILY, AIM);
}

/// Kernels' models are fitted to tables; how they start, and what frameworks' own kernels take, was chosen after seeing these captures.
fn row(engine: &Engine, capture: &Capture) -> Result<Option<Row>, String> {
    let gpu = capture.steps.first().and_then(|step| step.context.devices.first()).map(|device| &device.profile);
    let gpu = gpu.filter(|device| device.kind == DeviceKind::Gpu);
    let (Some(path), Some(gpu)) = (&capture.execution_trace, gpu) else { return Ok(None) };
    let alone = open(engine, path, IterationChoice::Default).map_err(|error| error.to_string())?;
    let rounds = capture.is_tf32().then_some("mixed-precision tf32");
    let place = format!("place-on {}", gpu.id);
    let lines = [Some(place.as_str()), rounds].into_iter().flatten();
    let scenario = Scenario::parse(lines).map_err(|error| error.to_string())?;
    let outcome = engine.evaluate(&alone, &scenario, 0);
    let got = outcome.summary.gpu_active_ns.0 as f64;
    let check = format!("{} on {}", capture.id, gpu.id);
    let row = Row::new(FAMILY, check, (capture.device_ns(), got), LIMIT, (&capture.id, Constants::Seen));
    Ok(Some(row.within(bands::around(got, bands::of_device(&outcome))).over(capture.steps.len())))
}
