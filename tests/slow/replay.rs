//! The replay of every trace there is.

use retime_core::analysis::replay::{ReplayReport, Responses};
use retime_core::graph::invariants;

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
