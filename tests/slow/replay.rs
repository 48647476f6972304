//! The replay of every trace there is.

use retime_core::analysis::replay::{ReplayReport, Responses};
use retime_core::graph::invariants;
use retime_core::sim::{Schedule, steady};

use crate::support::jobs::Opened;
use crate::support::shared;
use crate::{drawn, traces};

/// However odd a trace, its graph is sound, it replays but for starts that nothing explains, and answers to longer and shorter tasks.
#[test]
fn every_trace_replays_and_answers_to_longer_and_shorter_kernels() {
    for path in drawn(traces::all()) {
        for opened in traces::jobs(&path) {
            let (name, graph) = (&opened.name, opened.graph());
            invariants::check(graph).unwrap_or_else(|violation| panic!("{name}: {violation}"));
            let report = ReplayReport::of(graph);
            // Device work that starts late for no recorded reason is told, and is what the replay may miss.
            assert!(report.error().abs() < 0.02 + report.unexplained_share, "{name}: {report:?}");
            let Responses { kernels_doubled, kernels_halved, think_halved } = report.responses;
            // A period is from one end to the next: what ends later in both may leave less between them.
            let is_ordered = kernels_halved <= 1.05 && think_halved <= 1.05 && (0.95..=2.05).contains(&kernels_doubled);
            assert!(is_ordered, "{name}: {report:?}");
        }
    }
}

/// The steady period of an opened job in ns, and how it answers to scaled tasks.
fn repeated(opened: &Opened, lines: &[&str]) -> Option<f64> {
    let found = steady(&opened.resolve(lines).cycle, &mut Schedule::default())?;
    assert!(found.has_met(), "{}: {found:?}", opened.name);
    Some(found.low.0 as f64)
}

#[test]
fn a_step_that_repeats_never_takes_longer_for_shorter_kernels() {
    for path in drawn(traces::all()) {
        for opened in traces::jobs(&path) {
            let Some(base) = repeated(&opened, &[]) else { continue };
            let periods = ["x0.25", "x0.5", "x0.8", "x1", "x1.3", "x2"].map(|factor| {
                let line = format!("scale kind=kernel {factor}");
                repeated(&opened, &[&line]).unwrap_or_default()
            });
            assert!(periods.is_sorted(), "{}: {periods:?}", opened.name);
            assert!(periods[3].to_bits() == base.to_bits(), "{}: {base} {periods:?}", opened.name);
        }
    }
}

/// Traces with the host's recorded period in ms, where that binds, and the period with kernels doubled and halved and with
/// host time halved, as shares.
const REPEATED: [(&str, f64, [f64; 3]); 4] = [
    ("resnet50-v100-dataloader/workers0.pt.trace.json.gz", 176.47, [1.11, 1.0, 0.57]),
    ("resnet50-v100-dataloader/workers4.pt.trace.json.gz", 126.27, [1.63, 1.0, 0.835]),
    ("recsys-a100x8-rank3/control.json.gz", 76.9, [1.46, 0.936, 0.857]),
    // Added up from the last rank's events, see docs/decisions/52: its hosts wait for the device in every step.
    ("torchrec-v100x4", 155.65, [1.65, 0.72, 0.94]),
];

#[test]
fn repeated_steps_take_the_recorded_period_and_answer_as_they_must() {
    for (path, expected, responses) in REPEATED {
        let Some(path) = shared(path) else { continue };
        let opened = traces::jobs(&path).swap_remove(0);
        let base = repeated(&opened, &[]).unwrap();
        assert!((base / 1e6 / expected - 1.0).abs() < 0.005, "{}: {base}", opened.name);
        let lines = ["scale kind=kernel x2", "scale kind=kernel x0.5", "scale kind=host x0.5"];
        for (line, expected) in lines.into_iter().zip(responses) {
            let got = repeated(&opened, &[line]).unwrap() / base;
            assert!((got / expected - 1.0).abs() <= 0.03, "{}: {line} {got}", opened.name);
        }
    }
}

/// A data loader that works beside the step, against the same job measured with four workers.
#[test]
fn loading_ahead_is_near_what_workers_were_measured_to_do() {
    const MEASURED_MS: f64 = 123.95;
    let Some(path) = shared("resnet50-v100-dataloader/workers0.pt.trace.json.gz") else { return };
    let opened = traces::jobs(&path).swap_remove(0);
    for line in ["scale phase=data & kind=host x0", "prefetch-input"] {
        let got = repeated(&opened, &[line]).unwrap() / 1e6;
        assert!((got / MEASURED_MS - 1.0).abs() <= 0.06, "{line}: {got} ms");
    }
}

#[test]
fn recomputed_work_pays_its_launches() {
    let Some(path) = shared("resnet50-v100-dataloader/workers0.pt.trace.json.gz") else { return };
    let opened = traces::jobs(&path).swap_remove(0);
    let base = repeated(&opened, &[]).unwrap();
    // The host binds, and every launch waits for room in the launch queue.
    let again = repeated(&opened, &["checkpoint phase=forward segments=4"]).unwrap();
    assert!(again > 1.05 * base, "{base} {again}");
}
